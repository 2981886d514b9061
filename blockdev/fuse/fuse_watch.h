/*
 * fuse_watch: wakes a queue that sleeps in a read of its FUSE descriptor when its store has news.
 *
 * Theory of operation. A read of /dev/fuse is the cheapest way to wait for a request. With the store in local memory,
 * 4 KiB at depth 1 took 9.4 us. With an armed store and an epoll_wait() over both before each read it took 12.9 us.
 *
 * But a store may have news without a request: a donor went away or came back. So one thread, the watch, looks at the
 * queues every WATCH_MS:
 * - It calls a queue that has been idle since the last look. The queue polls its store, arms it, and sleeps again in
 *   state ARMED.
 * - It then listens to the store of that queue, and calls the queue when the store has news.
 * - A queue that gets a request while ARMED wakes the watch, which then resumes its looks.
 *
 * So with requests the cost is one look every WATCH_MS. Without requests nothing runs.
 *
 * Calling. The watch makes the queue's descriptor non-blocking, then sends its thread a signal. If the thread sleeps in
 * the read, the signal ends the read. If it was about to read, the read fails with EAGAIN. The queue makes the
 * descriptor blocking again. The only other call of that thread that a signal can interrupt is poll(2). The watch does
 * not call a queue again before it has answered. Real-time signals queue up, and could keep the thread busy.
 *
 * Threads. The watch belongs to the main thread. Any thread may call fuse_watch_wake(). Shared fields are atomic.
 */
#ifndef BLOCKDEV_FUSE_WATCH_H
#define BLOCKDEV_FUSE_WATCH_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#define FUSE_WATCH_MAX 16u
#define FUSE_WATCH_SIGNAL (SIGRTMIN + 4) /* its handler does nothing; only the queues' threads unblock it */

enum fuse_watch_state {
	FUSE_WATCH_BUSY,
	FUSE_WATCH_IDLE, /* the thread reads, is about to read, or has just read */
	FUSE_WATCH_ARMED /* the same, and the store is armed */
};

/* The part of a queue that the watch uses. */
struct fuse_watched {
	_Atomic enum fuse_watch_state state;
	_Atomic unsigned rounds; /* number of times that the queue was idle */
	_Atomic bool called;     /* set by a call, cleared by the answer */
	int store_fd, waiting_fd;
	pthread_t thread;
	/* Used by the watch's thread only. */
	unsigned seen;    /* rounds at the last look */
	bool is_listened; /* the watch listens to the store */
};

struct fuse_watch {
	struct fuse_watched *queues[FUSE_WATCH_MAX];
	unsigned count;
	int epoll, wake; /* wake: an eventfd */
	_Atomic bool stop;
	bool open, running;
	pthread_t thread;
};

/* Opens the watch without its thread. Returns 0, or -errno, and then nothing is open. */
int fuse_watch_open(struct fuse_watch *watch);
/*
 * Starts the thread. The threads of @queues run and have set their descriptors. At most FUSE_WATCH_MAX queues. Returns
 * 0 or -errno.
 */
int fuse_watch_start(struct fuse_watch *watch, struct fuse_watched *const queues[], unsigned count);
/* Ends the thread, if it runs. No queue is called afterwards. Must be called before the queues' threads are joined. */
void fuse_watch_stop(struct fuse_watch *watch);
/* The threads of the queues have ended. Accepts a watch that was never opened (all bytes zero). */
void fuse_watch_close(struct fuse_watch *watch);
/* Reports that an ARMED queue has a request. */
void fuse_watch_wake(struct fuse_watch *watch);

#endif

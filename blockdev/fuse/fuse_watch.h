/*
 * fuse_watch: wakes a queue that sleeps in a read of its FUSE descriptor when its store has something to say.
 *
 * Theory of operation. A read of /dev/fuse is the cheapest way to wait for a request: 4 KiB at depth 1 with the store
 * in local memory took 9.4 us, and 12.9 with the store armed and an epoll_wait() over both before each read. But a
 * store may have news without a request: a donor went, or is back. So one thread looks at the queues every WATCH_MS. A
 * queue that has been idle since its last look is called: then it polls its store, arms it, and sleeps again, ARMED;
 * from then on the watch sleeps on the stores' descriptors, and calls a queue whose store has news. A queue that gets a
 * request while it is armed tells the watch to go on looking. So while there are requests a look every WATCH_MS is all
 * that this costs, and when there are none nothing runs.
 *
 * Calling: the queue's descriptor is made non-blocking, then its thread gets a signal. Whichever of the two the read
 * meets ends it: the signal, if it sleeps; EAGAIN, if it was only about to. The queue makes the descriptor blocking
 * again. Nothing else that the queue's thread does can sleep, and so be interrupted, but poll(2). Nobody is called
 * twice before it has answered: signals of this kind queue up, and a thread that takes them does nothing else.
 *
 * Threads. The watch is the main thread's; fuse_watch_wake() is any's. What is shared is atomic.
 */
#ifndef BLOCKDEV_FUSE_WATCH_H
#define BLOCKDEV_FUSE_WATCH_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#define FUSE_WATCH_MAX 16u
#define FUSE_WATCH_SIGNAL (SIGRTMIN + 4) /* does nothing; only the threads of queues take it */

enum fuse_watch_state {
	FUSE_WATCH_BUSY,
	FUSE_WATCH_IDLE, /* reads, or is about to, or has just read */
	FUSE_WATCH_ARMED /* the same, and its store was armed */
};

/* What the watch knows of a queue. */
struct fuse_watched {
	_Atomic enum fuse_watch_state state;
	_Atomic unsigned rounds; /* how often it has been idle */
	_Atomic bool called;     /* until it answers, by taking this back */
	int store_fd, waiting_fd;
	pthread_t thread;
	/* The watch's own. */
	unsigned seen;    /* rounds, at its last look */
	bool is_listened; /* to its store */
};

struct fuse_watch {
	struct fuse_watched *queues[FUSE_WATCH_MAX];
	unsigned count;
	int epoll, wake; /* wake: an eventfd */
	_Atomic bool stop;
	bool open, running;
	pthread_t thread;
};

/* -errno, and nothing is open. */
int fuse_watch_open(struct fuse_watch *watch);
/* The descriptors and threads of @queues, which run, are known. */
int fuse_watch_start(struct fuse_watch *watch, struct fuse_watched *const queues[], unsigned count);
/* The threads of the queues are not joined yet; nobody will be called any more. */
void fuse_watch_stop(struct fuse_watch *watch);
/* Takes a watch that was never opened (all bytes zero). The threads of the queues have ended. */
void fuse_watch_close(struct fuse_watch *watch);
/* A queue that was armed has a request. */
void fuse_watch_wake(struct fuse_watch *watch);

#endif

/*
 * ublk_queue: one queue of a ublk device, and the thread that serves it.
 *
 * Theory of operation. A tag (a request's slot) goes round: the kernel puts a request into its descriptor and completes
 * its command in the thread's io_uring; the thread hands it to its disk queue; when that gives it back, a new command
 * (COMMIT_AND_FETCH) answers it and asks for the next one. Whatever became ready in a round is dealt with together: all
 * requests that came go to the disk before it sends them off, and all answers go to the kernel in one io_uring_enter(),
 * which is also the one that sleeps when nothing is left to do. So a request that the store answers at once costs one
 * system call, and the more there are at a time the less each costs.
 *
 * Waiting for the store. While requests are under way the thread polls store and ring in turn, for as long as answers
 * have been taking (common/spin.h) and giving its processor away in between to whoever needs it. After that, and when
 * nothing is under way, it sleeps in the ring, which also polls the disk's descriptors then. Arming those costs a call
 * or two, too much for each request; so a queue without requests does it when a tick finds that there were none since
 * the last, and then there are no more ticks.
 *
 * The kernel hands requests over by task work of this thread. COOP_TASKRUN: it does not interrupt the thread for that,
 * since the thread gets to it anyway with each of its system calls, those of the store's included, and sees by
 * TASKRUN_FLAG when there is some while it makes none. DEFER_TASKRUN, which leaves it all to io_uring_enter(), would
 * cost a call of that kind in each round of polling.
 *
 * The thread may run anywhere. Kept on the processors whose requests go to its queue it answered single requests no
 * slower, but 32 at a time much slower, for then whoever asks has to stop for it (two emulated processors).
 *
 * Lifetime. Prepare: everything that may block or fail for lack of something is got. Serve: the descriptors are mapped
 * and all tags fetched, at once after each other: with kernels before 6.16 a server that dies between those two leaves
 * a device that nobody can adopt. The end comes by ublk_queue_end(), or because the device was stopped. Either way what
 * the store has under way is waited for and answered. Requests that come in after ublk_queue_end() are left to the
 * kernel, which asks the next server. For that the ring is closed when the thread is gone, and not before: closing it
 * makes the kernel take back the requests that the thread has, and those that it is about to get it leaves to the task
 * work that hands them over, which gives them back only if the thread is ending (ublk_abort_queue() and
 * __ublk_rq_task_work() of Linux 6.12). Else the kernel would wait for them for ever.
 *
 * Threads: the functions are the front end's thread's. After ublk_queue_serve() the queue's thread allocates nothing,
 * takes no lock and logs only that something is broken.
 */
#ifndef BLOCKDEV_UBLK_QUEUE_H
#define BLOCKDEV_UBLK_QUEUE_H

#include "blockdev/disk.h"

#include <stdbool.h>

struct ublk_queue_config {
	const char *name; /* of the device */
	unsigned index;   /* of the queue */
	unsigned depth;
	uint32_t request_bytes;
	unsigned spin_us;
	bool legacy; /* ublk_control_is_legacy() */
	struct disk *disk;
	/* depth * request_bytes of memory, registered. Outlives the queue. */
	char *data;
	struct store_buffer *buffer;
};

struct ublk_queue;

/* Starts the thread and gets it ready; -errno after one logged line. */
int ublk_queue_prepare(const struct ublk_queue_config *config, struct ublk_queue **ret_queue);
/* Serves the device whose /dev/ublkcN is @fd, which outlives the queue. Returns at once, so that all queues of a device
   start together. */
void ublk_queue_serve(struct ublk_queue *queue, int fd);
/* Waits until all tags are fetched; -errno, after one logged line: the thread has ended. */
int ublk_queue_wait_served(struct ublk_queue *queue);
/* Ends the thread and frees the queue. Takes NULL, and a queue in whatever state. */
void ublk_queue_end(struct ublk_queue *queue);

#endif

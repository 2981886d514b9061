/*
 * ublk_queue: one queue of a ublk device, and the thread that serves it.
 *
 * Theory of operation. A tag is a slot for a request and goes through these steps:
 *
 * 1. The kernel puts a request into the tag's descriptor and completes the tag's command in the thread's io_uring.
 * 2. The thread submits the request to its disk queue.
 * 3. When the disk queue returns the request, a new command (COMMIT_AND_FETCH) answers it and asks for the next one.
 *
 * The thread works in rounds. All new requests go to the disk before the disk starts them. All answers go to the kernel
 * in one io_uring_enter(). That call also sleeps when no work is left. So a request that the store answers at once
 * costs one system call, and several requests share the cost.
 *
 * Waiting for the store. While requests are in progress, the thread polls store and ring in turn. It polls for as long
 * as earlier answers took (common/spin.h), and yields its CPU in between. After that, and if no request is in progress,
 * it sleeps in the ring, which then also polls the disk's descriptors. Arming these costs a call or two, which is too
 * much for each request. So a queue without requests arms them when a tick finds no request since the last tick. Then
 * the ticks stop.
 *
 * The kernel hands over requests by task work of this thread. With COOP_TASKRUN it does not interrupt the thread, which
 * runs task work in each of its system calls anyway, including those of the store. TASKRUN_FLAG shows pending task work
 * even if the thread makes no system call. With DEFER_TASKRUN, only io_uring_enter() would run task work, which costs
 * one more call per round of polling.
 *
 * The thread may run on any CPU. Binding it to the CPUs whose requests go to its queue was measured on two emulated
 * CPUs. Single requests were no slower, but 32 at a time were much slower, because the requesting program had to stop
 * for the thread.
 *
 * Lifetime. ublk_queue_prepare() takes all steps that may block or lack a resource. ublk_queue_serve() maps the
 * descriptors and fetches all tags right after each other. With kernels before 6.16, a server that dies between the two
 * leaves a device that nobody can adopt. The queue ends by ublk_queue_end(), or because the device was stopped. In both
 * cases it waits for the store's requests and answers them. Requests that arrive after ublk_queue_end() stay with the
 * kernel, which gives them to the next server.
 *
 * For this, the ring is closed only after the thread has ended. When the ring is closed, the kernel takes back the
 * requests that the thread has. Task work hands over requests that are about to reach the thread. It takes them back
 * only if the thread is ending (ublk_abort_queue() and __ublk_rq_task_work() of Linux 6.12). Otherwise the kernel would
 * wait for them forever.
 *
 * Threads. The functions belong to the front end's thread. After ublk_queue_serve(), the queue's thread does not
 * allocate or take a lock, and logs only when something is broken.
 */
#ifndef BLOCKDEV_UBLK_QUEUE_H
#define BLOCKDEV_UBLK_QUEUE_H

#include "blockdev/disk.h"

#include <stdbool.h>

struct ublk_queue_config {
	const char *name; /* the device's name */
	unsigned index;   /* the queue's index */
	unsigned depth;
	uint32_t request_bytes;
	unsigned spin_us;
	bool legacy; /* ublk_control_is_legacy() */
	struct disk *disk;
	/* The registered memory for data: depth * request_bytes. It outlives the queue. */
	char *data;
	struct store_buffer *buffer;
};

struct ublk_queue;

/* Starts the thread and prepares it. Returns 0, or -errno after one logged line. */
int ublk_queue_prepare(const struct ublk_queue_config *config, struct ublk_queue **ret_queue);
/*
 * Serves the device whose /dev/ublkcN is @fd, which outlives the queue. Returns at once, so that all queues of a device
 * start together.
 */
void ublk_queue_serve(struct ublk_queue *queue, int fd);
/* Waits until all tags are fetched. Returns 0, or -errno after one logged line; then the thread has ended. */
int ublk_queue_wait_served(struct ublk_queue *queue);
/* Ends the thread and frees the queue, in any state. Accepts NULL. */
void ublk_queue_end(struct ublk_queue *queue);

#endif

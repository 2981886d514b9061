/*
 * ublk_queue: one queue of a ublk device, and the thread that serves it.
 *
 * Theory of operation. A tag is a slot for a request. Each request goes through these steps:
 *
 * 1. The kernel writes a request into the tag's descriptor and completes the tag's command in the thread's io_uring.
 * 2. The thread submits the request to its disk queue.
 * 3. When the disk has finished the request, the thread answers it by a new command (COMMIT_AND_FETCH), which also
 *    asks for the tag's next request.
 *
 * The thread works in rounds. In a round, the thread submits all new requests to the disk before the disk starts them.
 * It submits all answers in one io_uring_enter(), which also sleeps if there is no more work. So a request that the
 * store answers at once costs one system call. If there are several such requests, they share the call.
 *
 * Waiting, with requests in progress. The thread alternately polls the disk and the ring, for as long as earlier
 * answers took (common/spin.h), and yields its processor in between. Then it arms the disk (disk_arm()), and sleeps in
 * the ring, which also polls the disk's descriptors.
 *
 * Waiting, without requests. The thread sleeps in the ring. The disk must then be armed, too, so that the store
 * learns when a donor leaves or returns. Arming the disk takes one or two system calls, which is too much after each
 * request. So a timer ticks. If there was no request since the last tick, the tick arms the disk. Then the ticks stop.
 *
 * Task work. The kernel hands over requests by task work, which this thread runs inside the kernel. With COOP_TASKRUN,
 * the kernel does not interrupt the thread for task work. It waits until the thread makes any system call, for example
 * a call of the store. TASKRUN_FLAG shows pending task work without a system call. With DEFER_TASKRUN, only
 * io_uring_enter() would run task work, which would cost one more call per round of polling.
 *
 * Processors. The thread may run on any processor. In a test on two emulated processors, each thread was bound to the
 * processors whose requests its queue gets. Single requests were no slower. But 32 requests at a time were much slower,
 * because the requesting program had to stop for the thread.
 *
 * Start and end. ublk_queue_prepare() does everything that may block or fail for lack of resources.
 * ublk_queue_serve() then maps the descriptors and fetches all tags at once. With kernels before 6.16, a server that
 * dies while it fetches the tags leaves a device that nobody can adopt. The queue ends at ublk_queue_end(), or when the
 * device is stopped. Before it ends, it waits for the requests that the store has, and answers them. Later requests
 * stay in the kernel, for the next server.
 *
 * The ring must be closed only after the thread has ended. Closing the ring returns the thread's requests to the
 * kernel. But a request may still be on its way, in task work. The kernel takes such a request back only if the thread
 * is ending (ublk_abort_queue() and __ublk_rq_task_work() of Linux 6.12). Otherwise the kernel would wait for the
 * request forever.
 *
 * Threads. The daemon's main thread calls these functions. After ublk_queue_serve(), the queue's thread does not
 * allocate or take a lock, and logs only errors.
 */
#ifndef BLOCKDEV_UBLK_QUEUE_H
#define BLOCKDEV_UBLK_QUEUE_H

#include "blockdev/disk.h"

#include <stdbool.h>

struct ublk_queue_config {
	const char *name; /* the device's name */
	unsigned index;   /* number of the queue */
	unsigned depth;
	uint32_t request_bytes;
	unsigned spin_us;
	bool legacy; /* ublk_control_is_legacy() */
	struct disk *disk;
	/* Registered memory for data: depth * request_bytes. Must outlive the queue. */
	char *data;
	struct store_buffer *buffer;
};

struct ublk_queue;

/* Creates the thread and prepares it. Returns 0, or -errno after one logged line. */
int ublk_queue_prepare(const struct ublk_queue_config *config, struct ublk_queue **ret_queue);
/* Starts to serve the device whose /dev/ublkcN is @fd, which must outlive the queue. Does not wait, so that all
   queues of a device start together. */
void ublk_queue_serve(struct ublk_queue *queue, int fd);
/* Waits until all tags are fetched. Returns 0, or -errno after one logged line. After an error the thread has
   ended. */
int ublk_queue_wait_served(struct ublk_queue *queue);
/* Ends the thread and frees the queue, in any state. Accepts NULL. */
void ublk_queue_end(struct ublk_queue *queue);

#endif

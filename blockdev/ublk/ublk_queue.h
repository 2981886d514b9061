/*
 * ublk_queue: one queue of a ublk device, and the thread that serves it.
 *
 * Theory of operation. A tag is a slot for a request. Each request of a tag goes through these steps:
 *
 * 1. The kernel writes a request into the tag's descriptor and completes the tag's command in the thread's io_uring.
 * 2. The thread submits the request to its disk queue.
 * 3. When the disk has finished the request, the thread answers it by a new command (COMMIT_AND_FETCH), which also
 *    asks for the tag's next request.
 *
 * The thread works in rounds. In a round, all new requests are submitted to the disk before the disk starts them.
 * All answers are submitted in one io_uring_enter(), which also sleeps if there is no more work. So a request that
 * the store answers at once costs one system call, and several requests share it.
 *
 * Waiting, with requests in progress. The thread alternately polls the disk and the ring, for as long as earlier
 * answers took (common/spin.h), and yields its processor in between. Then it arms the disk, and sleeps in the ring,
 * which also polls the disk's descriptors.
 *
 * Waiting, without requests. The thread sleeps in the ring. The disk must then be armed, too, so that the store
 * learns when a donor leaves or returns. Arming takes a system call or two, which is too much after each request.
 * So a tick arms the disk, if there was no request since the last tick. Then the ticks stop.
 *
 * Task work. The kernel hands over requests by task work of this thread. With COOP_TASKRUN, the kernel does not
 * interrupt the thread for that. It waits until the thread makes some system call, for example one of the store's.
 * TASKRUN_FLAG shows pending task work without a system call. With DEFER_TASKRUN, only io_uring_enter() would run
 * task work, which would cost one more call per round of polling.
 *
 * Processors. The thread may run on any processor. In a test on two emulated processors, each thread was bound to
 * the processors whose requests its queue gets. Single requests were no slower, but 32 at a time were much slower,
 * because the requesting program had to stop for the thread.
 *
 * Start and end. ublk_queue_prepare() does everything that may block or fail for lack of resources.
 * ublk_queue_serve() then maps the descriptors and fetches all tags at once. With kernels before 6.16, a server
 * that dies between these steps leaves a device that nobody can adopt. The queue ends by ublk_queue_end(), or when
 * the device is stopped. It first waits for the requests that the store has, and answers them. Later requests stay
 * in the kernel, for the next server.
 *
 * The ring must be closed after the thread has ended. Closing it returns the thread's requests to the kernel. But a
 * request may still be on its way, in task work. The kernel takes such a request back only if the thread is ending
 * (ublk_abort_queue() and __ublk_rq_task_work() of Linux 6.12). Otherwise the kernel would wait for the request
 * forever.
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

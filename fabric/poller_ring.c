/*
 * poller_ring: implements poller.h with io_uring.
 *
 * Theory of operation. ring_arm() queues a poll request that io_uring completes once. ring_wait() submits all queued
 * requests and sleeps, in one system call. `slot` is the source's index in the table of slots. The user data of a
 * request is this index and the slot's generation. The generation changes when the source is armed again or removed,
 * so late completions of old requests are recognized and ignored.
 *
 * A poll request belongs to the thread that submitted it, which has two consequences. When this thread exits, the
 * kernel cancels the request, and the owner of the poller gets a spurious ready(). And the kernel completes the
 * request in the context of this thread: while the thread waits in a page fault, nothing completes. Therefore, code
 * that serves page faults of a program opens its fabric on a thread of its own (pager/thread.h).
 *
 * All io_uring operations used here exist since Linux 6.1. If ring_open() fails, poller.c uses epoll.
 */
#include "fabric/poller.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#define SUBMISSIONS 64
#define COMPLETIONS 1024
/* If io_uring_enter(2) fails, for example because a seccomp filter was installed later, the poller reports all sources
   as ready at this interval. */
#define BROKEN_NS 200000

struct slot {
	struct poller_source *source; /* NULL if free */
	uint32_t generation;
	uint32_t next_free;
};

struct ring {
	struct poller base;
	struct io_uring uring;
	struct slot *slots; /* slot 0 is never used, so user data 0 means no source */
	uint32_t slot_count, free_head;
};

/* liburing maps and unmaps the memory of rings by bare system calls, which ThreadSanitizer does not see. If a ring has
   the address of an earlier ring of another thread, ThreadSanitizer would report a race. These macros tell
   ThreadSanitizer that the earlier ring was unmapped before. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RING_SEEN_BY_TSAN
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(RING_SEEN_BY_TSAN)
void __tsan_acquire(void *address);
void __tsan_release(void *address);
static char ring_memory;
#define ring_mapped() __tsan_acquire(&ring_memory)
#define ring_unmapping() __tsan_release(&ring_memory)
#else
#define ring_mapped() ((void)0)
#define ring_unmapping() ((void)0)
#endif

static struct ring *ring_of(struct poller *poller)
{
	return (struct ring *)poller;
}

static int ring_open(struct poller **ret_poller)
{
	struct io_uring_params parameters = {.flags = IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE |
						      IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
						      IORING_SETUP_TASKRUN_FLAG,
					     .cq_entries = COMPLETIONS};
	struct ring *ring = calloc(1, sizeof *ring);
	int status;

	if (!ring)
		return -ENOMEM;
	ring->base.operations = &poller_ring_operations;
	status = io_uring_queue_init_params(SUBMISSIONS, &ring->uring, &parameters);
	ring_mapped();
	if (status < 0) {
		free(ring);
		return status;
	}
	if (!(parameters.features & IORING_FEAT_EXT_ARG)) {
		ring_unmapping();
		io_uring_queue_exit(&ring->uring);
		free(ring);
		return -ENOSYS;
	}
	*ret_poller = &ring->base;
	return 0;
}

static void ring_close(struct poller *poller)
{
	struct ring *ring = ring_of(poller);

	ring_unmapping();
	io_uring_queue_exit(&ring->uring);
	free(ring->slots);
	free(ring);
}

static int ring_fd(const struct poller *poller)
{
	return ((const struct ring *)poller)->uring.ring_fd;
}

static int ring_add(struct poller *poller, struct poller_source *source)
{
	struct ring *ring = ring_of(poller);
	struct slot *slots;
	uint32_t count;

	if (!ring->free_head) {
		count = ring->slot_count ? ring->slot_count * 2 : 16;
		slots = realloc(ring->slots, count * sizeof *slots);
		if (!slots)
			return -ENOMEM;
		ring->slots = slots;
		for (uint32_t i = count - 1; i >= ring->slot_count && i > 0; i--) {
			slots[i] = (struct slot){.next_free = ring->free_head};
			ring->free_head = i;
		}
		ring->slot_count = count;
	}
	source->slot = ring->free_head;
	source->armed = 0;
	ring->free_head = ring->slots[source->slot].next_free;
	ring->slots[source->slot].source = source;
	return 0;
}

static uint64_t slot_data(const struct ring *ring, uint32_t slot)
{
	return (uint64_t)ring->slots[slot].generation << 32 | slot;
}

static struct io_uring_sqe *ring_submission(struct ring *ring)
{
	struct io_uring_sqe *submission = io_uring_get_sqe(&ring->uring);

	while (!submission && io_uring_submit(&ring->uring) >= 0)
		submission = io_uring_get_sqe(&ring->uring);
	return submission;
}

/* Cancels the poll request of this slot. Its completion is ignored, even if it is in the ring already. */
static void slot_cancel(struct ring *ring, uint32_t slot)
{
	struct io_uring_sqe *submission = ring_submission(ring);

	if (submission) {
		io_uring_prep_poll_remove(submission, slot_data(ring, slot));
		submission->user_data = 0;
	}
	ring->slots[slot].generation++;
}

static void ring_remove(struct poller *poller, struct poller_source *source)
{
	struct ring *ring = ring_of(poller);
	uint32_t slot = source->slot;

	if (source->armed) {
		slot_cancel(ring, slot);
		/* Submits the cancellation now: until then, the request keeps the socket open, even after its
		   descriptor is closed. */
		io_uring_submit(&ring->uring);
	}
	source->armed = 0;
	ring->slots[slot].generation++;
	ring->slots[slot].source = NULL;
	ring->slots[slot].next_free = ring->free_head;
	ring->free_head = slot;
}

static void ring_arm(struct poller *poller, struct poller_source *source, unsigned events)
{
	struct ring *ring = ring_of(poller);
	struct io_uring_sqe *submission;
	unsigned mask = 0;

	if (source->armed)
		slot_cancel(ring, source->slot);
	submission = ring_submission(ring);
	if (!submission) {
		source->armed = 0;
		return; /* the next wait will also fail, and then report all sources */
	}
	if (events & POLLER_IN)
		mask |= POLLIN | POLLRDHUP;
	if (events & POLLER_OUT)
		mask |= POLLOUT;
	io_uring_prep_poll_add(submission, source->fd, mask);
	submission->user_data = slot_data(ring, source->slot);
	source->armed = events;
}

static bool completion_tell(struct ring *ring, const struct io_uring_cqe *completion)
{
	uint32_t slot = (uint32_t)completion->user_data;
	struct poller_source *source;
	unsigned told = 0;

	if (slot == 0 || slot >= ring->slot_count || slot_data(ring, slot) != completion->user_data)
		return false;
	source = ring->slots[slot].source;
	if (completion->res < 0 || completion->res & (POLLIN | POLLRDHUP | POLLHUP | POLLERR))
		told |= POLLER_IN;
	if (completion->res < 0 || completion->res & (POLLOUT | POLLHUP | POLLERR))
		told |= POLLER_OUT;
	source->armed = 0;
	ring->slots[slot].generation++;
	source->ready(source, told);
	return true;
}

/* Reports every source as ready, because the ring no longer works. The owners then read their descriptors. */
static int ring_tell_all(struct ring *ring)
{
	const struct timespec pause = {.tv_nsec = BROKEN_NS};
	int count = 0;

	nanosleep(&pause, NULL);
	for (uint32_t i = 1; i < ring->slot_count; i++) {
		if (!ring->slots[i].source)
			continue;
		ring->slots[i].source->armed = 0;
		ring->slots[i].source->ready(ring->slots[i].source, POLLER_IN | POLLER_OUT);
		count++;
	}
	return count;
}

static bool ring_has_found(const struct poller *poller)
{
	return io_uring_cq_ready(&((const struct ring *)poller)->uring);
}

static int ring_wait(struct poller *poller, int64_t timeout_ns)
{
	struct __kernel_timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
	struct ring *ring = ring_of(poller);
	struct io_uring_cqe *completion = NULL;
	unsigned head, taken = 0;
	int status = 0, count = 0;

	if (timeout_ns < 0)
		status = io_uring_submit_and_wait(&ring->uring, 1);
	else if (timeout_ns > 0)
		status = io_uring_submit_and_wait_timeout(&ring->uring, &completion, 1, &timeout, NULL);
	else if (io_uring_sq_ready(&ring->uring))
		status = io_uring_submit(&ring->uring);
	else
		io_uring_peek_cqe(&ring->uring, &completion); /* makes a system call only if the kernel asks for one */
	if (status < 0 && status != -ETIME && status != -EINTR && status != -EBUSY && status != -EAGAIN)
		return ring_tell_all(ring);
	io_uring_for_each_cqe(&ring->uring, head, completion)
	{
		taken++;
		count += completion_tell(ring, completion);
	}
	io_uring_cq_advance(&ring->uring, taken);
	return count;
}

const struct poller_operations poller_ring_operations = {
    .name = "io_uring",
    .open = ring_open,
    .close = ring_close,
    .fd = ring_fd,
    .add = ring_add,
    .remove = ring_remove,
    .arm = ring_arm,
    .has_found = ring_has_found,
    .wait = ring_wait,
};

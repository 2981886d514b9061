#include "blockdev/ublk/ublk_queue.h"

#include "blockdev/ublk/ublk_request.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/spin.h"
#include "common/thread.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)
#define STACK_TOUCHED (96u << 10)
#define PAGE 4096u
/* Sources of completions other than tags: the disk's two descriptors, ublk_queue_end(), and the tick. */
enum { SOURCE_STORE, SOURCE_LOCKS, SOURCE_END, SOURCE_TICK, SOURCES };
#define SOURCE_DATA(source) (UINT64_MAX - (source))
/* A queue without requests arms its disk within two ticks. */
static struct __kernel_timespec tick = {.tv_nsec = 100000000};
/* number of polls between two looks at the clock */
#define POLLS_A_LOOK 4

enum phase { PHASE_PREPARING, PHASE_PREPARED, PHASE_FETCHING, PHASE_SERVING, PHASE_ENDED };

struct ublk_queue {
	struct ublk_queue_config config;
	struct io_uring ring;
	struct disk_queue *disk;
	const volatile struct ublk_descriptor *descriptors;
	size_t descriptors_bytes;
	struct disk_request *requests; /* by tag */
	struct disk_request **done;
	unsigned fetched;       /* number of tags that the kernel has not ended */
	int sources[SOURCES];   /* descriptors of the sources; the tick has none */
	bool polled[SOURCES];   /* the ring waits for the source */
	uint32_t fetch, commit; /* the two operations, encoded */
	struct spin spin;
	bool complained;
	bool used;                 /* there was a request since the last tick */
	bool ticked;               /* the timer has expired in this round */
	bool told;                 /* the disk may have work */
	bool armed;                /* a tick has armed the disk */
	uint64_t unanswered_since; /* if polling ended without an answer: when that polling began; otherwise 0 */

	pthread_t thread;
	char name[16];
	int fd;
	atomic_bool end;
	/* The main thread waits for the progress of the queue's thread. */
	pthread_mutex_t lock;
	pthread_cond_t moved;
	enum phase phase;
	int status;
};

static void queue_move(struct ublk_queue *queue, enum phase phase, int status)
{
	pthread_mutex_lock(&queue->lock);
	queue->phase = phase;
	queue->status = status;
	pthread_cond_broadcast(&queue->moved);
	pthread_mutex_unlock(&queue->lock);
}

/* Waits until the phase is no longer @phase. Returns the new phase. */
static enum phase queue_wait_past(struct ublk_queue *queue, enum phase phase)
{
	enum phase now;

	pthread_mutex_lock(&queue->lock);
	while (queue->phase == phase)
		pthread_cond_wait(&queue->moved, &queue->lock);
	now = queue->phase;
	pthread_mutex_unlock(&queue->lock);
	return now;
}

/* --- Commands to the kernel ------------------------------------------------------------------------------ */

static void tag_command(struct ublk_queue *queue, unsigned tag, uint32_t operation, int32_t result)
{
	struct io_uring_sqe *submission = io_uring_get_sqe(&queue->ring);
	struct ublk_io_command command = {.queue = (uint16_t)queue->config.index,
					  .tag = (uint16_t)tag,
					  .result = result,
					  .address = (uintptr_t)queue->config.data +
						     (uint64_t)tag * queue->config.request_bytes};

	/* An entry is always free: the ring has an entry for each tag, and a tag has one command at a time. */
	io_uring_prep_rw(IORING_OP_URING_CMD, submission, 0, NULL, 0, 0);
	submission->flags = IOSQE_FIXED_FILE;
	submission->cmd_op = operation;
	submission->user_data = tag;
	memcpy((char *)submission + offsetof(struct io_uring_sqe, cmd), &command, sizeof command);
}

static void source_poll(struct ublk_queue *queue, unsigned source)
{
	struct io_uring_sqe *submission;

	if (queue->polled[source] || queue->sources[source] < 0)
		return;
	submission = io_uring_get_sqe(&queue->ring);
	io_uring_prep_poll_add(submission, queue->sources[source], POLLIN);
	submission->user_data = SOURCE_DATA(source);
	queue->polled[source] = true;
}

static void source_tick(struct ublk_queue *queue)
{
	struct io_uring_sqe *submission;

	if (queue->polled[SOURCE_TICK] || queue->armed)
		return;
	submission = io_uring_get_sqe(&queue->ring);
	io_uring_prep_timeout(submission, &tick, 0, 0);
	submission->user_data = SOURCE_DATA(SOURCE_TICK);
	queue->polled[SOURCE_TICK] = true;
}

static void source_take(struct ublk_queue *queue, unsigned source)
{
	queue->polled[source] = false;
	if (source == SOURCE_TICK)
		queue->ticked = true;
	else
		queue->told = true;
	if (source == SOURCE_STORE)
		queue->armed = false;
}

/* --- A round --------------------------------------------------------------------------------------------- */

static void request_take(struct ublk_queue *queue, unsigned tag)
{
	struct disk_request *request = &queue->requests[tag];
	int status = ublk_request_read(&queue->descriptors[tag], queue->config.request_bytes, request);

	if (status < 0) {
		tag_command(queue, tag, queue->commit, status);
		return;
	}
	request->data = queue->config.data + (size_t)tag * queue->config.request_bytes;
	request->buffer = queue->config.buffer;
	queue->used = true;
	queue->armed = false;
	disk_submit(queue->disk, request);
}

/* Counts a tag that the kernel has ended. ENODEV: the device was stopped. Any other result is an error; the kernel
   then sends no more requests for this tag. */
static void tag_ended(struct ublk_queue *queue, unsigned tag, int result)
{
	queue->fetched--;
	if (result != -ENODEV && !queue->complained)
		log_error("%s: the kernel refuses tag %u of queue %u: %s; detach the device", queue->config.name, tag,
			  queue->config.index, strerror(-result));
	queue->complained |= result != -ENODEV;
}

/* Takes completions from the ring, and submits new requests to the disk. */
static void ring_take(struct ublk_queue *queue)
{
	bool ending = atomic_load_explicit(&queue->end, memory_order_relaxed);
	struct io_uring_cqe *completion;
	unsigned head, count = 0;

	io_uring_for_each_cqe(&queue->ring, head, completion)
	{
		count++;
		if (completion->user_data >= SOURCE_DATA(SOURCES - 1))
			source_take(queue, (unsigned)(UINT64_MAX - completion->user_data));
		else if (completion->res != 0)
			tag_ended(queue, (unsigned)completion->user_data, completion->res);
		else if (!ending)
			request_take(queue, (unsigned)completion->user_data);
	}
	io_uring_cq_advance(&queue->ring, count);
}

/* Takes finished requests from the disk, and queues their answers in the ring. */
static unsigned disk_take(struct ublk_queue *queue)
{
	unsigned count = disk_poll(queue->disk, queue->done, queue->config.depth);

	for (unsigned i = 0; i < count; i++)
		tag_command(queue, (unsigned)(queue->done[i] - queue->requests), queue->commit,
			    ublk_request_result(queue->done[i]));
	return count;
}

/* Returns true if the ring has completions. Makes no system call if it has none. */
static bool ring_has_work(struct ublk_queue *queue)
{
	if (IO_URING_READ_ONCE(*queue->ring.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
		io_uring_get_events(&queue->ring);
	return io_uring_cq_ready(&queue->ring);
}

/* --- Waiting --------------------------------------------------------------------------------------------- */

/* Called when an answer arrives. If the polling had ended before the answer, tells spin.h how long the answer took,
   because longer polling may succeed next time. */
static void queue_answered(struct ublk_queue *queue)
{
	if (queue->unanswered_since)
		spin_learn(&queue->spin, clock_now() - queue->unanswered_since);
	queue->unanswered_since = 0;
}

/* Polls while requests are in progress. The caller has submitted all entries of the ring. Returns true if there is
   work, or false if the thread shall sleep. */
static bool queue_spin(struct ublk_queue *queue)
{
	bool last = false;
	uint64_t begin;

	if (queue->spin.ns == 0)
		return false;
	begin = clock_now();
	for (unsigned polls = 1;; polls++) {
		if (disk_take(queue)) {
			queue_answered(queue);
			return true;
		}
		if (ring_has_work(queue))
			return true;
		if (last)
			break;
		if (polls % POLLS_A_LOOK)
			continue;
		/* The requesting program or a donor may need this processor. An answer is likely once either has
		   run. */
		sched_yield();
		last = clock_now() - begin > queue->spin.ns;
	}
	if (!queue->unanswered_since)
		queue->unanswered_since = begin;
	return false;
}

/* Submits the ring's entries, and sleeps until there is a completion. */
static int queue_wait(struct ublk_queue *queue)
{
	int status;

	if (disk_queue_busy(queue->disk)) {
		if (io_uring_sq_ready(&queue->ring) && (status = io_uring_submit(&queue->ring)) < 0)
			return status;
		if (queue_spin(queue) || disk_arm(queue->disk) != 0)
			return 0;
		source_poll(queue, SOURCE_LOCKS);
	}
	source_tick(queue);
	source_poll(queue, SOURCE_STORE);
	source_poll(queue, SOURCE_END);
	return io_uring_submit_and_wait(&queue->ring, 1);
}

/* Handles a tick. If there was no request since the last tick, arms the disk, so that the store learns when a donor
   leaves or returns. */
static void queue_tick(struct ublk_queue *queue)
{
	if (!queue->used && disk_queue_busy(queue->disk) == 0) {
		queue->armed = disk_arm(queue->disk) == 0;
		queue->told = !queue->armed;
	}
	queue->used = false;
	queue->ticked = false;
}

static int queue_loop(struct ublk_queue *queue)
{
	int status = 0;

	for (;;) {
		ring_take(queue);
		if ((disk_queue_busy(queue->disk) || queue->told) && disk_take(queue))
			queue_answered(queue);
		queue->told = false;
		if (queue->ticked)
			queue_tick(queue);
		if (disk_queue_busy(queue->disk) == 0 && (queue->fetched == 0 || atomic_load(&queue->end)))
			break;
		status = queue_wait(queue);
		if (status < 0 && status != -EINTR && status != -EAGAIN && status != -EBUSY)
			return status;
	}
	/* Submits the last answers. */
	while (io_uring_sq_ready(&queue->ring) && (status = io_uring_submit(&queue->ring)) >= 0)
		;
	return status < 0 ? status : 0;
}

/* --- The thread ------------------------------------------------------------------------------------------ */

/* Touches the stack, so that serving causes no page faults. */
static __attribute__((noinline)) void stack_touch(void)
{
	volatile char room[STACK_TOUCHED];

	for (size_t i = 0; i < sizeof room; i += PAGE)
		room[i] = 0;
}

static int ring_open(struct ublk_queue *queue)
{
	unsigned flags = IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
			 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SINGLE_ISSUER;
	unsigned entries = queue->config.depth + SOURCES;
	int status = io_uring_queue_init(entries, &queue->ring, flags);

	if (status == -EINVAL)
		status = io_uring_queue_init(entries, &queue->ring, flags & ~IORING_SETUP_SINGLE_ISSUER);
	if (status < 0) {
		queue->ring.ring_fd = -1;
		return status;
	}
	io_uring_register_ring_fd(&queue->ring); /* optional; saves the kernel a lookup per call */
	return 0;
}

static int queue_prepare(struct ublk_queue *queue)
{
	int status = ring_open(queue);
	int fds[2];

	if (status < 0) {
		log_error("%s: no io_uring for queue %u of depth %u: %s", queue->config.name, queue->config.index,
			  queue->config.depth, strerror(-status));
		return status;
	}
	status = disk_queue_open(queue->config.disk, queue->config.depth, &queue->disk);
	if (status < 0) {
		log_error("%s: queue %u cannot reach its pages: %s", queue->config.name, queue->config.index,
			  strerror(-status));
		return status;
	}
	disk_queue_fds(queue->disk, fds);
	queue->sources[SOURCE_STORE] = fds[0];
	queue->sources[SOURCE_LOCKS] = fds[1];
	return 0;
}

/* Maps the descriptors and fetches all tags. Nothing may come between these two steps; see ublk_queue.h. */
static int queue_fetch(struct ublk_queue *queue)
{
	const struct ublk_queue_config *config = &queue->config;
	int status = io_uring_register_files(&queue->ring, &queue->fd, 1);
	void *descriptors;

	if (status < 0)
		goto refused;
	for (unsigned tag = 0; tag < config->depth; tag++)
		tag_command(queue, tag, queue->fetch, 0);
	descriptors = mmap(NULL, queue->descriptors_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, queue->fd,
			   (off_t)(config->index * UBLK_DESCRIPTORS_STRIDE));
	status = descriptors == MAP_FAILED ? -errno : io_uring_submit(&queue->ring);
	if (descriptors != MAP_FAILED)
		queue->descriptors = descriptors;
	if (status < 0)
		goto refused;
	queue->fetched = config->depth;
	return 0;
refused:
	log_error("%s: the kernel does not let queue %u be served: %s", config->name, config->index, strerror(-status));
	return status;
}

/* Closes everything except the ring; see ublk_queue.h. */
static void queue_close(struct ublk_queue *queue)
{
	io_uring_unregister_ring_fd(&queue->ring); /* fails harmlessly if this thread has registered none */
	disk_queue_close(queue->disk);
	if (queue->descriptors)
		munmap((void *)(uintptr_t)queue->descriptors, queue->descriptors_bytes);
}

static void *queue_run(void *argument)
{
	struct ublk_queue *queue = argument;
	int status;

	stack_touch();
	status = queue_prepare(queue);
	if (status < 0) {
		queue_move(queue, PHASE_ENDED, status);
		return NULL;
	}
	queue_move(queue, PHASE_PREPARED, 0);
	queue_wait_past(queue, PHASE_PREPARED);
	if (!atomic_load(&queue->end)) {
		status = queue_fetch(queue);
		if (status == 0) {
			queue_move(queue, PHASE_SERVING, 0);
			status = queue_loop(queue);
			if (status < 0)
				log_error("%s: queue %u has ended: %s", queue->config.name, queue->config.index,
					  strerror(-status));
		}
	}
	queue_close(queue);
	queue_move(queue, PHASE_ENDED, status);
	return NULL;
}

/* --- The front end's side -------------------------------------------------------------------------------- */

static void queue_free(struct ublk_queue *queue)
{
	if (queue->ring.ring_fd >= 0)
		io_uring_queue_exit(&queue->ring);
	if (queue->sources[SOURCE_END] >= 0)
		close(queue->sources[SOURCE_END]);
	pthread_cond_destroy(&queue->moved);
	pthread_mutex_destroy(&queue->lock);
	free(queue->done);
	free(queue->requests);
	free(queue);
}

static struct ublk_queue *queue_new(const struct ublk_queue_config *config)
{
	struct ublk_queue *queue = calloc(1, sizeof *queue);

	if (!queue)
		return NULL;
	queue->config = *config;
	queue->fetch = config->legacy ? UBLK_FETCH : UBLK_ENCODED_IO(UBLK_FETCH);
	queue->commit = config->legacy ? UBLK_COMMIT_AND_FETCH : UBLK_ENCODED_IO(UBLK_COMMIT_AND_FETCH);
	queue->descriptors_bytes = (config->depth * sizeof(struct ublk_descriptor) + PAGE - 1) / PAGE * PAGE;
	snprintf(queue->name, sizeof queue->name, "ublk-%.6s-q%u", config->name, config->index % 100);
	spin_init(&queue->spin, config->spin_us);
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->moved, NULL);
	queue->fd = -1;
	queue->ring.ring_fd = -1;
	queue->requests = calloc(config->depth, sizeof *queue->requests);
	queue->done = calloc(config->depth, sizeof(struct disk_request *));
	queue->sources[SOURCE_END] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (queue->requests && queue->done && queue->sources[SOURCE_END] >= 0)
		return queue;
	queue_free(queue);
	return NULL;
}

int ublk_queue_prepare(const struct ublk_queue_config *config, struct ublk_queue **ret_queue)
{
	struct ublk_queue *queue = queue_new(config);
	int status = queue ? thread_start(&queue->thread, queue->name, STACK_BYTES, queue_run, queue) : -ENOMEM;

	if (status < 0) {
		log_error("%s: no room for queue %u: %s", config->name, config->index, strerror(-status));
		if (queue)
			queue_free(queue);
		return status;
	}
	if (queue_wait_past(queue, PHASE_PREPARING) == PHASE_PREPARED) {
		*ret_queue = queue;
		return 0;
	}
	status = queue->status;
	pthread_join(queue->thread, NULL);
	queue_free(queue);
	return status;
}

void ublk_queue_serve(struct ublk_queue *queue, int fd)
{
	queue->fd = fd;
	queue_move(queue, PHASE_FETCHING, 0);
}

int ublk_queue_wait_served(struct ublk_queue *queue)
{
	return queue_wait_past(queue, PHASE_FETCHING) == PHASE_SERVING ? 0 : queue->status;
}

void ublk_queue_end(struct ublk_queue *queue)
{
	if (!queue)
		return;
	atomic_store(&queue->end, true);
	pthread_mutex_lock(&queue->lock);
	if (queue->phase == PHASE_PREPARED) {
		queue->phase = PHASE_FETCHING;
		pthread_cond_broadcast(&queue->moved);
	}
	pthread_mutex_unlock(&queue->lock);
	if (eventfd_write(queue->sources[SOURCE_END], 1) < 0)
		log_error("%s: queue %u cannot be told to end: %s", queue->config.name, queue->config.index,
			  strerror(errno));
	pthread_join(queue->thread, NULL);
	queue_free(queue);
}

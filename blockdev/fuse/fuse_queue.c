/* fuse_queue: see fuse_queue.h. */
#include "blockdev/fuse/fuse_queue.h"

#include "blockdev/fuse/fuse_file.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define HEADER_BYTES (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))
#define BATCH 16u       /* requests read or answered in a row */
#define POLLS_A_LOOK 4u /* the kernel's requests are read once in this many polls of the disk */
#define STACK_BYTES (256u << 10)
#define TOUCHED_BYTES (64u << 10) /* part of the stack that is touched before serving */
#define REPLY_BYTES 256u          /* no less than libfuse allocates for a request */
#define TICK_NS 20000000
#define TICK_SIGNAL (SIGRTMIN + 4) /* its handler does nothing; only the queues' threads unblock it */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid /* missing in glibc before 2.41 */
#endif

_Static_assert(HEADER_BYTES == 80, "what lies before the data of a WRITE");

/* --- Slots --------------------------------------------------------------------------------------------------- */

static struct fuse_slot *slot_take(struct fuse_queue *queue)
{
	return &queue->slots[queue->free[--queue->free_count]];
}

static void slot_give(struct fuse_queue *queue, struct fuse_slot *slot)
{
	slot->reply = NULL;
	queue->free[queue->free_count++] = (uint16_t)(slot - queue->slots);
}

void fuse_queue_submit(struct fuse_queue *queue, struct fuse_req *reply, enum disk_op op, uint64_t offset,
		       uint64_t length, void *data)
{
	struct fuse_slot *slot = queue->current;

	slot->reply = reply;
	slot->request =
	    (struct disk_request){.op = op, .offset = offset, .length = length, .data = data, .buffer = queue->buffer};
	disk_submit(queue->disk, &slot->request);
}

/* --- libfuse's input and output ------------------------------------------------------------------------------ */

static ssize_t io_write(int fd, struct iovec *parts, int count, void *userdata)
{
	const struct fuse_queue *queue = userdata;
	ssize_t written = 0;

	(void)fd;
	if (queue->muted) {
		for (int i = 0; i < count; i++)
			written += (ssize_t)parts[i].iov_len;
		return written;
	}
	written = writev(queue->reply_fd, parts, count);
	if (written < 0 && errno == ENODEV)
		errno = ENOENT; /* unmounted meanwhile; libfuse does not log ENOENT */
	return written;
}

/* libfuse requires this function but never calls it here, because receive() reads. */
static ssize_t io_read(int fd, void *data, size_t size, void *userdata)
{
	(void)userdata;
	return read(fd, data, size);
}

static const struct fuse_custom_io session_io = {.writev = io_write, .read = io_read};

/*
 * Lets libfuse decode the message of @size bytes in @slot. libfuse calls an operation of fuse_file.c. If that answers
 * without submitting the slot, the slot is free again.
 */
static void decode(struct fuse_queue *queue, struct fuse_slot *slot, size_t size)
{
	struct fuse_buf message = {.mem = slot->data - HEADER_BYTES, .size = size};

	queue->current = slot;
	queue->reply_fd = slot->fd;
	fuse_session_process_buf(queue->session, &message);
	if (!slot->reply)
		slot_give(queue, slot);
}

/* Answers ENOSYS, so that the kernel sends no more interrupts. Requests are never broken off. */
static void refuse_interrupt(int fd, const struct fuse_in_header *header)
{
	const struct fuse_out_header answer = {.len = sizeof answer, .error = -ENOSYS, .unique = header->unique};

	if (write(fd, &answer, sizeof answer) < 0)
		log_debug("fuse: answering an interrupt: %s", strerror(errno));
}

/* Reads one request from @fd and submits or answers it. Returns false if there was none. */
static bool receive(struct fuse_queue *queue, int fd)
{
	struct fuse_slot *slot = slot_take(queue);
	const struct fuse_in_header *header = (const void *)(slot->data - HEADER_BYTES);
	ssize_t size = read(fd, slot->data - HEADER_BYTES, HEADER_BYTES + queue->request_bytes);

	if (size >= (ssize_t)sizeof *header && header->opcode != FUSE_INTERRUPT) {
		slot->fd = fd;
		decode(queue, slot, (size_t)size);
		return true;
	}
	if (size >= (ssize_t)sizeof *header) {
		refuse_interrupt(fd, header);
	} else if (size >= 0 || (errno != EAGAIN && errno != EINTR && errno != ENOENT)) {
		if (size >= 0 || (errno != ENODEV && errno != ECONNABORTED)) /* expected: unmounted, aborted */
			log_error("fuse: reading requests: %s", size < 0 ? strerror(errno) : "too short");
		queue->ended = true;
	}
	slot_give(queue, slot);
	return size > 0;
}

/* --- Serving ------------------------------------------------------------------------------------------------- */

/* Takes up to BATCH requests from the kernel, without waiting. Returns their number. */
static unsigned take_requests(struct fuse_queue *queue)
{
	unsigned count = 0;

	while (count < BATCH && queue->free_count && !queue->ended && receive(queue, queue->fd))
		count++;
	return count;
}

/* Answers up to BATCH requests that the disk has finished. Returns their number. */
static unsigned give_answers(struct fuse_queue *queue)
{
	struct disk_request *done[BATCH];
	unsigned count = disk_poll(queue->disk, done, BATCH);

	for (unsigned i = 0; i < count; i++) {
		struct fuse_slot *slot = (struct fuse_slot *)done[i];

		queue->reply_fd = slot->fd;
		fuse_file_answer(slot);
		slot_give(queue, slot);
	}
	return count;
}

/* Sleeps until the disk or the kernel has something. Returns true if the kernel has. */
static bool sleep_for_news(struct fuse_queue *queue)
{
	int fds[2];
	struct pollfd polled[3] = {{0}};
	nfds_t count = 2;

	if (disk_arm(queue->disk))
		return false;
	disk_queue_fds(queue->disk, fds);
	polled[0] = (struct pollfd){.fd = fds[0], .events = POLLIN};
	polled[1] = (struct pollfd){.fd = fds[1], .events = POLLIN};
	if (queue->free_count && !queue->ended)
		polled[count++] = (struct pollfd){.fd = queue->fd, .events = POLLIN};
	poll(polled, count, -1);
	return polled[2].revents;
}

/* Called after polls without result while requests are in progress. Lets polling go on for spin.ns, then sleeps. */
static void wait_for_news(struct fuse_queue *queue, unsigned polls)
{
	uint64_t now;

	if (polls % POLLS_A_LOOK)
		return;
	now = clock_now();
	if (!queue->waits_since)
		queue->waits_since = now;
	if (now - queue->waits_since < queue->spin.ns) {
		sched_yield(); /* a donor on this machine, or the requesting program, may need this processor */
		return;
	}
	sleep_for_news(queue);
	queue->slept = true;
}

/* Ends the wait after an answer. If the thread has slept, spin learns how long the answer took. */
static void learn(struct fuse_queue *queue)
{
	if (queue->waits_since && queue->slept)
		spin_learn(&queue->spin, clock_now() - queue->waits_since);
	queue->waits_since = 0;
	queue->slept = false;
}

/* Starts or stops the timer. */
static void tick(struct fuse_queue *queue, bool ticks)
{
	const long ns = ticks ? TICK_NS : 0;
	const struct itimerspec period = {.it_interval.tv_nsec = ns, .it_value.tv_nsec = ns};

	queue->ticks = timer_settime(queue->timer, 0, &period, NULL) == 0 && ticks;
}

/*
 * Sleeps until the kernel has a request, and takes it. No request may be in progress. Returns the number taken: 0 if
 * the disk must be polled first.
 */
static unsigned wait_for_request(struct fuse_queue *queue)
{
	if (!queue->ticks) {
		if (!sleep_for_news(queue))
			return 0;
		tick(queue, true);
		return take_requests(queue);
	}
	if (receive(queue, queue->waiting_fd)) {
		queue->used = true;
		return 1;
	}
	if (!queue->used)
		tick(queue, false);
	queue->used = false;
	return 0;
}

static void serve(struct fuse_queue *queue)
{
	for (unsigned polls = 0; !queue->ended || disk_queue_busy(queue->disk); polls++) {
		unsigned taken = 0, given;

		if (disk_queue_busy(queue->disk) == 0)
			taken = wait_for_request(queue);
		else if (polls % POLLS_A_LOOK == 0)
			taken = take_requests(queue);
		given = give_answers(queue);
		if (given)
			learn(queue);
		if (!taken && !given && disk_queue_busy(queue->disk))
			wait_for_news(queue, polls);
	}
}

/* --- The thread ---------------------------------------------------------------------------------------------- */

/* Touches the stack and the memory that malloc will give out, so that serving takes no new page. */
static void __attribute__((noinline)) touch(struct fuse_queue *queue)
{
	volatile char stack[TOUCHED_BYTES];
	void *blocks[FUSE_DEPTH_MAX + BATCH];
	unsigned count = queue->depth + BATCH;

	for (size_t i = 0; i < sizeof stack; i += 4096)
		stack[i] = 0;
	for (unsigned i = 0; i < count; i++) {
		blocks[i] = malloc(REPLY_BYTES);
		if (blocks[i])
			memset(blocks[i], 0, REPLY_BYTES);
	}
	for (unsigned i = count; i-- > 0;)
		free(blocks[i]);
}

static void ignore(int number)
{
	(void)number;
}

/* Makes the timer, which does not run yet, and lets its signal through. */
static int timer_open(struct fuse_queue *queue)
{
	struct sigaction action = {.sa_handler = ignore};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TICK_SIGNAL};
	sigset_t signals;

	event.sigev_notify_thread_id = gettid();
	if (sigaction(TICK_SIGNAL, &action, NULL) < 0 || timer_create(CLOCK_MONOTONIC, &event, &queue->timer) < 0)
		return -errno;
	queue->has_timer = true;
	sigemptyset(&signals);
	sigaddset(&signals, TICK_SIGNAL);
	return -pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

static void *run(void *argument)
{
	struct fuse_queue *queue = argument;
	bool prepared;

	touch(queue);
	queue->status = disk_queue_open(queue->file->disk, queue->depth, &queue->disk);
	if (queue->status == 0)
		queue->status = timer_open(queue);
	prepared = queue->status == 0;
	sem_post(&queue->prepared);
	if (prepared)
		serve(queue);
	if (queue->has_timer)
		timer_delete(queue->timer);
	disk_queue_close(queue->disk);
	return NULL;
}

int fuse_queue_start(struct fuse_queue *queue, const char *name)
{
	char thread_name[16];
	int status;

	snprintf(thread_name, sizeof thread_name, "fuse%u-%s", queue->index, name);
	status = thread_start(&queue->thread, thread_name, STACK_BYTES, run, queue);
	if (status < 0)
		return status;
	queue->running = true;
	while (sem_wait(&queue->prepared) < 0)
		; /* interrupted by a signal to the main thread */
	return queue->status;
}

void fuse_queue_join(struct fuse_queue *queue)
{
	if (queue->running)
		pthread_join(queue->thread, NULL);
	queue->running = false;
}

/* --- Opening and closing ------------------------------------------------------------------------------------- */

static int allocate(struct fuse_queue *queue)
{
	void *arena;

	queue->slots = calloc(queue->depth, sizeof *queue->slots);
	queue->free = calloc(queue->depth, sizeof *queue->free);
	if (!queue->slots || !queue->free)
		return -ENOMEM;
	/* Each slot has an additional page in front. The headers lie at that page's end. */
	queue->slot_bytes = STORE_PAGE + queue->request_bytes;
	arena = mmap(NULL, queue->depth * queue->slot_bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (arena == MAP_FAILED)
		return -ENOMEM;
	queue->arena = arena;
	for (unsigned i = queue->depth; i-- > 0;) {
		queue->slots[i].data = queue->arena + i * queue->slot_bytes + STORE_PAGE;
		slot_give(queue, &queue->slots[i]);
	}
	return 0;
}

int fuse_queue_open(struct fuse_queue *queue, struct fuse_file *file, unsigned index, unsigned depth, unsigned spin_us)
{
	int status;

	*queue = (struct fuse_queue){.file = file,
				     .index = index,
				     .depth = depth,
				     .request_bytes = file->request_bytes,
				     .fd = -1,
				     .waiting_fd = -1};
	sem_init(&queue->prepared, 0, 0);
	spin_init(&queue->spin, spin_us);
	status = allocate(queue);
	if (status == 0)
		status =
		    store_register(disk_store(file->disk), queue->arena, depth * queue->slot_bytes, &queue->buffer);
	return status;
}

static int clone_device(int device, int flags, int *ret_fd)
{
	uint32_t number = (uint32_t)device;
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | flags);

	if (fd < 0)
		return -errno;
	if (ioctl(fd, FUSE_DEV_IOC_CLONE, &number) < 0) {
		int error = -errno;

		close(fd);
		return error;
	}
	*ret_fd = fd;
	return 0;
}

int fuse_queue_connect(struct fuse_queue *queue, int device, const void *init, size_t size)
{
	struct fuse_session *session;
	struct fuse_slot *slot;
	int status = clone_device(device, O_NONBLOCK, &queue->fd);

	if (status == 0)
		status = clone_device(device, 0, &queue->waiting_fd);
	if (status < 0)
		return status;
	session = fuse_file_session(queue);
	if (!session)
		return -ENOMEM;
	if (fuse_session_custom_io(session, &session_io, queue->fd) != 0) {
		fuse_session_destroy(session);
		return -ENOMEM;
	}
	queue->session = session; /* from here on the session closes queue->fd */
	/* Every session needs the kernel's first message. The kernel expects one answer, on the descriptor it came from. */
	slot = slot_take(queue);
	slot->fd = device;
	memcpy(slot->data - HEADER_BYTES, init, size);
	queue->muted = queue->index > 0;
	decode(queue, slot, size);
	queue->muted = false;
	return fuse_session_exited(queue->session) ? -EPROTO : 0;
}

void fuse_queue_close(struct fuse_queue *queue)
{
	if (!queue->file)
		return;
	if (queue->session)
		fuse_session_destroy(queue->session);
	else if (queue->fd >= 0)
		close(queue->fd);
	if (queue->buffer)
		store_deregister(disk_store(queue->file->disk), queue->buffer);
	if (queue->arena)
		munmap(queue->arena, queue->depth * queue->slot_bytes);
	if (queue->waiting_fd >= 0)
		close(queue->waiting_fd);
	free(queue->slots);
	free(queue->free);
	sem_destroy(&queue->prepared);
	*queue = (struct fuse_queue){0};
}

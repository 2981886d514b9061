#include "blockdev/fuse/fuse_queue.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/spin.h"
#include "common/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BATCH 16u       /* most requests read or answered in a row */
#define POLLS_A_LOOK 4u /* number of polls of the disk between two reads of requests */
#define STACK_BYTES (256u << 10)
#define TOUCHED_BYTES (64u << 10) /* the part of the stack that is touched before serving */
#define TICK_NS 20000000
#define TICK_SIGNAL (SIGRTMIN + 4) /* the handler does nothing; only the queues' threads unblock it */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid /* for glibc versions without this name */
#endif

struct fuse_queue {
	const struct fuse_file *file;
	unsigned depth;
	int fd, waiting_fd; /* `fd` is non-blocking, `waiting_fd` blocks */
	uint8_t *arena;     /* `depth` slots of slot_bytes */
	size_t slot_bytes;
	struct store_buffer *buffer;
	struct disk_queue *disk;
	struct fuse_slot *slots;
	unsigned free_count;
	uint16_t *free;
	struct spin spin;
	uint64_t waits_since; /* clock_now() when the present wait for answers began, or 0 */
	bool slept;           /* the thread slept during this wait */
	timer_t timer;
	bool has_timer;
	bool ticks; /* the timer runs */
	bool used;  /* there was a request since the last tick */
	bool ended; /* the kernel sends no more requests */
	bool running;
	pthread_t thread;
	sem_t prepared; /* posted when `status` is set */
	int status;     /* 0, or -errno of the preparation */
};

/* --- Slots --------------------------------------------------------------------------------------------------- */

static struct fuse_slot *slot_take(struct fuse_queue *queue)
{
	return &queue->slots[queue->free[--queue->free_count]];
}

static void slot_give(struct fuse_queue *queue, struct fuse_slot *slot)
{
	queue->free[queue->free_count++] = (uint16_t)(slot - queue->slots);
}

/* Reads one message from @fd, and submits or answers it. Returns false if there was none. */
static bool receive(struct fuse_queue *queue, int fd)
{
	struct fuse_slot *slot = slot_take(queue);
	ssize_t size = read(fd, slot->data - FUSE_FILE_HEADERS, FUSE_FILE_HEADERS + queue->file->request_bytes);

	slot->fd = fd;
	if (size > 0 && fuse_file_decode(queue->file, slot, (size_t)size)) {
		slot->request.buffer = queue->buffer;
		disk_submit(queue->disk, &slot->request);
		return true;
	}
	/* ENOENT: the kernel has cancelled a request. */
	if (size < 0 && errno != EAGAIN && errno != EINTR && errno != ENOENT) {
		if (errno != ENODEV && errno != ECONNABORTED) /* both expected: unmounted or aborted */
			log_error("fuse: reading requests: %m");
		queue->ended = true;
	}
	slot_give(queue, slot);
	return size > 0;
}

/* --- Serving ------------------------------------------------------------------------------------------------- */

/* Takes up to BATCH requests from the kernel. Does not wait. Returns their number. */
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
		fuse_file_answer((struct fuse_slot *)done[i]);
		slot_give(queue, (struct fuse_slot *)done[i]);
	}
	return count;
}

/* Sleeps until the disk or the kernel has work. Returns true if the kernel has a request. */
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

/* The caller has polled without result, while requests are in progress. If the wait has lasted less than spin.ns,
   returns after a yield; otherwise sleeps. */
static void wait_for_news(struct fuse_queue *queue, unsigned polls)
{
	uint64_t now;

	if (polls % POLLS_A_LOOK)
		return;
	now = clock_now();
	if (!queue->waits_since)
		queue->waits_since = now;
	if (now - queue->waits_since < queue->spin.ns) {
		sched_yield(); /* a donor on this machine, or the requesting program, may need the processor */
		return;
	}
	sleep_for_news(queue);
	queue->slept = true;
}

/* Ends the wait for an answer. If the thread has slept in this wait, tells spin.h how long the answer took. */
static void learn(struct fuse_queue *queue)
{
	if (queue->waits_since && queue->slept)
		spin_learn(&queue->spin, clock_now() - queue->waits_since);
	queue->waits_since = 0;
	queue->slept = false;
}

static void tick(struct fuse_queue *queue, bool ticks)
{
	const long ns = ticks ? TICK_NS : 0;
	const struct itimerspec period = {.it_interval.tv_nsec = ns, .it_value.tv_nsec = ns};

	queue->ticks = timer_settime(queue->timer, 0, &period, NULL) == 0 && ticks;
}

/* Must be called only while no request is in progress. Sleeps until the kernel has a request, and takes the request.
   Returns the number of requests taken, or 0 if the caller must first poll the disk. */
static unsigned wait_for_request(struct fuse_queue *queue)
{
	unsigned taken;

	if (!queue->ticks) {
		if (!sleep_for_news(queue))
			return 0;
		taken = take_requests(queue);
		tick(queue, true);
		return taken;
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

/* Touches the stack, so that serving causes no page faults. */
static void __attribute__((noinline)) stack_touch(void)
{
	volatile char stack[TOUCHED_BYTES];

	for (size_t i = 0; i < sizeof stack; i += STORE_PAGE)
		stack[i] = 0;
}

static void ignore(int number)
{
	(void)number;
}

/* Creates the timer, which does not run yet, and unblocks its signal. */
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

	stack_touch();
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

/* --- Starting and ending ------------------------------------------------------------------------------------- */

static int memory_open(struct fuse_queue *queue)
{
	void *arena;

	queue->slots = calloc(queue->depth, sizeof *queue->slots);
	queue->free = calloc(queue->depth, sizeof *queue->free);
	if (!queue->slots || !queue->free)
		return -ENOMEM;
	/* A slot is one page longer than its data: the headers are at the end of the slot's first page. */
	queue->slot_bytes = STORE_PAGE + queue->file->request_bytes;
	arena = mmap(NULL, queue->depth * queue->slot_bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (arena == MAP_FAILED)
		return -ENOMEM;
	queue->arena = arena;
	for (unsigned i = queue->depth; i-- > 0;) {
		queue->slots[i].data = queue->arena + i * queue->slot_bytes + STORE_PAGE;
		slot_give(queue, &queue->slots[i]);
	}
	return store_register(disk_store(queue->file->disk), queue->arena, queue->depth * queue->slot_bytes,
			      &queue->buffer);
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

static int thread_open(struct fuse_queue *queue, const struct fuse_queue_config *config)
{
	char name[16];
	int status;

	snprintf(name, sizeof name, "fuse%u-%s", config->index, config->name);
	status = thread_start(&queue->thread, name, STACK_BYTES, run, queue);
	if (status < 0)
		return status;
	queue->running = true;
	while (sem_wait(&queue->prepared) < 0)
		; /* interrupted by a signal */
	return queue->status;
}

int fuse_queue_start(const struct fuse_file *file, const struct fuse_queue_config *config,
		     struct fuse_queue **ret_queue)
{
	struct fuse_queue *queue = calloc(1, sizeof *queue);
	int status;

	if (!queue)
		return -ENOMEM;
	*queue = (struct fuse_queue){.file = file, .depth = config->depth, .fd = -1, .waiting_fd = -1};
	sem_init(&queue->prepared, 0, 0);
	spin_init(&queue->spin, config->spin_us);
	status = memory_open(queue);
	if (status == 0)
		status = clone_device(config->device, O_NONBLOCK, &queue->fd);
	if (status == 0)
		status = clone_device(config->device, 0, &queue->waiting_fd);
	if (status == 0)
		status = thread_open(queue, config);
	if (status < 0)
		fuse_queue_end(queue);
	else
		*ret_queue = queue;
	return status;
}

void fuse_queue_end(struct fuse_queue *queue)
{
	if (queue->running)
		pthread_join(queue->thread, NULL);
	if (queue->waiting_fd >= 0)
		close(queue->waiting_fd);
	if (queue->fd >= 0)
		close(queue->fd);
	if (queue->buffer)
		store_deregister(disk_store(queue->file->disk), queue->buffer);
	if (queue->arena)
		munmap(queue->arena, queue->depth * queue->slot_bytes);
	free(queue->slots);
	free(queue->free);
	sem_destroy(&queue->prepared);
	free(queue);
}

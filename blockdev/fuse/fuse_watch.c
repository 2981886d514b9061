/* fuse_watch: see fuse_watch.h. */
#include "blockdev/fuse/fuse_watch.h"

#include "common/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WATCH_MS 20
#define WATCH_WAKE UINT32_MAX
#define WATCH_STACK (256u << 10)

static void ignore(int number)
{
	(void)number;
}

static void call(struct fuse_watched *queue)
{
	atomic_store(&queue->called, true);
	fcntl(queue->waiting_fd, F_SETFL, O_NONBLOCK);
	pthread_kill(queue->thread, FUSE_WATCH_SIGNAL);
}

/* Listens to the queue's store until its first event (EPOLLONESHOT). */
static void listen_to(struct fuse_watch *watch, unsigned index)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = index};

	watch->queues[index]->is_listened =
	    epoll_ctl(watch->epoll, EPOLL_CTL_MOD, watch->queues[index]->store_fd, &event) == 0;
}

/* Looks at all queues, and calls or listens as needed. Returns true if there is nothing to do until an event. */
static bool look(struct fuse_watch *watch)
{
	bool quiet = true;

	for (unsigned i = 0; i < watch->count; i++) {
		struct fuse_watched *queue = watch->queues[i];
		enum fuse_watch_state state = atomic_load(&queue->state);
		unsigned rounds = atomic_load(&queue->rounds);

		if (atomic_load(&queue->called))
			quiet = false; /* its thread has not answered yet, and the reason of the call remains */
		else if (state == FUSE_WATCH_ARMED && !queue->is_listened)
			listen_to(watch, i);
		else if (state == FUSE_WATCH_IDLE && rounds == queue->seen)
			call(queue);
		quiet &= state == FUSE_WATCH_ARMED;
		queue->seen = rounds;
	}
	return quiet;
}

static void hear(struct fuse_watch *watch, uint32_t index)
{
	eventfd_t value;

	if (index == WATCH_WAKE) {
		eventfd_read(watch->wake, &value);
		return;
	}
	watch->queues[index]->is_listened = false;
	if (atomic_load(&watch->queues[index]->state) == FUSE_WATCH_ARMED)
		call(watch->queues[index]);
}

static void *run(void *argument)
{
	struct fuse_watch *watch = argument;
	bool quiet = false;

	while (!atomic_load(&watch->stop)) {
		struct epoll_event events[FUSE_WATCH_MAX + 1];
		int count = epoll_wait(watch->epoll, events, FUSE_WATCH_MAX + 1, quiet ? -1 : WATCH_MS);

		for (int i = 0; i < count; i++)
			hear(watch, events[i].data.u32);
		quiet = look(watch) && count <= 0;
	}
	return NULL;
}

int fuse_watch_open(struct fuse_watch *watch)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = WATCH_WAKE};
	struct sigaction action = {.sa_handler = ignore};
	int error;

	*watch = (struct fuse_watch){.open = true, .wake = -1};
	watch->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (watch->epoll >= 0)
		watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (watch->wake >= 0 && epoll_ctl(watch->epoll, EPOLL_CTL_ADD, watch->wake, &event) == 0 &&
	    sigaction(FUSE_WATCH_SIGNAL, &action, NULL) == 0)
		return 0;
	error = -errno;
	fuse_watch_close(watch);
	return error;
}

int fuse_watch_start(struct fuse_watch *watch, struct fuse_watched *const queues[], unsigned count)
{
	struct epoll_event nothing = {0};
	int status;

	watch->count = count;
	for (unsigned i = 0; i < count; i++) {
		watch->queues[i] = queues[i];
		if (epoll_ctl(watch->epoll, EPOLL_CTL_ADD, queues[i]->store_fd, &nothing) < 0)
			return -errno;
	}
	status = thread_start(&watch->thread, "fuse-watch", WATCH_STACK, run, watch);
	if (status < 0)
		return status;
	watch->running = true;
	return 0;
}

void fuse_watch_wake(struct fuse_watch *watch)
{
	eventfd_write(watch->wake, 1);
}

void fuse_watch_stop(struct fuse_watch *watch)
{
	if (!watch->running)
		return;
	atomic_store(&watch->stop, true);
	fuse_watch_wake(watch);
	pthread_join(watch->thread, NULL);
	watch->running = false;
}

void fuse_watch_close(struct fuse_watch *watch)
{
	if (!watch->open)
		return;
	if (watch->wake >= 0)
		close(watch->wake);
	if (watch->epoll >= 0)
		close(watch->epoll);
	*watch = (struct fuse_watch){0};
}

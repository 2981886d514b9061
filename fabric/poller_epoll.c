/* poller_epoll: implements poller.h with epoll. With EPOLLONESHOT, epoll disarms each source that it reports. Arming
   takes one system call. `slot` is 1 once the descriptor is in the epoll set. */
#include "fabric/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

/* The most sources that one call reports. The next call reports further ones. */
#define BATCH 32

struct epoll {
	struct poller base;
	int fd;
};

static int epoll_open(struct poller **ret_poller)
{
	struct epoll *epoll = calloc(1, sizeof *epoll);

	if (!epoll)
		return -ENOMEM;
	epoll->base.operations = &poller_epoll_operations;
	epoll->fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll->fd < 0) {
		int status = -errno;

		free(epoll);
		return status;
	}
	*ret_poller = &epoll->base;
	return 0;
}

static void epoll_close(struct poller *poller)
{
	struct epoll *epoll = (struct epoll *)poller;

	close(epoll->fd);
	free(epoll);
}

static int epoll_fd(const struct poller *poller)
{
	return ((const struct epoll *)poller)->fd;
}

/* Does not add the descriptor to the epoll set yet: epoll reports errors even of a descriptor that is not armed.
   epoll_arm() adds the descriptor. */
static int epoll_add(struct poller *poller, struct poller_source *source)
{
	(void)poller;
	source->armed = 0;
	source->slot = 0;
	return 0;
}

static void epoll_remove(struct poller *poller, struct poller_source *source)
{
	if (source->slot)
		epoll_ctl(((struct epoll *)poller)->fd, EPOLL_CTL_DEL, source->fd, NULL);
	source->slot = 0;
	source->armed = 0;
}

static void epoll_arm(struct poller *poller, struct poller_source *source, unsigned events)
{
	struct epoll_event event = {.events = EPOLLONESHOT, .data.ptr = source};

	if (events & POLLER_IN)
		event.events |= EPOLLIN | EPOLLRDHUP;
	if (events & POLLER_OUT)
		event.events |= EPOLLOUT;
	if (epoll_ctl(((struct epoll *)poller)->fd, source->slot ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, source->fd, &event) ==
	    0) {
		source->slot = 1;
		source->armed = events;
	}
}

static bool epoll_has_found(const struct poller *poller)
{
	(void)poller;
	return false;
}

static int epoll_look(struct poller *poller, int64_t timeout_ns)
{
	struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
	struct epoll *epoll = (struct epoll *)poller;
	struct epoll_event events[BATCH];
	int count;

	if (timeout_ns == 0)
		count = epoll_wait(epoll->fd, events, BATCH, 0);
	else
		count = epoll_pwait2(epoll->fd, events, BATCH, timeout_ns < 0 ? NULL : &timeout, NULL);
	if (count < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < count; i++) {
		struct poller_source *source = events[i].data.ptr;
		unsigned told = 0;

		if (events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			told |= POLLER_IN;
		if (events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
			told |= POLLER_OUT;
		source->armed = 0;
		source->ready(source, told);
	}
	return count;
}

const struct poller_operations poller_epoll_operations = {
    .name = "epoll",
    .open = epoll_open,
    .close = epoll_close,
    .fd = epoll_fd,
    .add = epoll_add,
    .remove = epoll_remove,
    .arm = epoll_arm,
    .has_found = epoll_has_found,
    .wait = epoll_look,
};

/* poller: see poller.h. With EPOLLONESHOT, epoll disarms each source that it reports. A source is added to the epoll
   set when it is armed first, because epoll reports errors even of a descriptor that is not armed. */
#include "fabric/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

/* The most sources that one call reports. The next call reports further ones. */
#define BATCH 32

struct poller {
	int fd;
};

int poller_open(struct poller **ret_poller)
{
	struct poller *poller = calloc(1, sizeof *poller);

	if (!poller)
		return -ENOMEM;
	poller->fd = epoll_create1(EPOLL_CLOEXEC);
	if (poller->fd < 0) {
		int status = -errno;

		free(poller);
		return status;
	}
	*ret_poller = poller;
	return 0;
}

void poller_close(struct poller *poller)
{
	if (!poller)
		return;
	close(poller->fd);
	free(poller);
}

int poller_fd(const struct poller *poller)
{
	return poller->fd;
}

void poller_remove(struct poller *poller, struct poller_source *source)
{
	if (source->added)
		epoll_ctl(poller->fd, EPOLL_CTL_DEL, source->fd, NULL);
	source->added = false;
	source->armed = 0;
}

void poller_arm(struct poller *poller, struct poller_source *source, unsigned events)
{
	struct epoll_event event = {.events = EPOLLONESHOT, .data.ptr = source};

	if ((source->armed & events) == events)
		return;
	if (events & POLLER_IN)
		event.events |= EPOLLIN | EPOLLRDHUP;
	if (events & POLLER_OUT)
		event.events |= EPOLLOUT;
	if (epoll_ctl(poller->fd, source->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, source->fd, &event) == 0) {
		source->added = true;
		source->armed = events;
	}
}

int poller_wait(struct poller *poller, int64_t timeout_ns)
{
	struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
	struct epoll_event events[BATCH];
	int count;

	if (timeout_ns == 0)
		count = epoll_wait(poller->fd, events, BATCH, 0);
	else
		count = epoll_pwait2(poller->fd, events, BATCH, timeout_ns < 0 ? NULL : &timeout, NULL);
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

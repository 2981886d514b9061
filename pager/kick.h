/*
 * kick: wakes a thread that sleeps in epoll_wait(). Makes no system call if the thread is awake.
 *
 * The sleeping thread calls kick_prepare(), checks once more whether there is work, and only then sleeps on `fd`.
 * Another thread first publishes work, then calls kick_ring(). So no wake-up is lost. One thread sleeps; any number
 * may ring.
 */
#ifndef PAGER_KICK_H
#define PAGER_KICK_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct kick {
	int fd;
	_Atomic bool asleep;
};

static inline int kick_open(struct kick *kick)
{
	kick->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	atomic_init(&kick->asleep, false);
	return kick->fd < 0 ? -errno : 0;
}

static inline void kick_close(struct kick *kick)
{
	if (kick->fd >= 0)
		close(kick->fd);
	kick->fd = -1;
}

static inline void kick_prepare(struct kick *kick)
{
	atomic_store(&kick->asleep, true);
}

/* Undoes kick_prepare() after any wake-up, and empties the descriptor. */
static inline void kick_cancel(struct kick *kick)
{
	uint64_t value;

	if (!atomic_exchange(&kick->asleep, false) && read(kick->fd, &value, sizeof value) < 0)
		return; /* kick_ring() has not written yet: the next sleep returns at once */
}

static inline void kick_ring(struct kick *kick)
{
	uint64_t one = 1;

	if (atomic_exchange(&kick->asleep, false) && write(kick->fd, &one, sizeof one) < 0)
		return; /* the counter is full, so the thread is already being woken */
}

#endif

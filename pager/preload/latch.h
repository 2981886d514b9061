/*
 * latch: a word that is set once, and threads that wait until it is set.
 *
 * The only system call is futex(2). So near threads can use a latch, also in fork handlers.
 */
#ifndef PAGER_PRELOAD_LATCH_H
#define PAGER_PRELOAD_LATCH_H

#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct latch {
	uint32_t set;
};

static inline bool latch_is_set(const struct latch *latch)
{
	return __atomic_load_n(&latch->set, __ATOMIC_ACQUIRE);
}

static inline void latch_set(struct latch *latch)
{
	__atomic_store_n(&latch->set, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &latch->set, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Waits for a wake-up, for at most @timeout (NULL: no limit). May return before the latch is set. */
static inline void latch_wait(struct latch *latch, const struct timespec *timeout)
{
	syscall(SYS_futex, &latch->set, FUTEX_WAIT_PRIVATE, 0, timeout, NULL, 0);
}

static inline void latch_await(struct latch *latch)
{
	while (!latch_is_set(latch))
		latch_wait(latch, NULL);
}

#endif

/*
 * patience: a clock that stands still while its thread gets no processor.
 *
 * Theory of operation. A loop sleeps until some time and then works briefly. If it wakes late, or its work takes long,
 * the thread had no processor. The process was stopped, or its machine was paused or is loaded. In that time the loop
 * could receive nothing, so no peer is to blame. Such time does not count. A loop that measures all deadlines by this
 * clock moves them all by its own delay. The loop does not notice a pause that ends before its intended wake-up. Such a
 * pause matters to no deadline, because none was due.
 *
 * Other threads may wake before the loop does. For them the clock stops at PATIENCE_LATE_NS after the loop's intended
 * wake-up, until the loop has woken. So they do not count a pause before the loop has noticed it. For the loop's own
 * thread, the clock never runs backwards. For other threads it may run backwards, by PATIENCE_LATE_NS, or by the length
 * of a pause while the loop worked.
 *
 * Threads. Any thread may call patience_at(). The loop's thread calls the other functions.
 */
#ifndef COMMON_PATIENCE_H
#define COMMON_PATIENCE_H

#include <stdatomic.h>
#include <stdint.h>

/* A delay up to this long is normal on any machine, and counts as time. */
#define PATIENCE_LATE_NS UINT64_C(10000000)

/* Initially all zero. */
struct patience {
	_Atomic uint32_t version; /* seqlock of the two words below: odd while they change */
	_Atomic uint64_t lost;    /* ns that do not count */
	_Atomic uint64_t limit;   /* clock_now() at which the clock stops for now, or 0 for never */
	uint64_t woken;           /* clock_now() at which the loop began to work, or 0 before its first sleep */
	uint64_t wanted;          /* clock_now() of the intended wake-up, or UINT64_MAX for none */
};

/* Returns what this clock shows when clock_now() is @clock. */
uint64_t patience_at(const struct patience *patience, uint64_t clock);
/* Must be called before the loop sleeps until this clock shows @due (UINT64_MAX: no time limit). @clock is clock_now().
   Returns the timeout in ms, or -1 for no limit. The timeout is rounded up, so that @due has passed afterwards, and is
   at most one hour. */
int patience_sleep(struct patience *patience, uint64_t clock, uint64_t due);
/* Must be called each time the loop has woken. */
void patience_wake(struct patience *patience, uint64_t clock);

#endif

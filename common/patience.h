/*
 * patience: a clock that stops while its thread has no processor.
 *
 * Theory of operation. A thread runs a loop: it sleeps until some time, then works briefly. If it wakes late, or its
 * work takes long, it had no processor. For example, the process was stopped, or its machine was paused or is
 * overloaded. In this time the thread could receive nothing, so a peer that seems silent may not be to blame.
 * Therefore, patience does not count this time. If a loop measures its deadlines by this clock, the loop's own delays
 * defer all deadlines.
 *
 * If a pause ends before the loop wants to wake, the loop does not notice the pause. This does no harm, because no
 * deadline was due.
 *
 * Other threads may read the clock before the loop has woken. For these threads, the clock stops PATIENCE_LATE_NS after
 * the time at which the loop wanted to wake. So they do not count a pause that the loop has not noticed yet. The loop's
 * own thread never sees the clock run backwards. Other threads may see it jump back by PATIENCE_LATE_NS, or by the
 * length of a pause during the loop's work.
 *
 * Threads. Any thread may call patience_at(). Only the loop's thread calls the other functions.
 */
#ifndef COMMON_PATIENCE_H
#define COMMON_PATIENCE_H

#include <stdatomic.h>
#include <stdint.h>

/* A delay of up to this length is normal on any machine, so it counts as time. */
#define PATIENCE_LATE_NS UINT64_C(10000000)

/* All zero at the beginning. */
struct patience {
	_Atomic uint32_t version; /* sequence lock for the next two words: odd while they change */
	_Atomic uint64_t lost;    /* time that does not count so far, ns */
	_Atomic uint64_t limit;   /* when the clock stops, in clock_now(), or 0 for never */
	uint64_t woken;           /* when the loop began to work, in clock_now(), or 0 before its first sleep */
	uint64_t wanted;          /* when the loop wants to wake, in clock_now(), or UINT64_MAX for no time limit */
};

/* Returns the time that this clock shows when clock_now() is @clock. */
uint64_t patience_at(const struct patience *patience, uint64_t clock);
/* Must be called when the loop is about to sleep until this clock shows @due (UINT64_MAX for no time limit). @clock is
   clock_now(). Returns the timeout for the sleep in ms, or -1 for none. The timeout is rounded up, so that @due has
   passed afterwards, and is at most one hour. */
int patience_sleep(struct patience *patience, uint64_t clock, uint64_t due);
/* Must be called when the loop has woken. @clock is clock_now(). */
void patience_wake(struct patience *patience, uint64_t clock);

#endif

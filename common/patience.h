/*
 * patience: a clock that stands still while its thread has no processor.
 *
 * Theory of operation. A loop sleeps until a time and then works for moments. If it wakes late, or its work takes long,
 * the thread had no processor: the process was stopped, its machine was paused or is loaded. The loop has heard nobody
 * in that time, so nobody else is to blame for it. Such time does not count: a loop that measures all its deadlines by
 * this clock moves all of them by what it was late. A pause that ends before the loop wanted to wake is not noticed,
 * and costs no deadline, for none was due.
 *
 * Other threads may wake before the loop does. For them the clock stands still from PATIENCE_LATE_NS after the loop
 * wanted to wake until it has woken: they see no pause before the loop has noticed it. The clock never runs backwards
 * for the loop's own thread. For others it may, by PATIENCE_LATE_NS, or by a pause that came while the loop worked.
 *
 * Threads: patience_at(): any. The others: the loop's.
 */
#ifndef COMMON_PATIENCE_H
#define COMMON_PATIENCE_H

#include <stdatomic.h>
#include <stdint.h>

/* Less than that a thread may be late on any machine; it counts. */
#define PATIENCE_LATE_NS UINT64_C(10000000)

/* All zero at first. */
struct patience {
	_Atomic uint32_t version; /* of the two words below: odd while they change */
	_Atomic uint64_t lost;    /* ns that do not count */
	_Atomic uint64_t limit;   /* of clock_now(): what comes later does not count yet; 0: everything does */
	uint64_t woken;           /* of clock_now(): since when the loop works; 0: it has not slept yet */
	uint64_t wanted;          /* of clock_now(): when it wanted to be awake again; UINT64_MAX: not by time */
};

/* What the clock shows when clock_now() is @clock. */
uint64_t patience_at(const struct patience *patience, uint64_t clock);
/* The loop is about to sleep until its clock shows @due (UINT64_MAX: not by time), or something happens. Returns for
   how long, in ms, rounded up so that @due is over then; -1: for ever. @clock: clock_now(). */
int patience_sleep(struct patience *patience, uint64_t clock, uint64_t due);
/* The loop has woken, for whatever reason. */
void patience_wake(struct patience *patience, uint64_t clock);

#endif

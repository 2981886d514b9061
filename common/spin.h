/*
 * spin: learns from past answers how long to poll for an answer before sleeping.
 *
 * Theory of operation. Polling gets an answer sooner than sleeping does, but uses CPU time. So the time to poll
 * should be just longer than answers usually take. If an answer arrives soon after polling has ended, longer polling
 * would have caught it, so spin_learn() doubles the time. If an answer takes longer than the longest allowed polling,
 * polling is useless, and spin_learn() halves the time. Linux's halt polling works in the same way
 * (Documentation/virt/kvm/halt-polling.rst).
 *
 * For example, if answers take 80 us, the time grows to 100 us. This matters: soft-RoCE answers just after the usual
 * 50 us, and a read takes more than twice as long if its thread sleeps. If a donor is gone, the time shrinks again.
 */
#ifndef COMMON_SPIN_H
#define COMMON_SPIN_H

#include <stdint.h>

/* The longest polling time is the shortest one times this. */
#define SPIN_GROWTH 8u

struct spin {
	uint64_t least_ns, most_ns;
	uint64_t ns; /* the current polling time */
};

/* @us is the initial and shortest polling time. With 0, there is no polling. */
void spin_init(struct spin *spin, unsigned us);
/* Must be called for every answer. @took is the time in ns from the beginning of polling to the answer, including any
   sleep. */
void spin_learn(struct spin *spin, uint64_t took);

#endif

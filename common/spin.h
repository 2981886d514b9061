/*
 * spin: how long to poll for an answer before going to sleep, learnt from how long answers take.
 *
 * Theory of operation. As Linux's halt polling does (Documentation/virt/kvm/halt-polling.rst): an answer that came soon
 * after the polling was given up makes the next polling longer, one that took longer than polling could ever pay makes
 * it shorter again. So a fabric whose answers take 80 us is polled for 100, and a donor that went away is not
 * polled for.
 */
#ifndef COMMON_SPIN_H
#define COMMON_SPIN_H

#include <stdint.h>

/* How many times longer than at first it may get. */
#define SPIN_GROWTH 8u

struct spin {
	uint64_t least_ns, most_ns;
	uint64_t ns; /* to poll for now */
};

/* @us: at first and at least; 0: never. */
void spin_init(struct spin *spin, unsigned us);
/* An answer came @took ns after polling for it began, whether it was still polled for or not. */
void spin_learn(struct spin *spin, uint64_t took);

#endif

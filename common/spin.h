/*
 * spin: learns from past answers how long to poll for an answer before sleeping.
 *
 * Theory of operation. It follows Linux's halt polling (Documentation/virt/kvm/halt-polling.rst). An answer that comes
 * soon after polling ended doubles the time to poll. An answer that takes longer than the longest polling halves the
 * time to poll. So a fabric that answers after 80 us is polled for 100 us, and a donor that is gone is not polled for
 * long. Soft-RoCE answers just after the usual 50 us. If its reader sleeps, a read takes more than twice as long.
 */
#ifndef COMMON_SPIN_H
#define COMMON_SPIN_H

#include <stdint.h>

/* The longest polling, as a multiple of the shortest. */
#define SPIN_GROWTH 8u

struct spin {
	uint64_t least_ns, most_ns;
	uint64_t ns; /* the current time to poll */
};

/* Initialises @spin. @us is the initial and shortest time to poll. 0 disables polling. */
void spin_init(struct spin *spin, unsigned us);
/* Must be called for every answer. @took is the time from the beginning of polling to the answer in ns, including any
   sleep. */
void spin_learn(struct spin *spin, uint64_t took);

#endif

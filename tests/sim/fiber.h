/*
 * fiber: a call stack that can be left in the middle and entered again, so that code written for threads runs in one.
 *
 * Theory of operation. ucontext's stacks; those of fibers that have ended are kept for the next ones. AddressSanitizer
 * is told of every switch, or it would take the other stack for an overflow of this one.
 *
 * Threads: one.
 */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>

struct fiber;

/* Ends the program when there is no memory, as all of the simulator does. */
struct fiber *fiber_create(void (*run)(void *), void *argument);
/* From outside of any fiber: runs it until it leaves, or has ended. */
void fiber_enter(struct fiber *fiber);
/* From inside: back to who entered. */
void fiber_leave(void);
bool fiber_is_over(const struct fiber *fiber);
/* Of one that has ended; or that never will, whose stack is then lost. */
void fiber_free(struct fiber *fiber);

#endif

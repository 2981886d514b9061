/*
 * fiber: a call stack that can be left in the middle and entered again. So code written for threads runs in one thread.
 *
 * Theory of operation. A fiber has a stack of ucontext. Stacks of fibers that have ended are kept for new fibers. Every
 * switch is reported to AddressSanitizer, which would otherwise take the other stack for an overflow of the current
 * stack.
 *
 * Threads: one.
 */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>

struct fiber;

/* Makes a fiber. Ends the program if there is no memory, as every function of the simulator does. */
struct fiber *fiber_create(void (*run)(void *), void *argument);
/* Runs the fiber until it leaves or ends. Called outside of all fibers. */
void fiber_enter(struct fiber *fiber);
/* Leaves the running fiber, back to the caller of fiber_enter(). */
void fiber_leave(void);
bool fiber_is_over(const struct fiber *fiber);
/* Frees a fiber that has ended. The stack of a fiber that has not ended is lost. */
void fiber_free(struct fiber *fiber);

#endif

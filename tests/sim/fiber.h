/*
 * fiber: a call stack that can be left in any function and continued there later. So one thread can run code that was
 * written for several threads.
 *
 * Theory of operation. A fiber's stack is made with makecontext(3). When the fiber ends, the stack is used for the
 * next new fiber. Every switch of stacks is reported to AddressSanitizer, which otherwise takes addresses of another
 * stack for an overflow of the current one.
 *
 * Threads: one.
 */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>

struct fiber;

/* Makes a fiber. Like every function of the simulator, it ends the program if there is no memory. */
struct fiber *fiber_create(void (*run)(void *), void *argument);
/* Runs the fiber until it calls fiber_leave() or ends. Not called in a fiber. */
void fiber_enter(struct fiber *fiber);
/* Makes fiber_enter() return. The next fiber_enter() of this fiber continues here. */
void fiber_leave(void);
bool fiber_is_over(const struct fiber *fiber);
/* Frees a fiber. If the fiber has not ended, its stack is not freed. */
void fiber_free(struct fiber *fiber);

#endif

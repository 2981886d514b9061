/*
 * worker: one thread of a program, with its queue (program.h).
 *
 * Threads: one; see task.h.
 */
#ifndef SIM_WORKER_H
#define SIM_WORKER_H

#include "tests/sim/program.h"

void *worker_main(void *argument);
/* Of the process before, which was killed: what it had under way is in doubt, and to be repeated if the program does.
 */
void worker_inherit(struct worker *worker, const struct worker *before, struct program *program);

#endif

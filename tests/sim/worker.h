/*
 * worker: one thread of a program, with its queue (program.h).
 *
 * Threads: one; see task.h.
 */
#ifndef SIM_WORKER_H
#define SIM_WORKER_H

#include "tests/sim/program.h"

void *worker_main(void *argument);
/*
 * Takes over from @before, a worker of a process that was killed. The contents of its writes under way are in doubt.
 * The worker repeats these requests if program->repeat is true.
 */
void worker_inherit(struct worker *worker, const struct worker *before, struct program *program);

#endif

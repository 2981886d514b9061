/*
 * worker: a thread of a program (program.h), with its queue of the store.
 *
 * Threads: one; see task.h.
 */
#ifndef SIM_WORKER_H
#define SIM_WORKER_H

#include "tests/sim/program.h"

void *worker_main(void *argument);
/*
 * Takes over the requests of @before, a worker of a killed process. The pages of its writes in flight are torn
 * (reference.h). If program->repeat is true, the worker repeats these requests.
 */
void worker_inherit(struct worker *worker, const struct worker *before, struct program *program);

#endif

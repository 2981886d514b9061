/*
 * bench_apart: a step of a benchmark in a process of its own.
 *
 * When a donor is lost with pages that were written, libfarpage ends the process they belong to (SIGBUS, and SIGKILL to
 * one that goes on): it cannot be trusted any more. What was measured until then is still wanted, so it is in shared
 * memory, and the process that shows it is another one. A forked process cannot use RDMA devices its parent has opened;
 * so whatever talks to a donor is such a step, and the parent itself never does.
 *
 * Threads: the main one, while there is no other.
 */
#ifndef CLI_BENCH_APART_H
#define CLI_BENCH_APART_H
#include <stddef.h>

/* Zeroed memory that the steps and their parent share, for as long as the process lives; NULL: none left. */
void *bench_apart_alloc(size_t bytes);

/* @step's answer, 0 or -errno of at most 255, from a process that ends with it; -EIO if that ended by a signal.
   Whoever fails has said why. */
int bench_apart_run(int (*step)(void *context), void *context);

#endif

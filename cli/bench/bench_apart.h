/*
 * bench_apart: runs one step of a benchmark in a process of its own, so that the results survive if the step is
 * killed.
 *
 * When a donor with pages of a process is lost, libfarpage ends that process with SIGBUS, and with SIGKILL if the
 * process continues. The user still needs the measurements made before the loss. So a step writes its measurements to
 * shared memory, and its parent shows them.
 *
 * A forked process cannot use an RDMA device that its parent has opened. So only steps connect to donors, never the
 * parent.
 *
 * Threads: the main thread, while it is the only one.
 */
#ifndef CLI_BENCH_APART_H
#define CLI_BENCH_APART_H
#include <stddef.h>

/* Allocates zeroed memory that the parent and its steps share. It is never freed. Returns NULL if there is no memory
   left. */
void *bench_apart_alloc(size_t bytes);

/* Runs @step in a child process and waits for its end. @step returns 0, or -errno (at most 255) after one logged
   line. Returns what @step returned, or -EIO if a signal ended the child. Returns -EAGAIN after one logged line if
   there is no child. */
int bench_apart_run(int (*step)(void *context), void *context);

#endif

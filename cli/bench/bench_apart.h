/*
 * bench_apart: runs one step of a benchmark in a process of its own.
 *
 * If a donor is lost with pages that were written, libfarpage ends the process that owns these pages, because its
 * memory is no longer valid. It uses SIGBUS, and SIGKILL if the process continues. The measurements up to that moment
 * are still needed. So they are in shared memory, and a different process shows them.
 *
 * A forked process cannot use RDMA devices that its parent has opened. So only steps talk to donors, never the parent.
 *
 * Threads: the main thread, as long as there is no other thread.
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

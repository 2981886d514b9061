/*
 * thread: starts farpage's own threads. All signals are blocked in them, because signal handlers must run in the
 * program's threads, or in the main thread.
 *
 * Threads: any.
 */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H
#include <pthread.h>
#include <stddef.h>

/* Starts a thread. @name has at most 15 bytes; with NULL, the thread has the caller's name. @stack_bytes is at least
   PTHREAD_STACK_MIN. It should be small, because a daemon may lock its stacks in memory. Returns 0 or -errno. */
int thread_start(pthread_t *ret_thread, const char *name, size_t stack_bytes, void *(*run)(void *), void *argument);
unsigned thread_count(void);
/* Makes thread_count() return 0. Must be called in a forked child, because a child has none of its parent's
   threads. */
void thread_count_forget(void);

#endif

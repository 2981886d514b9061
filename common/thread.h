/*
 * thread: starts farpage's own threads. They block all signals, because signal handlers must run in the main thread, or
 * in a thread of the program that farpage is loaded into.
 *
 * Threads: any.
 */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H
#include <pthread.h>
#include <stddef.h>

/* Starts a thread. @name has at most 15 bytes; with NULL, the thread has the caller's name. @stack_bytes is at least
   PTHREAD_STACK_MIN. A stack should be small, because a daemon may lock its stacks in memory. Returns 0 or -errno. */
int thread_start(pthread_t *ret_thread, const char *name, size_t stack_bytes, void *(*run)(void *), void *argument);

#endif

/*
 * thread: starts one of farpage's own threads: all signals blocked, for their handlers belong to the program or to the
 * main thread, and a stack of a size that is chosen, for it may be locked in memory.
 *
 * Threads: any.
 */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H
#include <pthread.h>
#include <stddef.h>

/* @name: at most 15 bytes, or NULL: the caller's. @stack_bytes: at least PTHREAD_STACK_MIN. -errno. */
int thread_start(pthread_t *ret_thread, const char *name, size_t stack_bytes, void *(*run)(void *), void *argument);

#endif

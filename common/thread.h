/*
 * thread: starts one of farpage's own threads. All signals are blocked in it, because handlers belong to the program or
 * to the main thread. The caller chooses the stack size, because the stack may be locked in memory.
 *
 * Threads: any.
 */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H
#include <pthread.h>
#include <stddef.h>

/* Starts a thread. @name has at most 15 bytes; NULL keeps the caller's name. @stack_bytes is at least
   PTHREAD_STACK_MIN. Returns 0 or -errno. */
int thread_start(pthread_t *ret_thread, const char *name, size_t stack_bytes, void *(*run)(void *), void *argument);
/* Returns how many threads of thread_start() run in this process. */
unsigned thread_count(void);
/* Sets that count to 0. Must be called in a forked child, which has none of its parent's threads. */
void thread_count_forget(void);

#endif

/* thread: starts one of the pager's threads. The thread has a name and a stack of 256 KiB. All signals are blocked in
   it, because the program's handlers must not run there. */
#ifndef PAGER_THREAD_H
#define PAGER_THREAD_H
#include <pthread.h>
#define PAGER_STACK_BYTES (256u << 10)
#define PAGER_STACK_TOUCHED (32u << 10) /* a thread uses less: 12 KiB were seen */
/*
 * Starts a thread that calls @prepare, and then @run if @prepare returned 0. @prepare opens things that their own
 * thread must open, such as store queues. Returns when @prepare has returned: 0, or -errno if there is no thread.
 */
int pager_thread_start(pthread_t *thread, const char *name, int (*prepare)(void *), void *(*run)(void *),
		       void *argument);
#endif

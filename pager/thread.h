/*
 * thread: starts one of the pager's threads: named, with every signal blocked (the program's handlers must not run
 * on it) and a stack of 256 KiB.
 */
#ifndef PAGER_THREAD_H
#define PAGER_THREAD_H
#include <pthread.h>
#define PAGER_STACK_BYTES (256u << 10)
/*
 * The thread first calls @prepare, and @run if that returned 0. Returns when it has: 0, or -errno, and then there is
 * no thread. For what must be opened by the thread that uses it (store queues).
 */
int pager_thread_start(pthread_t *thread, const char *name, int (*prepare)(void *), void *(*run)(void *),
		       void *argument);
#endif

/* thread: starts one of the pager's threads, with a name and a stack of 256 KiB. The thread blocks all signals,
   because the program's signal handlers must not run in it. */
#ifndef PAGER_THREAD_H
#define PAGER_THREAD_H
#include <pthread.h>
#include <stdint.h>
#define PAGER_STACK_BYTES (256u << 10)
#define PAGER_STACK_TOUCHED (32u << 10) /* bytes that count against the budget; 12 KiB were seen */
/* Starts a thread that calls @prepare and, if @prepare returned 0, @run. @prepare opens objects that the thread itself
   must open, such as store queues. Waits until @prepare has returned. Returns 0 or -errno; after an error there is no
   thread. */
int pager_thread_start(pthread_t *thread, const char *name, int (*prepare)(void *), void *(*run)(void *),
		       void *argument);
/* Writes the processor time of the calling thread in user mode, in ns, to *@counter, which other threads read. */
void pager_thread_time(uint64_t *counter);
#endif

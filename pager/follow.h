/*
 * follow: chooses the processors of the pager's threads.
 *
 * The handler runs on the processor of the faulting thread, which only waits. To wake the handler on another processor
 * costs several times the fault.
 *
 * While the program has a single thread, the evictor runs on that processor, too. Then no other processor has the
 * program's pages in its TLB, so no processor is interrupted for each page taken out. With more threads, the scheduler
 * places the evictor on one of the processors that the process had at its start (taskset). The pager's threads leave
 * those processors only if the program's threads do.
 *
 * Measured: Python filled and sorted dicts on two processors, with a quarter of its memory local. It took:
 * - 25.5 s if handler and evictor follow
 * - 37.8 s if the scheduler places the evictor
 * - 53 s if neither follows (FARPAGE_FOLLOW=0)
 *
 * /proc/self/task/TID/stat tells a thread's last processor and the number of threads (proc(5)). Reading it costs some
 * microseconds, and threads rarely move. So it is read at intervals.
 */
#ifndef PAGER_FOLLOW_H
#define PAGER_FOLLOW_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
struct follow {
	uint64_t next_look; /* ns */
	int cpu;            /* the handler's processor, or -1 if it was not moved yet */
	bool off;           /* FARPAGE_FOLLOW=0 */
	/* Processor of the program's only thread, or -1 if it has several threads or none has faulted. */
	_Atomic int alone;
};
void follow_init(struct follow *follow);
/* Moves the calling thread to the processor of @thread, which faulted at @now, if that processor has changed. */
void follow_thread(struct follow *follow, pid_t thread, uint64_t now);
/* Moves the evictor, which calls this, to its right processor. @allowed is false if it must not share the program's
   processor. *@cpu is the processor on which it was put last, and -1 at first. */
void follow_alone(const struct follow *follow, bool allowed, int *cpu);
#endif

/*
 * follow: chooses the processors of the pager's threads.
 *
 * The handler runs on the processor of the faulting thread. Waking it on another one costs several times the fault, and
 * the faulting thread only waits.
 *
 * While the program has a single thread, the evictor runs on that processor, too. Then no other processor has the
 * program's pages in its TLB, and none is interrupted for each page taken out. With more threads the evictor runs where
 * the scheduler puts it, on the processors that the process had when it began (taskset). No thread of the pager leaves
 * those processors unless the program's own threads do.
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
	int cpu;            /* processor of the calling thread, or -1 if it was not moved yet */
	bool off;           /* FARPAGE_FOLLOW=0 */
	/* Processor of the program's only thread, or -1 if it has several threads or none has faulted. */
	_Atomic int alone;
};
void follow_init(struct follow *follow);
/* Moves the calling thread to the processor of @thread, which faulted at @now, if that processor has changed. */
void follow_thread(struct follow *follow, pid_t thread, uint64_t now);
/* Moves the calling thread, the evictor, to the processor where it belongs now. @allowed is false if it must not share
   the program's processor. @cpu is where it was put last, -1 at first. */
void follow_alone(const struct follow *follow, bool allowed, int *cpu);
#endif

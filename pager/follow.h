/*
 * follow: chooses the processors on which the pager's threads run.
 *
 * The handler runs on the processor of the faulting thread, which may be one of a forked child. That processor is free,
 * because the thread waits for the handler. Waking the handler on another processor would take several times as long as
 * the fault itself.
 *
 * While a single thread of the program faults, the evictor runs on the same processor, too. If that thread is the only
 * one that runs, no other processor has the program's pages in its TLB, so evictions need not interrupt other
 * processors. If several threads fault, the scheduler chooses the evictor's processor, among those that the process had
 * at its start (taskset). The pager's threads use other processors only to follow a thread of the program.
 *
 * In a measurement, Python filled and sorted dicts on two processors, with a quarter of its memory local. Python took:
 * - 25.5 s if handler and evictor follow
 * - 37.8 s if the scheduler places the evictor
 * - 53 s if neither follows (FARPAGE_FOLLOW=0)
 *
 * Threads that do not fault do not count. For example, Redis has threads that only sleep. A digest of its keys took
 * 8.2 s (median). It took 13.8 s when such threads counted, because the scheduler often moved the faulting thread away
 * from the handler.
 *
 * /proc/self/task/TID/stat has a thread's last processor (proc(5)); for a thread of a child it is /proc/TID/stat. The
 * handler reads this file at most every 5 ms, because a read takes some microseconds and threads rarely move.
 */
#ifndef PAGER_FOLLOW_H
#define PAGER_FOLLOW_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
struct follow {
	uint64_t next_look; /* when the file is next read, ns */
	pid_t thread;       /* the program's thread that faulted last, or 0 */
	uint64_t since;     /* when that thread became the last to fault, ns */
	int cpu;            /* the handler's processor, or -1 while it was never pinned */
	bool off;           /* FARPAGE_FOLLOW=0 */
	/* The processor of the only thread of the program that faults. -1 if several threads fault, or in the first
	   20 ms. */
	_Atomic int alone;
};
void follow_init(struct follow *follow);
/* Pins the calling thread to the processor of @thread, which faulted at @now (ns). @own: it is a thread of this
   process, and not of a forked child. */
void follow_thread(struct follow *follow, pid_t thread, bool own, uint64_t now);
/* Pins the evictor, which calls this, to the processor of the only thread that faults. Unpins the evictor if several
   threads fault or @allowed is false. *@cpu is the processor to which the evictor is pinned, or -1; the caller
   sets -1 at first. */
void follow_alone(const struct follow *follow, bool allowed, int *cpu);
#endif

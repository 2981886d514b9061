/*
 * follow: where the pager's threads run.
 *
 * The handler runs on the processor of the thread that faults: waking it on another one costs several times the fault,
 * and there the faulting thread only waits. While the program has a single thread the evictor runs there too: then no
 * other processor has the program's pages in its TLB, and nobody has to be interrupted for each page taken out. With
 * more threads it runs wherever the scheduler puts it, on the processors that the process was given when it began
 * (taskset). No thread of the pager leaves those unless the program's own threads do.
 *
 * /proc/self/task/TID/stat tells where a thread ran last and how many there are (proc(5)); reading it costs some
 * microseconds, so it is looked at now and then only: threads move rarely.
 */
#ifndef PAGER_FOLLOW_H
#define PAGER_FOLLOW_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
/* Threads of the pager in the program's process: control, handler, evictor. */
#define FOLLOW_OWN_THREADS 3
struct follow {
	uint64_t next_look; /* ns */
	int cpu;            /* where the calling thread was put; -1: nowhere yet */
	bool off;           /* FARPAGE_FOLLOW=0 */
	_Atomic int alone;  /* processor of the program's only thread; -1: it has several, or none has faulted */
};
void follow_init(struct follow *follow);
/* @thread faulted at @now: moves the calling thread to its processor if that has changed. */
void follow_thread(struct follow *follow, pid_t thread, uint64_t now);
/* Moves the calling thread, the evictor, to where it belongs by now; @cpu: where it was put last, at first -1. */
void follow_alone(const struct follow *follow, int *cpu);
#endif

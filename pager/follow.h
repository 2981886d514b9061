/*
 * follow: keeps the handler on the processor of the thread that faults.
 *
 * /proc/self/task/TID/stat tells where a thread ran last (field 39, proc(5)); reading it costs some microseconds, so
 * it is looked at now and then only: threads move rarely.
 */
#ifndef PAGER_FOLLOW_H
#define PAGER_FOLLOW_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
struct follow {
	uint64_t next_look; /* ns */
	int cpu;            /* where the calling thread was put; -1: nowhere yet */
	bool off;           /* FARPAGE_FOLLOW=0 */
};
void follow_init(struct follow *follow);
/* @thread faulted at @now: moves the calling thread to its processor if that has changed. */
void follow_thread(struct follow *follow, pid_t thread, uint64_t now);
#endif

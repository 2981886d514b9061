/*
 * run_coverage: how much memory of the command's processes farpage cannot send away.
 *
 * Theory of operation. Twice a second each process of the command is asked how much memory it has that is no file's
 * (RssAnon and RssShmem of proc_pid_status(5)). The pager's own count is subtracted. The rest is outside farpage's
 * reach: shared memory, a heap that grows by brk, what was mapped by system calls of the program's own, or all of it
 * in a process without farpage's library. Pages that forked processes share count in each of them there; so before
 * anything is said, smaps tells mapping by mapping: far memory has userfaultfd's flag "um", and shared pages count in
 * part. A process that has more outside than the budget is told of once, with the kind that is most of it.
 *
 * The processes are the command and its descendants, as the kernel's lists of children go; not those whose parents
 * have ended.
 *
 * Threads: one. Source: Documentation/filesystems/proc.rst.
 */
#ifndef CLI_RUN_COVERAGE_H
#define CLI_RUN_COVERAGE_H

#include "pager/counters.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_COVERAGE_LOOK_MS 500

struct run_coverage {
	const struct report *report;
	uint64_t local_bytes;   /* the budget of each process */
	bool strict;            /* a process beyond it ends the command */
	uint64_t outside_bytes; /* the most that one process was seen to have outside */
	bool ended;             /* the command, for that */
	unsigned told_count;
	pid_t told[16];
};

/* Looks at process @command and all below it. Ends them if it must. */
void run_coverage_look(struct run_coverage *coverage, pid_t command);

#endif

/*
 * run_coverage: finds memory of the command's processes that the pager cannot send to donors.
 *
 * Theory of operation. Twice a second run_coverage_look() reads how much memory each process has that is not from a
 * file (RssAnon and RssShmem of proc_pid_status(5)). It subtracts the memory that the process's pager counts. The
 * difference is memory outside farpage's reach:
 * - shared memory;
 * - a heap that grows by brk;
 * - mappings that are smaller than 16 KiB, or made by the program's own system calls;
 * - all memory of a process without farpage's library.
 *
 * This difference may be too large: if two processes share a page, RssAnon counts the whole page for each of them. So
 * if the difference exceeds the budget, the process's smaps is read mapping by mapping. In smaps, a page shared by two
 * processes counts as half a page, and far memory has userfaultfd's flag "um". If the sum over the other mappings
 * exceeds the budget as well, one line names the process and the largest kind of this memory.
 *
 * The processes are the command and its descendants according to the kernel's lists of children. Processes whose
 * parents have ended are not found.
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
	bool strict;            /* a process that exceeds the budget ends the command */
	uint64_t outside_bytes; /* the most memory outside farpage's reach that was found in one process */
	bool ended;             /* the command was killed because of `strict` */
	unsigned told_count;
	pid_t told[16];
};

/* Examines process @command and its descendants. Kills them if `strict` is set and one of them exceeds the budget. */
void run_coverage_look(struct run_coverage *coverage, pid_t command);

#endif

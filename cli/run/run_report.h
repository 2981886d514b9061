/*
 * run_report: collects the counts of the pagers of one `farpage run`. The pagers count in a file (pager/counters.h)
 * that is in memory and has no name. The pagers open this file by its path in /proc/PID/fd of `farpage run`. The kernel
 * frees the file when no process has it open. So no file remains, even if `farpage run` is killed.
 */
#ifndef CLI_RUN_REPORT_H
#define CLI_RUN_REPORT_H
#include "cli/run/advice.h"
#include "pager/counters.h"

#include <stdint.h>

/* Sums of the counts of several processes. */
struct run_sums {
	struct farpage_stats stats; /* resident_peak_bytes is the largest of all processes, and so is far_peak_bytes */
	struct histogram faults, depths;
	uint64_t pager_ns, wanted_bytes; /* as in struct advice */
	unsigned processes;
};

struct run_report {
	struct report *shared;
	char path[64]; /* the value of FARPAGE_REPORT */
	int fd;
	struct run_sums ended;            /* of processes that have ended */
	uint64_t resident_peak, far_peak; /* the most bytes of all processes together that run_report_sum() has seen */
};

/* The sums at the end of a run. */
struct run_summary {
	struct farpage_stats stats; /* sums; resident_peak_bytes is the largest of all processes */
	unsigned processes;         /* programs that started a pager */
	uint64_t peak_bytes;        /* largest resident set of any process, by the kernel's count */
	uint64_t outside_bytes;     /* the most memory that one process had outside farpage's reach */
	/* Bytes of the processes that still run. Pages of forked children count. */
	uint64_t resident_now, far_now;
	uint64_t together_peak_bytes; /* the most of resident_now that was seen during the run */
	struct advice advice;         /* also has the budget, the times, and the --local that would keep all local */
};

/* Makes the report. @told is the path of a pipe. Each process that starts a pager writes a struct report_pager into
   this pipe. Returns 0 or -errno. */
int run_report_open(const char *told, struct run_report *ret_report);
void run_report_close(struct run_report *report);
/* Fills in the fields that come from the pagers' counts. The caller has filled in the other fields. Frees the slots of
   processes that have ended, so it must be called often enough: a new process needs a free slot. */
void run_report_sum(struct run_report *report, struct run_summary *summary);
/* The size of the text of run_report_thrashed(). */
#define RUN_THRASHED_MAX 128
/* Writes a hint for the user if the command waited for far memory for more than half of its time, otherwise an
   empty text. @waited is that share of the command's time, from 0 to 1. @wanted is the --local, in bytes, that would
   have avoided these waits. Returns @text. */
const char *run_report_thrashed(double waited, uint64_t wanted, char text[RUN_THRASHED_MAX]);
/* Prints the summary as one line on standard error. */
void run_report_print(const struct run_summary *summary);
/* Checks that run_report_save() could write to @path. Makes the file if it does not exist, otherwise leaves it
   unchanged. Returns 0, or -errno after one logged line. */
int run_report_check(const char *path);
/* Writes the summary as JSON to the file at @path, which is replaced. Returns 0, or -errno after one logged line. */
int run_report_save(const struct run_summary *summary, const char *path);

struct run_figure {
	const char *name;
	uint64_t value;
};
/* Like run_report_save(), for @count figures of the engine @engine. @advice may be NULL. */
int run_report_write(const char *engine, const struct run_figure *figures, unsigned count, const struct advice *advice,
		     const char *path);

#endif

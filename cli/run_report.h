/*
 * run_report: what the pagers of one `farpage run` counted. The file they count into (pager/counters.h) is in memory
 * and has no name; processes reach it through this one's /proc/PID/fd, so nothing is left behind however this ends.
 */
#ifndef CLI_RUN_REPORT_H
#define CLI_RUN_REPORT_H
#include "pager/counters.h"
#include <stdint.h>

struct run_report {
	struct report *shared;
	char path[64]; /* for FARPAGE_REPORT */
	int fd;
};

/* What is added up at the end. */
struct run_summary {
	struct farpage_stats stats; /* sums; resident_peak_bytes: the largest of all processes */
	unsigned processes;         /* that started a pager */
	uint64_t local_bytes, wall_ns;
	uint64_t peak_bytes;            /* largest resident set of any process, as the kernel saw it */
	uint64_t outside_bytes;         /* the most that any process was seen to have outside farpage's reach */
	uint64_t resident_now, far_now; /* bytes, of the processes that live */
	uint64_t waiting_ns;            /* that threads have waited for far memory */
	uint64_t computing_ns;          /* processor time of the command itself, not of the kernel for it */
	uint64_t wanted_bytes;          /* with so much --local no process would have had anything far */
};

/* @told: path of the pipe that takes a struct report_pager of each process. -errno. */
int run_report_open(const char *told, struct run_report *ret_report);
void run_report_close(struct run_report *report);
/* Fills in what the pagers have counted. */
void run_report_sum(const struct run_report *report, struct run_summary *summary);
/* Room for run_report_thrashed(). */
#define RUN_THRASHED_MAX 128
/* What is said of a command that has waited for far memory for over half of its time, @waited of 0 to 1; else nothing.
   @wanted: the bytes with which it would not have waited. Returns @text. */
const char *run_report_thrashed(double waited, uint64_t wanted, char text[RUN_THRASHED_MAX]);
/* One line on standard error. */
void run_report_print(const struct run_summary *summary);
/* Whether run_report_save() could write there: made if it is not there, else left as it is. -errno after one line. */
int run_report_check(const char *path);
/* Writes the summary as JSON to the file at @path, replacing it. -errno after one logged line. */
int run_report_save(const struct run_summary *summary, const char *path);

struct run_figure {
	const char *name;
	uint64_t value;
};
/* The same for @count figures of @engine, whichever. */
int run_report_write(const char *engine, const struct run_figure *figures, unsigned count, const char *path);

#endif

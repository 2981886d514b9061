/*
 * run_live: the current figures of a `farpage run`, for `farpage status`.
 *
 * Theory of operation. The run has a struct run_live in a memfd (memfd_create(2)), and updates it twice a second.
 * Another process finds the memfd by its name in /proc/PID/fd, if it may read this folder. When the run ends or is
 * killed, the kernel frees the memfd, so no file remains.
 *
 * Threads: one. Source: proc_pid_fd(5).
 */
#ifndef CLI_RUN_LIVE_H
#define CLI_RUN_LIVE_H

#include "cli/run/advice.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_LIVE_MAGIC UINT64_C(0x325645564c504146)
#define RUN_LIVE_MS 400 /* a little less than RUN_COVERAGE_LOOK_MS, the time between two calls */
#define RUN_LIVE_UNKNOWN UINT64_MAX

/* Totals of all processes of the command since the start. Units are bytes, and nanoseconds of clock_now(). */
struct run_live {
	uint64_t magic;
	uint64_t changing; /* odd while other fields change */
	char engine[8];
	char command[64]; /* the command line, cut to fit */
	uint64_t started_ns, updated_ns;
	uint64_t local_bytes;
	uint64_t resident_bytes, far_bytes;
	uint64_t outside_bytes; /* the most memory that one process has outside farpage's reach */
	uint64_t faults;        /* faults that waited for a donor; with swap: pages read from the device */
	uint64_t waiting_ns;    /* time that threads waited for far memory, or RUN_LIVE_UNKNOWN */
	struct advice advice;   /* all zero with swap */
};

/* Makes the figures of a run, with @local bytes as the budget of the command @argv. Returns NULL on failure; the run
   can continue without figures. */
struct run_live *run_live_open(const char *engine, uint64_t local, char **argv);
/* Returns true if the figures are due for an update. Takes NULL. */
bool run_live_is_due(const struct run_live *live);
/* Begin and end a change. Readers discard figures that they read between the two calls. */
void run_live_begin(struct run_live *live);
void run_live_end(struct run_live *live);

/* Calls @look for each run that this user may read, in the order of process numbers. Returns how many runs
   of other users there are, whose figures this user may not read. They are recognized by their public command lines. */
unsigned run_live_each(void (*look)(pid_t pid, const struct run_live *live, void *user), void *user);

#endif

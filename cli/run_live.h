/*
 * run_live: how a `farpage run` is doing while it runs, for `farpage status`.
 *
 * Theory of operation. The run keeps a struct run_live in memory that has a name but is no file (memfd_create(2)), and
 * brings it up to date twice a second. Others find it below /proc/PID/fd by that name, as far as they may look there,
 * and so nothing is left behind however the run ends.
 *
 * Threads: one. Source: proc_pid_fd(5).
 */
#ifndef CLI_RUN_LIVE_H
#define CLI_RUN_LIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_LIVE_MAGIC UINT64_C(0x315645564c504146)
#define RUN_LIVE_MS 400 /* a little less than between two looks of the pager's engine */
#define RUN_LIVE_UNKNOWN UINT64_MAX

/* All since the beginning, of all processes of the command. Bytes, nanoseconds of clock_now(). */
struct run_live {
	uint64_t magic;
	uint64_t changing; /* odd while the rest changes */
	char engine[8];
	char command[64]; /* as it was called; cut if it is longer */
	uint64_t started_ns, updated_ns;
	uint64_t local_bytes;
	uint64_t resident_bytes, far_bytes;
	uint64_t outside_bytes; /* outside the reach of farpage, of one process: the most */
	uint64_t faults;        /* that had to wait for a donor; with swap: pages in */
	uint64_t waiting_ns;    /* that threads have waited for far memory; RUN_LIVE_UNKNOWN: not counted */
};

/* Makes it, with @local bytes as the budget of the command @argv. NULL: there is none, and the run goes on without. */
struct run_live *run_live_open(const char *engine, uint64_t local, char **argv);
/* Whether it is time to bring it up to date. Takes NULL. */
bool run_live_is_due(const struct run_live *live);
/* Around changes. */
void run_live_begin(struct run_live *live);
void run_live_end(struct run_live *live);

/* Calls @look for each run that this user may look at, in the order of their processes. */
void run_live_each(void (*look)(pid_t pid, const struct run_live *live, void *user), void *user);

#endif

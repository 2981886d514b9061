/*
 * runs: the runs on this machine whose figures this user may read, and their rates between the last two readings.
 *
 * Threads: one.
 */
#ifndef CLI_RUNS_H
#define CLI_RUNS_H

#include "cli/run/run_live.h"
#include "cli/table.h"

#define RUNS_MAX 256

struct run_seen {
	pid_t pid;
	struct run_live before, now; /* the last two readings; equal after the first one */
};

struct runs {
	struct run_seen all[RUNS_MAX];
	unsigned count;
	unsigned closed; /* runs of other users, whose figures this user may not read */
};

/* Reads the figures of all runs. Removes runs that have ended. @runs is all zero before the first call. */
void runs_look(struct runs *runs);
/* Returns the faults per second that waited for a donor, or a negative number if the run has not updated its figures
   since the reading before. */
double run_faults_rate(const struct run_seen *run);
/* Returns the average number of threads that waited for far memory, or a negative number if it is unknown. */
double run_waiting(const struct run_seen *run);

/* A table of runs. */
enum run_column {
	RUN_PID,
	RUN_ENGINE,
	RUN_LOCAL,
	RUN_RESIDENT,
	RUN_FAR,
	RUN_OUTSIDE,
	RUN_FAULTS,
	RUN_WAITING,
	RUN_ADVISED,
	RUN_TIME,
	RUN_COMMAND,
	RUN_COLUMNS
};
extern const struct table_column run_columns[RUN_COLUMNS];
void runs_add_rows(const struct runs *runs, struct table *table);

#endif

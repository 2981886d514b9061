/* runs: see runs.h. */
#include "cli/run/runs.h"

#include "common/clock.h"
#include "common/size.h"

#include <stdio.h>

/* --- Looking ---------------------------------------------------------------------------------------------------- */

struct look {
	const struct runs *before;
	struct runs *now;
};

static void note(pid_t pid, const struct run_live *live, void *user)
{
	const struct look *look = user;
	struct run_seen *run = &look->now->all[look->now->count];

	if (look->now->count == RUNS_MAX)
		return;
	look->now->count++;
	*run = (struct run_seen){.pid = pid, .before = *live, .now = *live};
	for (unsigned i = 0; i < look->before->count; i++) {
		const struct run_seen *known = &look->before->all[i];

		if (known->pid == pid && known->now.started_ns == live->started_ns)
			run->before = known->now;
	}
}

void runs_look(struct runs *runs)
{
	static struct runs before; /* too large for the stack */
	struct look look = {.before = &before, .now = runs};

	before = *runs;
	runs->count = 0;
	runs->closed = run_live_each(note, &look);
}

/* Returns the rate of a counter per second, or a negative number if the run has not updated its figures. */
static double rate(const struct run_seen *run, uint64_t before, uint64_t now)
{
	double seconds = (double)(run->now.updated_ns - run->before.updated_ns) / 1e9;

	return seconds > 0 ? (double)(now - before) / seconds : -1;
}

double run_faults_rate(const struct run_seen *run)
{
	return rate(run, run->before.faults, run->now.faults);
}

double run_waiting(const struct run_seen *run)
{
	if (run->now.waiting_ns == RUN_LIVE_UNKNOWN || run->before.waiting_ns == RUN_LIVE_UNKNOWN)
		return -1;
	return rate(run, run->before.waiting_ns, run->now.waiting_ns) / 1e9;
}

/* --- The table -------------------------------------------------------------------------------------------------- */

const struct table_column run_columns[RUN_COLUMNS] = {
    [RUN_PID] = {.name = "PID"},
    [RUN_ENGINE] = {.name = "ENGINE"},
    [RUN_LOCAL] = {.name = "LOCAL", .right = true},
    [RUN_RESIDENT] = {.name = "RESIDENT", .right = true},
    [RUN_FAR] = {.name = "FAR", .right = true},
    [RUN_OUTSIDE] = {.name = "OUTSIDE", .right = true},
    [RUN_FAULTS] = {.name = "FAULTS/S", .right = true},
    [RUN_WAITING] = {.name = "WAITING", .right = true},
    [RUN_ADVISED] = {.name = "ADVISED", .right = true, .optional = true},
    [RUN_TIME] = {.name = "TIME", .right = true},
    [RUN_COMMAND] = {.name = "COMMAND", .cut = true},
};

static void fill(const struct run_seen *run, char row[RUN_COLUMNS][TABLE_CELL_MAX])
{
	const struct run_live *live = &run->now;
	char text[SIZE_TEXT_MAX];
	double faults = run_faults_rate(run), share = run_waiting(run);
	unsigned long seconds = (unsigned long)((clock_now() - live->started_ns) / 1000000000);

	snprintf(row[RUN_PID], TABLE_CELL_MAX, "%d", (int)run->pid);
	snprintf(row[RUN_ENGINE], TABLE_CELL_MAX, "%s", live->engine);
	snprintf(row[RUN_LOCAL], TABLE_CELL_MAX, "%s", size_format(live->local_bytes, text));
	snprintf(row[RUN_RESIDENT], TABLE_CELL_MAX, "%s", size_format(live->resident_bytes, text));
	snprintf(row[RUN_FAR], TABLE_CELL_MAX, "%s", size_format(live->far_bytes, text));
	snprintf(row[RUN_OUTSIDE], TABLE_CELL_MAX, "%s", size_format(live->outside_bytes, text));
	snprintf(row[RUN_FAULTS], TABLE_CELL_MAX, faults < 0 ? "-" : "%.0f", faults);
	snprintf(row[RUN_WAITING], TABLE_CELL_MAX, share < 0 ? "-" : "%.0f%%", share * 100);
	*row[RUN_ADVISED] = '\0';
	if (advice_is_due(&live->advice))
		snprintf(row[RUN_ADVISED], TABLE_CELL_MAX, "%s",
			 advice_size(advice_local(&live->advice, ADVICE_LITTLE), text));
	snprintf(row[RUN_TIME], TABLE_CELL_MAX, "%lu:%02lu:%02lu", seconds / 3600, seconds / 60 % 60, seconds % 60);
	snprintf(row[RUN_COMMAND], TABLE_CELL_MAX, "%s", live->command);
}

void runs_add_rows(const struct runs *runs, struct table *table)
{
	char row[RUN_COLUMNS][TABLE_CELL_MAX];

	for (unsigned i = 0; i < runs->count; i++) {
		fill(&runs->all[i], row);
		table_add(table, row);
	}
}

/*
 * farpage status: shows the runs on this machine and their figures.
 *
 * Theory of operation. Each run has its figures where other processes can read them (run_live.h). This command reads
 * the figures twice, a second apart, and computes the rates from the differences.
 */
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/run/runs.h"
#include "cli/table.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define APART_US 1000000

/* Says how many runs of other users are not shown. */
static void closed_tell(const struct runs *runs, FILE *file)
{
	if (runs->closed == 1)
		fprintf(file, "1 run of another user is not shown: only that user and root may see it\n");
	else if (runs->closed)
		fprintf(file, "%u runs of other users are not shown: only these users and root may see them\n",
			runs->closed);
}

static void runs_print(const struct runs *runs)
{
	struct json_object *root = json_object_new_object(), *list = json_object_new_array();

	json_object_object_add(root, "runs", list);
	for (unsigned i = 0; i < runs->count; i++) {
		const struct run_seen *run = &runs->all[i];
		const struct run_live *live = &run->now;
		struct json_object *one = json_object_new_object();
		double faults = run_faults_rate(run), share = run_waiting(run);

		json_add_number(one, "pid", (uint64_t)run->pid);
		json_add_text(one, "engine", live->engine);
		json_add_text(one, "command", live->command);
		json_add_number(one, "local_bytes", live->local_bytes);
		json_add_number(one, "resident_bytes", live->resident_bytes);
		json_add_number(one, "far_bytes", live->far_bytes);
		json_add_number(one, "outside_bytes", live->outside_bytes);
		json_add_number(one, "faults", live->faults);
		json_add_number(one, "wall_ns", clock_now() - live->started_ns);
		if (faults >= 0)
			json_add_real(one, "faults_per_second", faults);
		if (share >= 0)
			json_add_real(one, "threads_waiting", share);
		if (advice_is_due(&live->advice))
			json_add_number(one, "advised_local_bytes", advice_local(&live->advice, ADVICE_LITTLE));
		json_object_array_add(list, one);
	}
	json_add_number(root, "runs_of_others", runs->closed);
	json_print(root, false, stdout);
}

static void status_help(const struct config_setting *settings)
{
	printf(
	    "usage: farpage status [OPTION...]\n\n"
	    "Shows each farpage run of this user (of all users, for root), after watching the runs for a second. Runs\n"
	    "of other users are only counted. RESIDENT is memory on this machine, FAR is memory on donors. OUTSIDE is\n"
	    "the most memory that one process has outside farpage's reach. FAULTS/S counts the faults that waited for\n"
	    "a donor. WAITING is the average number of threads that waited for far memory: 100%% is one thread. It is\n"
	    "unknown for the swap engine with version 1 of control groups. ADVISED is the --local with which a run of\n"
	    "the pager would wait for about a tenth of its time; `farpage advise` says more.\n\n");
	config_help(settings);
}

int command_status(int argc, char **argv)
{
	static struct runs runs;
	static struct table_style style;
	bool json = false;
	const struct config_setting settings[] = {
	    {.name = "json", .kind = CONFIG_FLAG, .value = &json, .help = "print JSON, with exact figures"},
	    TABLE_SETTINGS(&style),
	    {.name = NULL},
	};
	struct table *table;
	int first = config_read(settings, NULL, argc, argv, NULL);

	if (first == -ECANCELED) {
		status_help(settings);
		return COMMAND_OK;
	}
	if (first < 0)
		return COMMAND_USAGE;
	if (first < argc) {
		log_error("status: takes no argument \"%s\"; it shows all runs", argv[first]);
		return COMMAND_USAGE;
	}
	table = table_open("status", run_columns, RUN_COLUMNS, &style);
	if (!table)
		return COMMAND_USAGE;
	runs_look(&runs);
	if (runs.count) {
		usleep(APART_US);
		runs_look(&runs);
	}
	if (!json && runs.count) {
		runs_add_rows(&runs, table);
		table_print(table);
		closed_tell(&runs, stderr); /* not stdout, because each line there is a run */
		return COMMAND_OK;
	}
	table_close(table);
	if (json) {
		runs_print(&runs);
		return COMMAND_OK;
	}
	printf(runs.closed ? "no farpage run of this user\n" : "no farpage run\n");
	closed_tell(&runs, stdout);
	return COMMAND_OK;
}

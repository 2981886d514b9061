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
		json_object_object_add(one, "pid", json_object_new_int(run->pid));
		json_object_object_add(one, "engine", json_object_new_string(live->engine));
		json_object_object_add(one, "command", json_object_new_string(live->command));
		json_object_object_add(one, "local_bytes", json_object_new_uint64(live->local_bytes));
		json_object_object_add(one, "resident_bytes", json_object_new_uint64(live->resident_bytes));
		json_object_object_add(one, "far_bytes", json_object_new_uint64(live->far_bytes));
		json_object_object_add(one, "outside_bytes", json_object_new_uint64(live->outside_bytes));
		json_object_object_add(one, "faults", json_object_new_uint64(live->faults));
		json_object_object_add(one, "wall_ns", json_object_new_uint64(clock_now() - live->started_ns));
		if (faults >= 0)
			json_object_object_add(one, "faults_per_second", json_object_new_double(faults));
		if (share >= 0)
			json_object_object_add(one, "threads_waiting", json_object_new_double(share));
		if (advice_is_due(&live->advice))
			json_object_object_add(one, "advised_local_bytes",
					       json_object_new_uint64(advice_local(&live->advice, ADVICE_LITTLE)));
		json_object_array_add(list, one);
	}
	json_object_object_add(root, "runs_of_others", json_object_new_int64(runs->closed));
	json_print(root, false, stdout);
}

static void status_help(const struct config_setting *settings)
{
	printf(
	    "usage: farpage status [OPTION...]\n\n"
	    "Shows each farpage run of this user (of all, as root), after watching them for a second. Runs of other\n"
	    "users are only counted. RESIDENT is here, FAR is on the donors. OUTSIDE is the most that a process has\n"
	    "out of farpage's reach. FAULTS/S are those that waited for a donor. WAITING is how long threads waited\n"
	    "for far memory: 100%% is one thread that did nothing else; the swap engine cannot tell with version 1 of\n"
	    "control groups. ADVISED is the --local with which a run of the pager would wait for about a tenth of its\n"
	    "time; `farpage advise` tells more.\n\n");
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

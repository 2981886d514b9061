/*
 * farpage status: shows the runs on this machine and their figures.
 *
 * Theory of operation. Each run keeps its figures where other processes can read them (run_live.h). This command reads
 * them twice, a second apart. The difference gives the present rates.
 *
 * Threads: none.
 */
#include "cli/commands.h"
#include "cli/run/run_live.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RUNS_MAX 256
#define APART_US 1000000
#define CELL_MAX 80

struct run_seen {
	pid_t pid;
	struct run_live first, last;
};

struct runs {
	struct run_seen all[RUNS_MAX];
	unsigned count;
};

static void note_first(pid_t pid, const struct run_live *live, void *user)
{
	struct runs *runs = user;
	if (runs->count < RUNS_MAX)
		runs->all[runs->count++] = (struct run_seen){.pid = pid, .first = *live, .last = *live};
}

static void note_last(pid_t pid, const struct run_live *live, void *user)
{
	struct runs *runs = user;
	for (unsigned i = 0; i < runs->count; i++)
		if (runs->all[i].pid == pid)
			runs->all[i].last = *live;
}

/* Returns the rate of a counter per second, or a negative number if the run has not updated its figures. */
static double rate(const struct run_seen *run, uint64_t first, uint64_t last)
{
	double seconds = (double)(run->last.updated_ns - run->first.updated_ns) / 1e9;
	return seconds > 0 ? (double)(last - first) / seconds : -1;
}

static double faults_rate(const struct run_seen *run)
{
	return rate(run, run->first.faults, run->last.faults);
}

/* Returns the average number of waiting threads, or a negative number if it is unknown. */
static double waiting(const struct run_seen *run)
{
	if (run->last.waiting_ns == RUN_LIVE_UNKNOWN || run->first.waiting_ns == RUN_LIVE_UNKNOWN)
		return -1;
	return rate(run, run->first.waiting_ns, run->last.waiting_ns) / 1e9;
}

/* --- Output ----------------------------------------------------------------------------------------------------- */

enum column { PID, ENGINE, LOCAL, RESIDENT, FAR, OUTSIDE, FAULTS, WAITING, TIME, COMMAND, COLUMNS };
static const char *const heads[COLUMNS] = {"PID",     "ENGINE",   "LOCAL",   "RESIDENT", "FAR",
					   "OUTSIDE", "FAULTS/S", "WAITING", "TIME",     "COMMAND"};

static void row_fill(const struct run_seen *run, char row[COLUMNS][CELL_MAX])
{
	const struct run_live *live = &run->last;
	char text[SIZE_TEXT_MAX];
	double faults = faults_rate(run), share = waiting(run);
	unsigned long seconds = (unsigned long)((clock_now() - live->started_ns) / 1000000000);
	snprintf(row[PID], CELL_MAX, "%d", (int)run->pid);
	snprintf(row[ENGINE], CELL_MAX, "%s", live->engine);
	snprintf(row[LOCAL], CELL_MAX, "%s", size_format(live->local_bytes, text));
	snprintf(row[RESIDENT], CELL_MAX, "%s", size_format(live->resident_bytes, text));
	snprintf(row[FAR], CELL_MAX, "%s", size_format(live->far_bytes, text));
	snprintf(row[OUTSIDE], CELL_MAX, "%s", size_format(live->outside_bytes, text));
	snprintf(row[FAULTS], CELL_MAX, faults < 0 ? "-" : "%.0f", faults);
	snprintf(row[WAITING], CELL_MAX, share < 0 ? "-" : "%.0f%%", share * 100);
	snprintf(row[TIME], CELL_MAX, "%lu:%02lu:%02lu", seconds / 3600, seconds / 60 % 60, seconds % 60);
	snprintf(row[COMMAND], CELL_MAX, "%s", live->command);
}

static void table_print(const struct runs *runs)
{
	static char rows[RUNS_MAX + 1][COLUMNS][CELL_MAX];
	int width[COLUMNS] = {0};
	for (unsigned c = 0; c < COLUMNS; c++)
		snprintf(rows[0][c], CELL_MAX, "%s", heads[c]);
	for (unsigned i = 0; i < runs->count; i++)
		row_fill(&runs->all[i], rows[i + 1]);
	for (unsigned i = 0; i <= runs->count; i++)
		for (unsigned c = 0; c < COMMAND; c++)
			if ((int)strlen(rows[i][c]) > width[c])
				width[c] = (int)strlen(rows[i][c]);
	for (unsigned i = 0; i <= runs->count; i++)
		for (unsigned c = 0; c < COLUMNS; c++)
			printf("%-*s%s", width[c], rows[i][c], c < COMMAND ? "  " : "\n");
}

static void json_print(const struct runs *runs)
{
	struct json_object *root = json_object_new_object(), *list = json_object_new_array();
	json_object_object_add(root, "runs", list);
	for (unsigned i = 0; i < runs->count; i++) {
		const struct run_seen *run = &runs->all[i];
		const struct run_live *live = &run->last;
		struct json_object *one = json_object_new_object();
		double faults = faults_rate(run), share = waiting(run);
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
		json_object_array_add(list, one);
	}
	printf("%s\n", json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}

static void status_help(const struct config_setting *settings)
{
	printf(
	    "usage: farpage status [--json]\n\n"
	    "Shows each farpage run of this user (of all, as root), after watching them for a second. RESIDENT is\n"
	    "here, FAR is on the donors. OUTSIDE is the most that a process has out of farpage's reach. FAULTS/S are\n"
	    "those that waited for a donor. WAITING is how long threads waited for far memory: 100%% is one thread\n"
	    "that did nothing else; the swap engine cannot tell with version 1 of control groups.\n\n");
	config_help(settings);
}

int command_status(int argc, char **argv)
{
	static struct runs runs;
	bool json = false;
	const struct config_setting settings[] = {
	    {.name = "json", .kind = CONFIG_FLAG, .value = &json, .help = "print JSON, with exact figures"},
	    {.name = NULL},
	};
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
	run_live_each(note_first, &runs);
	if (runs.count) {
		usleep(APART_US);
		run_live_each(note_last, &runs);
	}
	if (json)
		json_print(&runs);
	else if (runs.count)
		table_print(&runs);
	else
		printf("no farpage run\n");
	return COMMAND_OK;
}

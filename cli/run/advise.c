/*
 * farpage advise: predicts how a run would do with more local memory (advice.h). The command reads the figures of a
 * current run (run_live.h), or the statistics of an ended run.
 *
 * Threads: one.
 */
#include "cli/commands.h"
#include "cli/run/advice.h"
#include "cli/run/advice_file.h"
#include "cli/run/run_live.h"
#include "cli/table.h"
#include "common/config.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCAL, FETCHES, WAITING, TIME, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [LOCAL] = {.name = "LOCAL", .right = true},
    [FETCHES] = {.name = "FETCHES", .right = true},
    [WAITING] = {.name = "WAITING", .right = true},
    [TIME] = {.name = "TIME", .right = true},
};

static void add_row(const struct advice *advice, uint64_t local, struct table *table)
{
	char row[COLUMNS][TABLE_CELL_MAX], text[SIZE_TEXT_MAX];

	snprintf(row[LOCAL], TABLE_CELL_MAX, "%s", advice_size(local, text));
	snprintf(row[FETCHES], TABLE_CELL_MAX, "%llu", (unsigned long long)advice_fetches(advice, local));
	snprintf(row[WAITING], TABLE_CELL_MAX, "%.0f%%", advice_waiting(advice, local) * 100);
	snprintf(row[TIME], TABLE_CELL_MAX, "%.1f s", (double)advice_wall_ns(advice, local) / 1e9);
	table_add(table, row);
}

static void add_rows(const struct advice *advice, struct table *table)
{
	static const unsigned percents[] = {100, 125, 150, 200, 300};
	uint64_t none = advice_local(advice, ADVICE_NONE);

	for (unsigned i = 0; i < sizeof percents / sizeof percents[0]; i++) {
		uint64_t local = advice->local_bytes / 100 * percents[i];

		if (i && local >= none)
			break;
		add_row(advice, local, table);
	}
	if (none > advice->local_bytes)
		add_row(advice, none, table);
}

/* --- The run ---------------------------------------------------------------------------------------------------- */

struct wanted_run {
	pid_t pid;
	bool found;
	struct run_live live;
};

static void note(pid_t pid, const struct run_live *live, void *user)
{
	struct wanted_run *wanted = user;

	if (pid != wanted->pid)
		return;
	wanted->found = true;
	wanted->live = *live;
}

/* Reads the figures of the run with the process number @text. Returns 0, or -errno after one logged line. */
static int read_run(const char *text, struct advice *ret_advice)
{
	struct wanted_run wanted = {.pid = (pid_t)strtol(text, NULL, 10)};

	run_live_each(note, &wanted);
	if (!wanted.found) {
		log_error("advise: no farpage run has the process number %s; `farpage status` shows those that you may "
			  "see, and --stats FILE keeps the figures of a run that ends",
			  text);
		return -ESRCH;
	}
	if (strcmp(wanted.live.engine, "pager") != 0) {
		log_error("advise: run %s uses the engine %s, which does not measure this; only the pager does", text,
			  wanted.live.engine);
		return -ENOTSUP;
	}
	*ret_advice = wanted.live.advice;
	return 0;
}

static int tell(const struct advice *advice, const struct table_style *style)
{
	struct table *table;

	if (advice->fetches[0] < ADVICE_FETCHES_MIN) {
		log_error("advise: the run fetched %llu pages, too few for a prediction; %d are needed",
			  (unsigned long long)advice->fetches[0], ADVICE_FETCHES_MIN);
		return COMMAND_FAILED;
	}
	table = table_open("advise", columns, COLUMNS, style);
	if (!table)
		return COMMAND_USAGE;
	add_rows(advice, table);
	table_print(table);
	return COMMAND_OK;
}

static void advise_help(const struct config_setting *settings)
{
	printf(
	    "usage: farpage advise FILE [OPTION...]\n"
	    "       farpage advise PID [OPTION...]\n\n"
	    "Predicts how a farpage run would do with more local memory. PID is the process number of a current run,\n"
	    "as farpage status shows it. FILE is the file that a run with --stats FILE has written. The first row is\n"
	    "measured. In the last row, threads hardly wait any more. FETCHES are pages from donors. WAITING is the\n"
	    "share of the time in which threads waited for these pages. TIME is the length of the run, until now if\n"
	    "it still runs. The predicted fetches are within a factor of two for most programs.\n\n");
	config_help(settings);
}

int command_advise(int argc, char **argv)
{
	static struct table_style style;
	static struct advice advice;
	const struct config_setting settings[] = {
	    TABLE_SETTINGS(&style),
	    {.name = NULL},
	};
	int first = config_read(settings, NULL, argc, argv, NULL), error;
	const char *of;

	if (first == -ECANCELED) {
		advise_help(settings);
		return COMMAND_OK;
	}
	if (first < 0)
		return COMMAND_USAGE;
	if (argc - first != 1) {
		log_error("advise: takes one argument, the process number of a run or its file of --stats");
		return COMMAND_USAGE;
	}
	of = argv[first];
	error = of[strspn(of, "0123456789")] ? advice_file_read(of, &advice) : read_run(of, &advice);
	return error ? COMMAND_FAILED : tell(&advice, &style);
}

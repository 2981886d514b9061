/*
 * farpage bench: measures how fast the memory of donors is.
 *
 * Theory of operation. First the command checks the options, the key, the donors and their free memory, and the output
 * file. Then a separate process (bench_apart.h) measures in this order:
 * - the floor of a userfaultfd fault;
 * - for each donor the points of bench_store.c and the far faults of bench_fault.c.
 *
 * At the end the command shows the results (bench_table.c, bench_plot.c, bench_json.c), even if the run was
 * interrupted or a donor failed during it.
 *
 * Threads: one, except for those of bench_fault.c and of the stores.
 */
#include "cli/ask.h"
#include "cli/bench/bench_apart.h"
#include "cli/bench/bench_fault.h"
#include "cli/bench/bench_interrupt.h"
#include "cli/bench/bench_json.h"
#include "cli/bench/bench_plot.h"
#include "cli/bench/bench_store.h"
#include "cli/bench/bench_table.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "common/config.h"
#include "common/donors_option.h"
#include "common/log.h"
#include "wire/auth.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LEAST (UINT64_C(16) << 20) /* twice the smallest local budget */
#define SIZE_DEFAULT (UINT64_C(256) << 20)
#define SECONDS_DEFAULT 1.5 /* two donors then take about a minute */
#define SECONDS_MAX 3600.0
#define PAGE 4096u
#define ROOM_WAIT_MS 5000 /* how long to wait until a donor has processed the release of earlier leases */
#define CONNECT_MS 1800

struct bench_options {
	struct config_list donors, depths;
	const char *key_file, *seconds, *json_file;
	uint64_t size;
	bool no_faults;
};

struct bench_run {
	struct bench_options options;
	struct bench_results *results; /* shared with the processes that measure */
	struct far_config config;
	uint8_t key[AUTH_KEY_SIZE];
	FILE *json; /* NULL if not requested, or for standard output */
};

static int bench_help(const struct config_setting *settings)
{
	printf("usage: farpage bench --donor URI [--donor URI...] [OPTION...]\n\n"
	       "Measures the memory of each donor: latency and throughput of random pages of 4 KiB, read and written,\n"
	       "with 1 to 64 in flight, and the cost of a far fault. To compare fabrics, give the same donor once for\n"
	       "each fabric that it listens on. Two donors take about a minute. Options:\n\n");
	config_help(settings);
	printf("\nCtrl-C ends the benchmark early and shows the results so far.\n\n"
	       "  farpage bench --donor tcp://10.0.0.7 --donor rdma://10.0.0.7 --key farpage.key\n");
	return COMMAND_OK;
}

static int bench_read_depths(const struct config_list *depths, struct bench_results *results)
{
	static const unsigned usual[] = {1, 2, 4, 8, 16, 32, 64};
	unsigned long last = 0;

	if (!depths->count) {
		results->depth_count = sizeof usual / sizeof usual[0];
		memcpy(results->depths, usual, sizeof usual);
		return 0;
	}
	for (unsigned i = 0; i < depths->count; i++) {
		char *end;
		unsigned long depth = strtoul(depths->items[i], &end, 10);

		if (*end || depths->items[i][0] < '0' || depths->items[i][0] > '9' || depth <= last ||
		    depth > BENCH_DEPTH_MAX || i == BENCH_DEPTHS_MAX) {
			log_error("bench: --depths takes up to %u ascending numbers from 1 to %u, like 1,8,32",
				  BENCH_DEPTHS_MAX, BENCH_DEPTH_MAX);
			return -EINVAL;
		}
		results->depths[i] = (unsigned)(last = depth);
	}
	results->depth_count = depths->count;
	return 0;
}

static int bench_read_seconds(const char *text, double *ret_seconds)
{
	char *end;
	double seconds = SECONDS_DEFAULT;

	if (text) {
		seconds = strtod(text, &end);
		if (*end || end == text || !isfinite(seconds) || seconds < 0.01 || seconds > SECONDS_MAX) {
			log_error("bench: --seconds takes a number from 0.01 to %.0f, not \"%s\"", SECONDS_MAX, text);
			return -EINVAL;
		}
	}
	*ret_seconds = seconds;
	return 0;
}

/* Checks the options that were read and copies them into run->results. Returns 0, or -errno after one logged line. */
static int bench_take_options(struct bench_run *run)
{
	struct config_list *donors = &run->options.donors;
	struct bench_results *results = run->results;
	const char *file;
	int error = donors_option_expand(donors, &file);

	if (error)
		return error;
	if (!donors->count || donors->count > BENCH_DONORS_MAX) {
		log_error("bench: give one to %u donors to measure, each with --donor tcp://HOST[:PORT]",
			  BENCH_DONORS_MAX);
		return -EINVAL;
	}
	error = bench_read_depths(&run->options.depths, results);
	if (!error)
		error = bench_read_seconds(run->options.seconds, &results->seconds);
	if (error)
		return error;
	results->bytes = (run->options.size ? run->options.size : SIZE_DEFAULT) / PAGE * PAGE;
	results->faults = !run->options.no_faults;
	results->donor_count = donors->count;
	for (unsigned i = 0; i < donors->count; i++) {
		results->donors[i].uri = donors->items[i];
		bench_donor_set_fabric(&results->donors[i], donors->items[i]);
	}
	return 0;
}

/* Reads and checks all options. Returns an exit status. Sets *@ret_done if --help was shown. */
static int bench_read_options(struct bench_run *run, int argc, char **argv, bool *ret_done)
{
	struct bench_options *options = &run->options;
	const struct config_setting settings[] = {
	    {"donor", CONFIG_LIST, &options->donors, 0, 0, "URI",
	     "a donor to measure; can be repeated; or @FILE, a donors file"},
	    {"key", CONFIG_STRING, &options->key_file, 0, 0, "FILE", "the key shared with the donors"},
	    {"size", CONFIG_SIZE, &options->size, SIZE_LEAST, 0, "SIZE", "far memory used on each (default 256M)"},
	    {"seconds", CONFIG_STRING, &options->seconds, 0, 0, "N", "time for each point (default 1.5)"},
	    {"depths", CONFIG_LIST, &options->depths, 0, 0, "N,...", "pages in flight (default 1,2,4,...,64)"},
	    {"no-faults", CONFIG_FLAG, &options->no_faults, 0, 0, NULL, "do not measure far faults"},
	    {"json", CONFIG_STRING, &options->json_file, 0, 0, "FILE",
	     "all figures, as JSON; -: on standard output, and nothing else there"},
	    {0},
	};
	int first = defaults_read(settings, NULL, argc, argv, NULL);

	*ret_done = first == -ECANCELED;
	if (first == -ECANCELED)
		return bench_help(settings);
	if (first < 0)
		return COMMAND_USAGE;
	if (first < argc) {
		log_error("bench: takes no argument \"%s\"; donors are named with --donor URI", argv[first]);
		return COMMAND_USAGE;
	}
	return bench_take_options(run) ? COMMAND_USAGE : COMMAND_OK;
}

static int bench_check_donors(void *context)
{
	struct bench_run *run = context;

	for (unsigned i = 0; i < run->results->donor_count; i++) {
		int error = bench_store_room(&run->config, run->results->donors[i].uri, run->results->bytes, 0);

		if (error)
			return error;
	}
	return 0;
}

static bool bench_json_is_stdout(const struct bench_run *run)
{
	return run->options.json_file && strcmp(run->options.json_file, "-") == 0;
}

/* Opens the file of --json before anything is measured, because a run takes about a minute. Returns 0, or -EIO after
   one logged line. */
static int bench_open_json(struct bench_run *run)
{
	const char *path = run->options.json_file;

	if (!path || bench_json_is_stdout(run))
		return 0;
	run->json = fopen(path, "we");
	if (run->json)
		return 0;
	log_error("cannot write to %s: %s", path, strerror(errno));
	return -EIO;
}

static int bench_write_json(struct bench_run *run)
{
	bench_json_print(run->results, run->json);
	int lost = ferror(run->json);

	if (!fclose(run->json) && !lost)
		return 0;
	log_error("cannot write to %s: %s", run->options.json_file, lost ? "an earlier write failed" : strerror(errno));
	return -EIO;
}

static int bench_measure_donor(struct bench_run *run, unsigned donor)
{
	struct bench_results *results = run->results;
	const char *uri = results->donors[donor].uri;
	int error = bench_store_room(&run->config, uri, results->bytes, ROOM_WAIT_MS);

	if (!error)
		error = bench_store_measure(&run->config, results, donor);
	if (error || !results->faults)
		return error;
	results->donors[donor].fault.skipped = results->userfaultfd.skipped;
	if (results->userfaultfd.skipped)
		return 0;
	error = bench_store_room(&run->config, uri, results->bytes, ROOM_WAIT_MS);
	return error ? error : bench_fault_measure(run->options.key_file, results, donor);
}

static int bench_measure(void *context)
{
	struct bench_run *run = context;
	int error = run->results->faults ? bench_fault_floor(run->results) : 0;

	for (unsigned i = 0; !error && i < run->results->donor_count; i++)
		error = bench_measure_donor(run, i);
	return error;
}

static int bench_show(struct bench_run *run)
{
	const struct bench_results *results = run->results;

	if (bench_json_is_stdout(run)) {
		bench_json_print(results, stdout);
	} else {
		setlocale(LC_CTYPE, "");
		bench_table_print(results, stdout);
		bench_plot_print(results, strcmp(nl_langinfo(CODESET), "UTF-8") == 0, stdout);
		bench_table_print_meaning(results, stdout);
	}
	return run->json ? bench_write_json(run) : 0;
}

int command_bench(int argc, char **argv)
{
	static struct bench_run run = {.config = {.fabric = FABRIC_CONFIG_DEFAULT}};
	bool done;
	int error, status;

	run.results = bench_apart_alloc(sizeof *run.results);
	if (!run.results) {
		log_error("no memory left");
		return COMMAND_FAILED;
	}
	status = bench_read_options(&run, argc, argv, &done);
	if (status != COMMAND_OK || done)
		return status;
	run.config.fabric.connect_ms = CONNECT_MS;
	if (ask_with_key(&run.config, run.options.key_file, run.key) || bench_interrupt_catch() ||
	    bench_apart_run(bench_check_donors, &run) || bench_open_json(&run))
		return COMMAND_FAILED;
	error = bench_apart_run(bench_measure, &run);
	run.results->interrupted = bench_interrupted();
	if (bench_show(&run))
		error = -EIO;
	if (run.results->interrupted)
		return bench_interrupt_status();
	return error ? COMMAND_FAILED : COMMAND_OK;
}

/*
 * farpage top: shows the runs, the block devices and the donors of this machine, again and again, on the whole
 * terminal.
 *
 * Theory of operation. At each interval the main thread reads the figures of the runs (runs.h) and of the devices
 * (disk_table.h), and draws them together with the last answers of the donors. A donor may take 1.5 s to answer. So
 * another thread asks the donors (watch.h), and the screen does not wait for them.
 *
 * Threads: the main thread draws.
 */
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/disk/disk_table.h"
#include "cli/json.h"
#include "cli/run/runs.h"
#include "cli/subcommands.h"
#include "cli/top/screen.h"
#include "cli/top/watch.h"
#include "common/clock.h"
#include "common/donors_option.h"
#include "common/log.h"
#include "wire/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEVICES_MAX 256
#define PAGE 4096
#define WIDE 110 /* a terminal with at least this many columns shows all columns of the tables */

struct top_options {
	struct config_list donors;
	const char *key_file;
	unsigned interval;
};

/* The bytes that a device has read and written since its start. */
struct traffic {
	char name[TABLE_CELL_MAX];
	uint64_t read, written;
};

struct devices {
	struct traffic before[DEVICES_MAX], now[DEVICES_MAX];
	unsigned before_count, now_count;
	uint64_t before_ns, now_ns; /* times of the two readings */
};

/* --- Devices ---------------------------------------------------------------------------------------------------- */

enum { TOP_IN = DISK_COLUMNS, TOP_OUT, TOP_DISK_COLUMNS };

static uint64_t bytes_of(struct json_object *disk, const char *direction)
{
	struct json_object *bytes;

	return json_object_object_get_ex(disk, "bytes", &bytes) ? json_number(bytes, direction) : 0;
}

/* Writes the rate in pages a second, or "-" if the same daemon has no earlier reading. */
static void rate_fill(const struct devices *devices, uint64_t before, uint64_t now, char cell[TABLE_CELL_MAX])
{
	double seconds = (double)(devices->now_ns - devices->before_ns) / 1e9;

	if (before > now || seconds <= 0)
		snprintf(cell, TABLE_CELL_MAX, "-");
	else
		snprintf(cell, TABLE_CELL_MAX, "%.0f", (double)(now - before) / PAGE / seconds);
}

static void device_fill(struct devices *devices, struct json_object *disk, char row[TOP_DISK_COLUMNS][TABLE_CELL_MAX])
{
	struct traffic *now = &devices->now[devices->now_count];

	disk_fill(disk, row);
	snprintf(row[TOP_IN], TABLE_CELL_MAX, "-");
	snprintf(row[TOP_OUT], TABLE_CELL_MAX, "-");
	if (devices->now_count == DEVICES_MAX)
		return;
	devices->now_count++;
	*now = (struct traffic){.read = bytes_of(disk, "read"), .written = bytes_of(disk, "write")};
	memcpy(now->name, row[DISK_NAME], sizeof now->name);
	for (unsigned i = 0; i < devices->before_count; i++) {
		const struct traffic *before = &devices->before[i];

		if (strcmp(before->name, now->name) != 0)
			continue;
		rate_fill(devices, before->read, now->read, row[TOP_IN]);
		rate_fill(devices, before->written, now->written, row[TOP_OUT]);
	}
}

static struct table *devices_table(struct devices *devices, const struct table_style *style)
{
	static struct table_column columns[TOP_DISK_COLUMNS];
	struct json_object *disks = json_object_new_array();
	char row[TOP_DISK_COLUMNS][TABLE_CELL_MAX];
	struct table *table;
	int status;

	memcpy(columns, disk_columns, sizeof disk_columns);
	columns[TOP_IN] = (struct table_column){.name = "IN/S", .right = true};
	columns[TOP_OUT] = (struct table_column){.name = "OUT/S", .right = true};
	memcpy(devices->before, devices->now, sizeof devices->now);
	devices->before_count = devices->now_count;
	devices->before_ns = devices->now_ns;
	devices->now_count = 0;
	devices->now_ns = clock_now();
	disks_ask(disks, &status);
	table = table_open("top", columns, TOP_DISK_COLUMNS, style);
	for (size_t i = 0; table && i < json_object_array_length(disks); i++) {
		device_fill(devices, json_object_array_get_idx(disks, i), row);
		table_add(table, row);
	}
	json_object_put(disks);
	return table;
}

/* --- The screen ------------------------------------------------------------------------------------------------- */

/* Adds a part of the screen: its title, and the lines of @table, or @nothing if there is no table. */
static void part(struct screen *screen, const char *title, struct table *table, const char *nothing)
{
	char *text = table ? table_text(table, screen_width()) : NULL;

	screen_add(screen, true, title);
	screen_add(screen, false, text && *text ? text : nothing);
	screen_add(screen, false, "");
	free(text);
}

static void draw(struct screen *screen, struct watch *watch, const struct top_options *options)
{
	static struct devices devices;
	static struct runs runs;
	bool wide = screen_width() >= WIDE;
	const struct table_style run_style = {.output =
						  wide ? NULL : "PID,LOCAL,RESIDENT,FAR,FAULTS/S,WAITING,COMMAND"};
	const struct table_style disk_style = {.output = wide ? NULL : "NAME,SIZE,DEVICE,STATE,USED,DONORS,IN/S,OUT/S"};
	const struct table_style donor_style = {.output =
						    wide ? NULL : "DONOR,DONATED,LEASED,FREE,STATE,ANSWER,HISTORY"};
	char head[128], clock[16];
	time_t now = time(NULL);
	struct tm local;
	struct table *table = table_open("top", run_columns, RUN_COLUMNS, &run_style);

	strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &local));
	snprintf(head, sizeof head, "farpage top  %s  every %u s  arrows scroll, q quits", clock, options->interval);
	screen_clear(screen);
	screen_add(screen, false, head);
	screen_add(screen, false, "");
	runs_look(&runs);
	if (table)
		runs_add_rows(&runs, table);
	part(screen, "RUNS", table, geteuid() ? "none of this user" : "none");
	part(screen, "DEVICES", devices_table(&devices, &disk_style), "none");
	if (options->donors.count)
		part(screen, "DONORS", watch_table(watch, &donor_style), "not asked yet");
	else
		part(screen, "DONORS", NULL, "none is named; --donor URI or farpage.ini(5) names them");
	screen_draw(screen);
}

static const struct subcommands_text text = {
    .name = "top",
    .before = "usage: farpage top [--donor URI...] [OPTION...]\n\n"
	      "Shows on the whole terminal, and keeps up to date:\n"
	      "the runs of this user (of all, as root), as farpage status does;\n"
	      "the devices, for root, as farpage disk list does, with the pages read (IN/S) and written (OUT/S) a\n"
	      "second;\n"
	      "the donors, as farpage donors does, with the time that the last answer took (ANSWER), and whether\n"
	      "the last requests were answered, the latest first (HISTORY: \".\" yes, \"!\" no).\n\n"
	      "A terminal of fewer than 110 columns shows only some columns.\n\n",
    .after = "\nThe arrow keys scroll, and q quits.\n",
    .instead = "donors are named with --donor URI",
};

static int show(struct top_options *options, const struct far_config *config)
{
	static struct screen screen; /* too large for the stack */
	struct watch *watch;
	int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (!isatty(STDOUT_FILENO) || screen_open(&screen) < 0) {
		log_error("top: needs a terminal; farpage status, disk list and donors print once");
		return COMMAND_FAILED;
	}
	/* Log lines about donors go to /dev/null, because they would overwrite the screen, which shows the same
	   facts. */
	if (quiet >= 0)
		log_set_fd(quiet);
	watch = watch_start(config, &options->donors, options->interval);
	do
		draw(&screen, watch, options);
	while (screen_wait(&screen, options->interval * 1000));
	screen_close(&screen);
	watch_stop(watch);
	return COMMAND_OK;
}

int command_top(int argc, char **argv)
{
	static struct top_options options = {.interval = 2};
	const struct config_setting settings[] = {
	    {"donor", CONFIG_LIST, &options.donors, 0, 0, "URI",
	     "a donor, as for farpage donors; can be repeated; or @FILE, a donors file"},
	    {"key", CONFIG_STRING, &options.key_file, 0, 0, "FILE", "the key shared with the donors"},
	    {"interval", CONFIG_NUMBER, &options.interval, 1, 3600, "SECONDS", "the time between two looks (2)"},
	    {0},
	};
	struct far_config config = {.fabric = FABRIC_CONFIG_DEFAULT};
	uint8_t key[AUTH_KEY_SIZE];
	const char *file;
	int status = subcommands_begin(&text, settings, defaults_read(settings, NULL, argc, argv, NULL), argc, argv);

	if (status >= 0)
		return status;
	if (donors_option_expand(&options.donors, &file) < 0)
		return COMMAND_USAGE;
	if (ask_with_key(&config, options.key_file, key) < 0)
		return COMMAND_FAILED;
	config.fabric.connect_ms = WATCH_ANSWER_MS;
	return show(&options, &config);
}

/* farpage swap: makes and removes swap space in donors' memory. This file has the table of verbs, and `list`. */
#include "cli/swap/swap.h"
#include "blockdev/devices.h"
#include "cli/commands.h"
#include "cli/disk/disk_daemon.h"
#include "cli/subcommands.h"
#include "cli/swap/swaps.h"
#include "cli/table.h"
#include "common/config.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum area_column { AREA_NAME, AREA_DEVICE, AREA_SIZE, AREA_USED, AREA_PRIORITY, AREA_STATE, AREA_COLUMNS };
static const struct table_column area_columns[AREA_COLUMNS] = {
    [AREA_NAME] = {.name = "NAME"},
    [AREA_DEVICE] = {.name = "DEVICE"},
    [AREA_SIZE] = {.name = "SIZE", .right = true},
    [AREA_USED] = {.name = "USED", .right = true},
    [AREA_PRIORITY] = {.name = "PRIORITY", .right = true},
    [AREA_STATE] = {.name = "STATE"},
};

static void area_add(struct table *table, const char *name, const struct swap_area *area, enum disk_state state)
{
	char row[AREA_COLUMNS][TABLE_CELL_MAX], text[SIZE_TEXT_MAX];

	snprintf(row[AREA_NAME], TABLE_CELL_MAX, "%.*s", RUNTIME_NAME_MAX, name);
	snprintf(row[AREA_DEVICE], TABLE_CELL_MAX, "%s", area->path);
	snprintf(row[AREA_SIZE], TABLE_CELL_MAX, "%s", size_format(area->size, text));
	snprintf(row[AREA_USED], TABLE_CELL_MAX, "%s", size_format(area->used, text));
	snprintf(row[AREA_PRIORITY], TABLE_CELL_MAX, "%d", area->priority);
	snprintf(row[AREA_STATE], TABLE_CELL_MAX, "%s", disk_state_name(state));
	table_add(table, row);
}

static const struct subcommands_text list_text = {
    .name = "swap list",
    .before = "usage: farpage swap list [OPTION...]\n\n"
	      "Shows the devices of farpage disk list that this machine swaps to, and how much of each is used.\n"
	      "The exit status is 3 if one of them is degraded, and 4 if one has failed.\n\n",
    .after = "",
    .instead = "it shows all",
};

static int swap_list(int argc, char **argv)
{
	static struct table_style style;
	static const struct config_setting settings[] = {TABLE_SETTINGS(&style), {.name = NULL}};
	static char names[SWAPS_MAX * 4][RUNTIME_NAME_MAX + 1];
	static char reply[CONTROL_REPLY_MAX];
	int status = subcommands_begin(&list_text, settings, config_read(settings, NULL, argc, argv, NULL), argc, argv);
	enum disk_state state;
	struct runtime_device device;
	struct swap_area area;
	struct table *table;
	int count;

	if (status >= 0)
		return status;
	status = COMMAND_OK;
	count = runtime_list(names, sizeof names / sizeof names[0]);
	if (count < 0) {
		log_error("swap list: cannot list the devices: %s", strerror(-count));
		return COMMAND_FAILED;
	}
	table = table_open("swap list", area_columns, AREA_COLUMNS, &style);
	if (!table)
		return COMMAND_USAGE;
	for (int i = 0; i < count; i++) {
		if (runtime_read_device(names[i], &device) < 0 || swaps_find(device.device.path, &area) < 0)
			continue;
		state = disk_daemon_state(names[i], reply);
		area_add(table, names[i], &area, state);
		status = disk_state_status(state, status);
	}
	table_print(table);
	return status;
}

int command_swap(int argc, char **argv)
{
	static const struct subcommand verbs[] = {
	    {.name = "on", .run = swap_on, .help = "make a device of donors' memory and swap to it"},
	    {"off", .help = "read all pages back and remove the device", .act = swap_off, .otherwise = SWAP_NAME,
	     .about = "usage: farpage swap off [NAME]\n\n"
		      "Moves all pages from a device of farpage swap on (NAME, or \"" SWAP_NAME
		      "\") into memory, or to other swap\n"
		      "space, and removes the device. Refuses if there is not enough memory. Ctrl-C interrupts the\n"
		      "command, and the device stays swap space. A device that is no longer swap space is removed.\n"},
	    {.name = "list", .run = swap_list, .help = "show swap space in donors' memory"},
	    {.name = NULL},
	};

	return subcommands_run(
	    verbs, "swap",
	    "Swap space in donors' memory. Swapped pages are only on the donors. When a donor dies, programs are\n"
	    "killed as soon as they need a page of that donor. With --replicas 2 one donor may die.",
	    argc, argv);
}

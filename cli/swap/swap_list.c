/* farpage swap list: shows the devices that this machine swaps to, as a table or as JSON. */
#include "blockdev/devices.h"
#include "cli/commands.h"
#include "cli/disk/disk_table.h"
#include "cli/listing.h"
#include "cli/swap/swap.h"
#include "cli/swap/swaps.h"
#include "common/log.h"
#include "common/size.h"

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

static const struct subcommands_text text = {
    .name = "swap list",
    .before = "usage: farpage swap list [OPTION...]\n\n"
	      "Shows the devices of farpage disk list that this machine swaps to, and how much of each is used.\n"
	      "The exit status is 3 if one of them is degraded, and 4 if one has failed.\n\n",
    .after = "",
    .instead = "it shows all",
};

static void area_add(struct table *table, const char *name, const struct swap_area *area, enum disk_state state)
{
	char row[AREA_COLUMNS][TABLE_CELL_MAX], size[SIZE_TEXT_MAX];

	snprintf(row[AREA_NAME], TABLE_CELL_MAX, "%.*s", RUNTIME_NAME_MAX, name);
	snprintf(row[AREA_DEVICE], TABLE_CELL_MAX, "%s", area->path);
	snprintf(row[AREA_SIZE], TABLE_CELL_MAX, "%s", size_format(area->size, size));
	snprintf(row[AREA_USED], TABLE_CELL_MAX, "%s", size_format(area->used, size));
	snprintf(row[AREA_PRIORITY], TABLE_CELL_MAX, "%d", area->priority);
	snprintf(row[AREA_STATE], TABLE_CELL_MAX, "%s", disk_state_name(state));
	table_add(table, row);
}

/* Adds the swap space to what `disk list --json` has of the device. */
static void area_add_json(struct json_object *disk, const struct swap_area *area)
{
	struct json_object *swap = json_object_new_object();

	json_add_number(swap, "size", area->size);
	json_add_number(swap, "used", area->used);
	json_object_object_add(swap, "priority", json_object_new_int(area->priority));
	json_object_object_add(disk, "swap", swap);
}

/* Adds each device that is swap space. Returns the exit status. */
static int swaps_ask(struct listing *listing)
{
	static char names[SWAPS_MAX * 4][RUNTIME_NAME_MAX + 1];
	int count = runtime_list(names, sizeof names / sizeof names[0]), status = COMMAND_OK;
	struct runtime_device device;
	struct json_object *disk;
	struct swap_area area;
	enum disk_state state;

	if (count < 0) {
		log_error("swap list: cannot list the devices: %s", strerror(-count));
		return COMMAND_FAILED;
	}
	for (int i = 0; i < count; i++) {
		if (runtime_read_device(names[i], &device) < 0 || swaps_find(device.device.path, &area) < 0)
			continue;
		disk = disk_ask(names[i], &state);
		area_add(listing->table, names[i], &area, state);
		area_add_json(disk, &area);
		json_object_array_add(listing->list, disk);
		status = disk_state_status(state, status);
	}
	return status;
}

int swap_list(int argc, char **argv)
{
	struct listing listing;
	int status = listing_begin(&text, "swaps", area_columns, AREA_COLUMNS, argc, argv, &listing);

	if (status >= 0)
		return status;
	status = swaps_ask(&listing);
	if (status == COMMAND_FAILED)
		listing_drop(&listing);
	else
		listing_print(&listing);
	return status;
}

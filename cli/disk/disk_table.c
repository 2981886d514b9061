/* disk_table: see disk_table.h. */
#include "cli/disk/disk_table.h"

#include "blockdev/devices.h"
#include "cli/json.h"
#include "common/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISKS_MAX 256

/* --- Asking ----------------------------------------------------------------------------------------------------- */

/* Returns the size with which the device was attached, from the file `options` in its folder, or 0 if it is unknown. */
static uint64_t size_kept(const char *name)
{
	static char text[RUNTIME_OPTIONS_MAX];
	const char *at;

	if (runtime_read(name, "options", text, sizeof text) < 0)
		return 0;
	at = strstr(text, "--size=");
	return at ? strtoull(at + strlen("--size="), NULL, 10) : 0;
}

static struct json_object *disk_kept(const char *name)
{
	struct json_object *object = json_object_new_object();
	struct runtime_device device;
	uint64_t size = size_kept(name);

	json_add_text(object, "name", name);
	if (size)
		json_add_number(object, "size", size);
	if (runtime_read_device(name, &device) == 0) {
		json_add_text(object, "device", device.device.path);
		json_add_text(object, "frontend", device.frontend);
	}
	return object;
}

struct json_object *disk_ask(const char *name, enum disk_state *ret_state)
{
	static char reply[CONTROL_REPLY_MAX];
	enum disk_state state = disk_daemon_state(name, reply);
	struct json_object *object = disk_state_is_reported(state) ? json_tokener_parse(reply) : NULL;

	if (!object)
		object = disk_kept(name);
	json_add_text(object, "state", disk_state_name(state));
	*ret_state = state;
	return object;
}

int disks_ask(struct json_object *disks, int *ret_status)
{
	static char names[DISKS_MAX][RUNTIME_NAME_MAX + 1];
	int count = runtime_list(names, DISKS_MAX);
	enum disk_state state;

	*ret_status = 0;
	for (int i = 0; i < count; i++) {
		json_object_array_add(disks, disk_ask(names[i], &state));
		*ret_status = disk_state_status(state, *ret_status);
	}
	return count < 0 ? count : 0;
}

/* --- The table -------------------------------------------------------------------------------------------------- */

const struct table_column disk_columns[DISK_COLUMNS] = {
    [DISK_NAME] = {.name = "NAME"},     [DISK_SIZE] = {.name = "SIZE", .right = true},
    [DISK_DEVICE] = {.name = "DEVICE"}, [DISK_FRONTEND] = {.name = "FRONTEND"},
    [DISK_STATE] = {.name = "STATE"},   [DISK_USED] = {.name = "USED", .right = true},
    [DISK_DONORS] = {.name = "DONORS"},
};

static void cell_text(struct json_object *disk, const char *key, char cell[TABLE_CELL_MAX])
{
	const char *text = json_text(disk, key);

	snprintf(cell, TABLE_CELL_MAX, "%s", text ? text : "-");
}

static void cell_size(struct json_object *disk, const char *key, char cell[TABLE_CELL_MAX])
{
	char text[SIZE_TEXT_MAX];
	bool known = json_object_object_get_ex(disk, key, NULL);

	snprintf(cell, TABLE_CELL_MAX, "%s", known ? size_format(json_number(disk, key), text) : "-");
}

/* Writes "2", or "1 of 2" if one of two donors cannot be reached. */
static void cell_donors(struct json_object *disk, char cell[TABLE_CELL_MAX])
{
	struct json_object *donors, *reachable;
	size_t count, good = 0;

	if (!json_object_object_get_ex(disk, "donors", &donors)) {
		snprintf(cell, TABLE_CELL_MAX, "-");
		return;
	}
	count = json_object_array_length(donors);
	for (size_t i = 0; i < count; i++)
		if (json_object_object_get_ex(json_object_array_get_idx(donors, i), "reachable", &reachable))
			good += json_object_get_boolean(reachable) != 0;
	if (good == count)
		snprintf(cell, TABLE_CELL_MAX, "%zu", count);
	else
		snprintf(cell, TABLE_CELL_MAX, "%zu of %zu", good, count);
}

void disk_fill(struct json_object *disk, char row[DISK_COLUMNS][TABLE_CELL_MAX])
{
	cell_text(disk, "name", row[DISK_NAME]);
	cell_size(disk, "size", row[DISK_SIZE]);
	cell_text(disk, "device", row[DISK_DEVICE]);
	cell_text(disk, "frontend", row[DISK_FRONTEND]);
	cell_text(disk, "state", row[DISK_STATE]);
	cell_size(disk, "bytes_used", row[DISK_USED]);
	cell_donors(disk, row[DISK_DONORS]);
}

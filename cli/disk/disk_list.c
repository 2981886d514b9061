/*
 * farpage disk list: shows all devices as a table or as JSON.
 *
 * Theory of operation. The command lists the devices' folders and asks each daemon. If a daemon does not answer, the
 * figures come from the device's folder.
 *
 * Threads: none.
 */
#include "cli/commands.h"
#include "cli/disk/disk.h"
#include "cli/disk/disk_daemon.h"
#include "cli/subcommands.h"
#include "common/config.h"
#include "common/log.h"
#include "common/size.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#define DISKS_MAX 256
#define CELL_MAX 80

enum column { NAME, SIZE, DEVICE, FRONTEND, STATE, USED, DONORS, COLUMNS };
static const char *const heads[COLUMNS] = {"NAME", "SIZE", "DEVICE", "FRONTEND", "STATE", "USED", "DONORS"};

/* Returns the size in the file `options` of the device's folder, as requested at attach, or 0 if it is unknown. */
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

	json_object_object_add(object, "name", json_object_new_string(name));
	if (size)
		json_object_object_add(object, "size", json_object_new_uint64(size));
	if (runtime_read_device(name, &device) == 0) {
		json_object_object_add(object, "device", json_object_new_string(device.device.path));
		json_object_object_add(object, "frontend", json_object_new_string(device.frontend));
	}
	return object;
}

/* Asks the daemon of @name. Returns an object that the caller releases with json_object_put(). */
static struct json_object *disk_ask(const char *name, enum disk_state *ret_state)
{
	static char reply[CONTROL_REPLY_MAX];
	enum disk_state state = disk_daemon_state(name, reply);
	struct json_object *object = disk_state_is_reported(state) ? json_tokener_parse(reply) : NULL;

	if (!object)
		object = disk_kept(name);
	json_object_object_add(object, "state", json_object_new_string(disk_state_name(state)));
	*ret_state = state;
	return object;
}

/* --- The table --------------------------------------------------------------------------------------------- */

static void cell_text(struct json_object *disk, const char *key, char cell[CELL_MAX])
{
	struct json_object *value;

	snprintf(cell, CELL_MAX, "%s",
		 json_object_object_get_ex(disk, key, &value) ? json_object_get_string(value) : "-");
}

static void cell_size(struct json_object *disk, const char *key, char cell[CELL_MAX])
{
	struct json_object *value;
	char text[SIZE_TEXT_MAX];

	if (json_object_object_get_ex(disk, key, &value))
		snprintf(cell, CELL_MAX, "%s", size_format(json_object_get_uint64(value), text));
	else
		snprintf(cell, CELL_MAX, "-");
}

/* Writes "2", or "1 of 2" if one of two donors cannot be reached. */
static void cell_donors(struct json_object *disk, char cell[CELL_MAX])
{
	struct json_object *donors, *reachable;
	size_t count, good = 0;

	if (!json_object_object_get_ex(disk, "donors", &donors)) {
		snprintf(cell, CELL_MAX, "-");
		return;
	}
	count = json_object_array_length(donors);
	for (size_t i = 0; i < count; i++)
		if (json_object_object_get_ex(json_object_array_get_idx(donors, i), "reachable", &reachable))
			good += json_object_get_boolean(reachable) != 0;
	if (good == count)
		snprintf(cell, CELL_MAX, "%zu", count);
	else
		snprintf(cell, CELL_MAX, "%zu of %zu", good, count);
}

static void row_fill(struct json_object *disk, char row[COLUMNS][CELL_MAX])
{
	cell_text(disk, "name", row[NAME]);
	cell_size(disk, "size", row[SIZE]);
	cell_text(disk, "device", row[DEVICE]);
	cell_text(disk, "frontend", row[FRONTEND]);
	cell_text(disk, "state", row[STATE]);
	cell_size(disk, "bytes_used", row[USED]);
	cell_donors(disk, row[DONORS]);
}

static void table_print(struct json_object *disks)
{
	static char rows[DISKS_MAX + 1][COLUMNS][CELL_MAX];
	size_t count = json_object_array_length(disks), width[COLUMNS] = {0};

	for (unsigned c = 0; c < COLUMNS; c++)
		snprintf(rows[0][c], CELL_MAX, "%s", heads[c]);
	for (size_t i = 0; i < count; i++)
		row_fill(json_object_array_get_idx(disks, i), rows[i + 1]);
	for (size_t i = 0; i <= count; i++)
		for (unsigned c = 0; c < COLUMNS; c++)
			if (strlen(rows[i][c]) > width[c])
				width[c] = strlen(rows[i][c]);
	for (size_t i = 0; i <= count; i++)
		for (unsigned c = 0; c < COLUMNS; c++)
			printf("%-*s%s", c < DONORS ? (int)width[c] : 0, rows[i][c], c < DONORS ? "  " : "\n");
}

static const struct subcommands_text text = {
    .name = "disk list",
    .before = "usage: farpage disk list [--json]\n\n"
	      "Shows every device and how it is doing. STATE is \"serving\"; \"degraded\" when a donor cannot be\n"
	      "reached, replicas are lacking or pages were lost (exit status 3); \"failed\" when every donor is lost\n"
	      "(exit status 4); \"adopting\" while a daemon comes, goes or is started anew; or \"left\": its daemon "
	      "has died, and farpage disk adopt goes on with it, farpage disk detach\n"
	      "removes it. USED is what its contents take of the donors' memory.\n\n",
    .after = "",
    .instead = "it shows all",
};

int disk_list(int argc, char **argv)
{
	static char names[DISKS_MAX][RUNTIME_NAME_MAX + 1];
	bool json = false;
	const struct config_setting settings[] = {
	    {.name = "json", .kind = CONFIG_FLAG, .value = &json, .help = "print JSON, with all that is known"},
	    {.name = NULL},
	};
	int status = subcommands_begin(&text, settings, config_read(settings, NULL, argc, argv, NULL), argc, argv);
	enum disk_state state;
	struct json_object *root, *disks;
	int count;

	if (status >= 0)
		return status;
	if (subcommands_root("disk list") < 0)
		return COMMAND_FAILED;
	status = COMMAND_OK;
	count = runtime_list(names, DISKS_MAX);
	if (count < 0) {
		log_error("disk list: cannot list the devices: %s", strerror(-count));
		return COMMAND_FAILED;
	}
	root = json_object_new_object();
	disks = json_object_new_array();
	json_object_object_add(root, "disks", disks);
	for (int i = 0; i < count; i++) {
		json_object_array_add(disks, disk_ask(names[i], &state));
		status = disk_state_status(state, status);
	}
	if (json)
		printf("%s\n",
		       json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	else
		table_print(disks);
	json_object_put(root);
	return status;
}

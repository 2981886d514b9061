/* farpage disk list: shows all devices as a table or as JSON. */
#include "cli/commands.h"
#include "cli/disk/disk.h"
#include "cli/disk/disk_table.h"
#include "cli/json.h"
#include "cli/subcommands.h"
#include "common/config.h"
#include "common/log.h"

#include <stdio.h>
#include <string.h>

static const struct subcommands_text text = {
    .name = "disk list",
    .before = "usage: farpage disk list [OPTION...]\n\n"
	      "Shows every device and how it is doing. STATE is \"serving\"; \"degraded\" when a donor cannot be\n"
	      "reached, replicas are lacking or pages were lost (exit status 3); \"failed\" when every donor is lost\n"
	      "(exit status 4); \"adopting\" while a daemon comes, goes or is started anew; or \"left\": its daemon "
	      "has died, and farpage disk adopt goes on with it, farpage disk detach\n"
	      "removes it. For users other than root it is \"unknown\" while the daemon writes no status.\n"
	      "USED is what its contents take of the donors' memory.\n\n",
    .after = "",
    .instead = "it shows all",
};

/* Prints @disks as JSON and releases them. */
static void print_json(struct json_object *disks)
{
	struct json_object *root = json_object_new_object();

	json_object_object_add(root, "disks", disks);
	json_print(root, false, stdout);
}

/* Prints @disks in @table, and releases both. */
static void print_table(struct json_object *disks, struct table *table)
{
	char row[DISK_COLUMNS][TABLE_CELL_MAX];

	for (size_t i = 0; i < json_object_array_length(disks); i++) {
		disk_fill(json_object_array_get_idx(disks, i), row);
		table_add(table, row);
	}
	table_print(table);
	json_object_put(disks);
}

int disk_list(int argc, char **argv)
{
	static struct table_style style;
	bool json = false;
	const struct config_setting settings[] = {
	    {.name = "json", .kind = CONFIG_FLAG, .value = &json, .help = "print JSON, with all that is known"},
	    TABLE_SETTINGS(&style),
	    {.name = NULL},
	};
	int status = subcommands_begin(&text, settings, config_read(settings, NULL, argc, argv, NULL), argc, argv);
	struct json_object *disks;
	struct table *table;
	int result;

	if (status >= 0)
		return status;
	table = table_open("disk list", disk_columns, DISK_COLUMNS, &style);
	if (!table)
		return COMMAND_USAGE;
	disks = json_object_new_array();
	result = disks_ask(disks, &status);
	if (result < 0) {
		log_error("disk list: cannot list the devices: %s", strerror(-result));
		status = COMMAND_FAILED;
		table_close(table);
		json_object_put(disks);
	} else if (json) {
		table_close(table);
		print_json(disks);
	} else {
		print_table(disks, table);
	}
	return status;
}

/* farpage disk list: shows all devices as a table or as JSON. */
#include "cli/commands.h"
#include "cli/disk/disk.h"
#include "cli/disk/disk_table.h"
#include "cli/listing.h"
#include "common/log.h"

#include <string.h>

static const struct subcommands_text text = {
    .name = "disk list",
    .before =
	"usage: farpage disk list [OPTION...]\n\n"
	"Shows every device and its state:\n"
	"  serving   the device works\n"
	"  degraded  a donor cannot be reached, replicas are lacking, or pages were lost (exit status 3)\n"
	"  failed    every donor is lost (exit status 4)\n"
	"  adopting  a daemon starts, ends or is replaced\n"
	"  left      the daemon has died: farpage disk adopt starts another, farpage disk detach removes the device\n"
	"  unknown   the daemon does not write its state, and only root can ask it\n"
	"USED is the donors' memory that the contents take.\n\n",
    .after = "",
    .instead = "it shows all",
};

int disk_list(int argc, char **argv)
{
	char row[DISK_COLUMNS][TABLE_CELL_MAX];
	struct listing listing;
	int status = listing_begin(&text, "disks", disk_columns, DISK_COLUMNS, argc, argv, &listing), result;

	if (status >= 0)
		return status;
	result = disks_ask(listing.list, &status);
	if (result < 0) {
		log_error("disk list: cannot list the devices: %s", strerror(-result));
		listing_drop(&listing);
		return COMMAND_FAILED;
	}
	for (size_t i = 0; i < json_object_array_length(listing.list); i++) {
		disk_fill(json_object_array_get_idx(listing.list, i), row);
		table_add(listing.table, row);
	}
	listing_print(&listing);
	return status;
}

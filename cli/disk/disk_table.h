/*
 * disk_table: the properties and figures of each device of `farpage disk`, as JSON and as a table.
 *
 * Threads: the main thread.
 */
#ifndef CLI_DISK_TABLE_H
#define CLI_DISK_TABLE_H

#include "cli/disk/disk_daemon.h"
#include "cli/table.h"

#include <json-c/json.h>

enum disk_column { DISK_NAME, DISK_SIZE, DISK_DEVICE, DISK_FRONTEND, DISK_STATE, DISK_USED, DISK_DONORS, DISK_COLUMNS };
extern const struct table_column disk_columns[DISK_COLUMNS];

/* Asks the daemon of the device @name. If the daemon does not answer, the figures are read from the device's folder.
   Returns an object that the caller releases with json_object_put(). */
struct json_object *disk_ask(const char *name, enum disk_state *ret_state);
/* Asks the daemons of all devices, and appends an object for each device to the JSON array @disks. *@ret_status gets
   the exit status of a list of these devices. Returns 0, or -errno if the devices cannot be listed. */
int disks_ask(struct json_object *disks, int *ret_status);
void disk_fill(struct json_object *disk, char row[DISK_COLUMNS][TABLE_CELL_MAX]);

#endif

/* farpage disk leave: ends the daemon of a device and leaves the device to the next daemon. Threads: none. */
#include "cli/commands.h"
#include "cli/disk/disk.h"
#include "cli/disk/disk_daemon.h"
#include "cli/subcommands.h"
#include "common/config.h"

#include <errno.h>
#include <stdio.h>

int disk_leave(int argc, char **argv)
{
	static const struct config_setting none[] = {{.name = NULL}};
	int first = config_read(none, NULL, argc, argv, NULL);
	const char *name;

	if (first == -ECANCELED) {
		printf("usage: farpage disk leave NAME\n\n"
		       "Ends the daemon of a device, and nothing else: who uses the device waits until farpage disk "
		       "adopt has\n"
		       "another go on with it, for which donors keep its pages for a while (--grace). For service "
		       "managers; to\n"
		       "upgrade, farpage disk adopt alone will do. Devices by FUSE cannot be left.\n");
		return COMMAND_OK;
	}
	name = first < 0 ? NULL : subcommands_name("disk leave", first, argc, argv, NULL);
	if (!name)
		return COMMAND_USAGE;
	if (disk_daemon_allowed("disk leave") < 0 || disk_daemon_leave(name) < 0)
		return COMMAND_FAILED;
	return COMMAND_OK;
}

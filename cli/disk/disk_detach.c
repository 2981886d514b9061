/* farpage disk detach: removes a device, or the remains of one whose daemon has died. Threads: none. */
#include "cli/commands.h"
#include "cli/disk/disk.h"
#include "cli/disk/disk_daemon.h"
#include "cli/subcommands.h"
#include "common/config.h"

#include <errno.h>
#include <stdio.h>

int disk_detach(int argc, char **argv)
{
	static const struct config_setting none[] = {{.name = NULL}};
	int first = config_read(none, NULL, argc, argv, NULL);
	const char *name;

	if (first == -ECANCELED) {
		printf("usage: farpage disk detach NAME\n\n"
		       "Removes a device and gives its memory back to the donors; what was in it is gone. One that is "
		       "in use\n"
		       "(swap space, mounted) is left as it is, and the exit status is 1. Also removes what a daemon "
		       "that\n"
		       "died has left.\n");
		return COMMAND_OK;
	}
	name = first < 0 ? NULL : subcommands_name("disk detach", first, argc, argv, NULL);
	if (!name)
		return COMMAND_USAGE;
	if (disk_daemon_allowed("disk detach") < 0 || disk_daemon_detach(name) < 0)
		return COMMAND_FAILED;
	return COMMAND_OK;
}

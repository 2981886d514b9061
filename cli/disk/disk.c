/*
 * farpage disk: makes and manages block devices whose contents are in donors' memory. This file has the table of
 * verbs.
 */
#include "cli/disk/disk.h"
#include "cli/commands.h"
#include "cli/disk/disk_daemon.h"
#include "cli/subcommands.h"

#include <stdio.h>

static int adopt(const char *device)
{
	char path[FRONTEND_PATH_MAX];
	int status = disk_daemon_adopt(device, path);

	if (!status)
		printf("%s\n", path);
	return status;
}

int command_disk(int argc, char **argv)
{
	static const struct subcommand verbs[] = {
	    {.name = "attach", .run = disk_attach, .help = "make a block device of donors' memory"},
	    {"detach", .help = "remove one, and give its memory back", .act = disk_daemon_detach,
	     .about =
		 "usage: farpage disk detach NAME\n\n"
		 "Removes a device and gives its memory back to the donors; what was in it is gone. One that is in "
		 "use\n"
		 "(swap space, mounted) is left as it is, and the exit status is 1. Also removes what a daemon that\n"
		 "died has left.\n"},
	    {.name = "list", .run = disk_list, .help = "show all, those that a crash left too"},
	    {"adopt", .help = "have a new daemon go on with one: after a crash, or an upgrade", .act = adopt,
	     .about = "usage: farpage disk adopt NAME\n\n"
		      "Has a new daemon go on with a device, with all that is in it: one whose daemon has died and "
		      "left it (its\n"
		      "state is \"left\" in farpage disk list), or one that is served, to have a newer version serve "
		      "it. Whoever\n"
		      "uses the device waits meanwhile. Devices by FUSE cannot be adopted.\n"},
	    {"leave", .help = "end the daemon of one, which then waits to be adopted", .act = disk_daemon_leave,
	     .about = "usage: farpage disk leave NAME\n\n"
		      "Ends the daemon of a device, and nothing else: who uses the device waits until farpage disk "
		      "adopt has\n"
		      "another go on with it, for which donors keep its pages for a while (--grace). For service "
		      "managers; to\n"
		      "upgrade, farpage disk adopt alone will do. Devices by FUSE cannot be left.\n"},
	    {.name = NULL},
	};

	return subcommands_run(
	    verbs, "disk",
	    "Block devices whose contents are in donors' memory: for swap (farpage swap does all of it), for\n"
	    "scratch file systems. What is in them is gone when they are detached, and with a donor that dies.",
	    argc, argv);
}

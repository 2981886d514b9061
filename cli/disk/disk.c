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
	    {"detach", .help = "remove a block device, and release its memory", .act = disk_daemon_detach,
	     .about =
		 "usage: farpage disk detach NAME\n\n"
		 "Removes a device and returns its memory to the donors. Its contents are lost. A device in use (swap\n"
		 "space, mounted) is not changed, and the exit status is 1. Also removes the device of a daemon that\n"
		 "died.\n"},
	    {.name = "list", .run = disk_list, .help = "show all devices, also those whose daemon crashed"},
	    {"adopt", .help = "start a new daemon for a device: after a crash, or an upgrade", .act = adopt,
	     .about =
		 "usage: farpage disk adopt NAME\n\n"
		 "Starts a new daemon for a device, which keeps its contents. If the old daemon has died, the "
		 "device's\n"
		 "state is \"left\" in farpage disk list. If the old daemon still runs, the new one replaces it,\n"
		 "for example after an upgrade. Users of the device wait meanwhile. FUSE devices cannot be adopted.\n"},
	    {"leave", .help = "end the daemon of a device, which then waits to be adopted", .act = disk_daemon_leave,
	     .about =
		 "usage: farpage disk leave NAME\n\n"
		 "Ends the daemon of a device, but does not remove the device. Users of the device wait until farpage\n"
		 "disk adopt has started another daemon. Donors keep the pages for a while (--grace). This is for\n"
		 "service managers: to upgrade, use farpage disk adopt alone. FUSE devices cannot be left.\n"},
	    {.name = NULL},
	};

	return subcommands_run(
	    verbs, "disk",
	    "Block devices whose contents are in donors' memory, for scratch file systems; farpage swap also makes\n"
	    "swap space. Contents are lost when a device is detached, or when their donor dies.",
	    argc, argv);
}

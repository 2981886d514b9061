/*
 * farpage disk: block devices whose contents are in donors' memory. A table of verbs.
 *
 * Threads: none of its own.
 */
#include "cli/disk/disk.h"
#include "cli/commands.h"
#include "cli/subcommands.h"

#include <stddef.h>

int command_disk(int argc, char **argv)
{
	static const struct subcommand verbs[] = {
	    {"attach", disk_attach, "make a block device of donors' memory"},
	    {"detach", disk_detach, "remove one, and give its memory back"},
	    {"list", disk_list, "show all, those that a crash left too"},
	    {"adopt", disk_adopt, "have a new daemon go on with one: after a crash, or an upgrade"},
	    {"leave", disk_leave, "end the daemon of one, which then waits to be adopted"},
	    {.name = NULL},
	};

	return subcommands_run(
	    verbs, "disk",
	    "Block devices whose contents are in donors' memory: for swap (farpage swap does all of it), for\n"
	    "scratch file systems. What is in them is gone when they are detached, and with a donor that dies.",
	    argc, argv);
}

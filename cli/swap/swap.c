/* farpage swap: makes and removes swap space in donors' memory. This file has the table of verbs. */
#include "cli/swap/swap.h"

#include "cli/commands.h"
#include "cli/subcommands.h"

#include <stddef.h>

int command_swap(int argc, char **argv)
{
	static const struct subcommand verbs[] = {
	    {.name = "on", .run = swap_on, .help = "make a device of donors' memory and swap to it"},
	    {"off", .help = "read all pages back and remove the device", .act = swap_off, .otherwise = SWAP_NAME,
	     .about = "usage: farpage swap off [NAME]\n\n"
		      "Moves all pages from a device of farpage swap on (NAME, or \"" SWAP_NAME
		      "\") into memory, or to other swap\n"
		      "space, and removes the device. Refuses if there is not enough memory. Ctrl-C interrupts the\n"
		      "command, and the device stays swap space. A device that is no longer swap space is removed.\n"},
	    {.name = "list", .run = swap_list, .help = "show swap space in donors' memory"},
	    {.name = "squeeze",
	     .run = swap_squeeze,
	     .help = "swap out what a control group does not use, ahead of need"},
	    {.name = NULL},
	};

	return subcommands_run(
	    verbs, "swap",
	    "Swap space in donors' memory. Swapped pages are only on the donors. When a donor dies, programs are\n"
	    "killed as soon as they need a page of that donor. With --replicas 2 one donor may die.",
	    argc, argv);
}

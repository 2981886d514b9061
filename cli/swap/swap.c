/*
 * farpage swap: swap space in donors' memory. A table of verbs, and `list`, the shortest of them.
 *
 * Threads: none of its own.
 */
#include "cli/swap/swap.h"
#include "blockdev/devices.h"
#include "cli/commands.h"
#include "cli/disk/disk_daemon.h"
#include "cli/subcommands.h"
#include "cli/swap/swaps.h"
#include "common/config.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void area_print(const char *name, const struct swap_area *area, enum disk_state state)
{
	char size[SIZE_TEXT_MAX], used[SIZE_TEXT_MAX];

	printf("%-16s  %-14s  %8s  %8s  %8d  %s\n", name, area->path, size_format(area->size, size),
	       size_format(area->used, used), area->priority, disk_state_name(state));
}

static const struct subcommands_text list_text = {
    .name = "swap list",
    .before = "usage: farpage swap list\n\n"
	      "Shows the devices of farpage disk list that this machine swaps to, and how much of each is used.\n"
	      "The exit status is 3 if one of them is degraded, and 4 if one has failed.\n",
    .after = "",
    .instead = "it shows all",
};

static int swap_list(int argc, char **argv)
{
	static const struct config_setting none[] = {{.name = NULL}};
	static char names[SWAPS_MAX * 4][RUNTIME_NAME_MAX + 1];
	static char reply[CONTROL_REPLY_MAX];
	int status = subcommands_begin(&list_text, none, config_read(none, NULL, argc, argv, NULL), argc, argv);
	enum disk_state state;
	struct runtime_device device;
	struct swap_area area;
	int count;

	if (status >= 0)
		return status;
	if (subcommands_root("swap list") < 0) /* without root, no device could be read and none would be shown */
		return COMMAND_FAILED;
	status = COMMAND_OK;
	count = runtime_list(names, sizeof names / sizeof names[0]);
	if (count < 0) {
		log_error("swap list: cannot list the devices: %s", strerror(-count));
		return COMMAND_FAILED;
	}
	printf("%-16s  %-14s  %8s  %8s  %8s  %s\n", "NAME", "DEVICE", "SIZE", "USED", "PRIORITY", "STATE");
	for (int i = 0; i < count; i++) {
		if (runtime_read_device(names[i], &device) < 0 || swaps_find(device.device.path, &area) < 0)
			continue;
		state = disk_daemon_state(names[i], reply);
		area_print(names[i], &area, state);
		status = disk_state_status(state, status);
	}
	return status;
}

int command_swap(int argc, char **argv)
{
	static const struct subcommand verbs[] = {
	    {.name = "on", .run = swap_on, .help = "make a device of donors' memory and swap to it"},
	    {"off", .help = "bring the pages home and remove the device", .act = swap_off, .otherwise = SWAP_NAME,
	     .about = "usage: farpage swap off [NAME]\n\n"
		      "Brings what is swapped out to a device of farpage swap on (NAME, or \"" SWAP_NAME
		      "\") back into memory, or\n"
		      "to other swap space, and removes the device. Refuses if it would not fit. Ctrl-C interrupts it, "
		      "and the\n"
		      "device stays swap space. A device that was swapped off already is removed.\n"},
	    {.name = "list", .run = swap_list, .help = "show swap space in donors' memory"},
	    {.name = NULL},
	};

	return subcommands_run(
	    verbs, "swap",
	    "Swap space in donors' memory. What is swapped out lives on the donors only: when one dies, the\n"
	    "programs whose pages it held are killed when they need them (--replicas 2 keeps them on two, and one may "
	    "die).",
	    argc, argv);
}

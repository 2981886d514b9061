/* farpage disk attach and adopt: start the daemon of a device and wait until the device can be used. Threads: none. */
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/disk/disk.h"
#include "cli/disk/disk_daemon.h"
#include "cli/subcommands.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void attach_help(const struct config_setting *settings)
{
	printf(
	    "usage: farpage disk attach --name NAME --size SIZE --donor URI... [OPTION...]\n\n"
	    "Makes a block device whose contents are in the donors' memory; the last line it prints is its path. It\n"
	    "costs the donors nothing until it is written, and discarding gives memory back (mount -o discard,\n"
	    "fstrim). With ublk a daemon that dies is started anew and nothing is lost.\n\n");
	config_help(settings);
	printf("  --config FILE    read further settings from this file, farpage-blockdev's\n\n"
	       "  farpage disk attach --name scratch --size 16G --donor rdma://10.0.0.7 --key /etc/farpage/key\n");
}

int disk_attach(int argc, char **argv)
{
	static struct settings settings; /* config_read() returns strings that live until exit */
	struct config_setting table[SETTINGS_TABLE_MAX + 1];
	char path[FRONTEND_PATH_MAX];
	int first;

	settings_defaults(&settings);
	table[settings_table(&settings, table)] = (struct config_setting){.name = NULL};
	first = defaults_read(table, SETTINGS_SECTION, argc, argv, "--config");
	if (first == -ECANCELED) {
		attach_help(table);
		return COMMAND_OK;
	}
	if (first < 0)
		return COMMAND_USAGE;
	if (first < argc) {
		log_error("disk attach: takes no argument \"%s\"; the device is named with --name", argv[first]);
		return COMMAND_USAGE;
	}
	if (settings_check(&settings) < 0)
		return COMMAND_USAGE;
	if (disk_daemon_allowed("disk attach") < 0 || disk_daemon_attach(&settings, path) < 0)
		return COMMAND_FAILED;
	printf("%s\n", path);
	return COMMAND_OK;
}

static void adopt_help(void)
{
	printf(
	    "usage: farpage disk adopt NAME\n\n"
	    "Has a new daemon go on with a device, with all that is in it: one whose daemon has died and left it (its\n"
	    "state is \"left\" in farpage disk list), or one that is served, to have a newer version serve it. "
	    "Whoever\n"
	    "uses the device waits meanwhile. Devices by FUSE cannot be adopted.\n");
}

int disk_adopt(int argc, char **argv)
{
	static const struct config_setting none[] = {{.name = NULL}};
	int first = config_read(none, NULL, argc, argv, NULL);
	char path[FRONTEND_PATH_MAX];
	const char *name;

	if (first == -ECANCELED) {
		adopt_help();
		return COMMAND_OK;
	}
	name = first < 0 ? NULL : subcommands_name("disk adopt", first, argc, argv, NULL);
	if (!name)
		return COMMAND_USAGE;
	if (disk_daemon_allowed("disk adopt") < 0 || disk_daemon_adopt(name, path) < 0)
		return COMMAND_FAILED;
	printf("%s\n", path);
	return COMMAND_OK;
}

/* farpage disk attach: starts the daemon of a device and waits until the device can be used. */
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/disk/disk.h"
#include "cli/disk/disk_daemon.h"
#include "cli/subcommands.h"

#include <stdio.h>

static const struct subcommands_text text = {
    .name = "disk attach",
    .before =
	"usage: farpage disk attach --name NAME --size SIZE --donor URI... [OPTION...]\n\n"
	"Makes a block device whose contents are in the donors' memory. The last line of the output is its path.\n"
	"The device takes memory of donors only for pages that were written, and discards release it (mount -o\n"
	"discard, fstrim). With ublk, a daemon that dies is started again, and nothing is lost.\n\n",
    .after = "  --config FILE    read further settings from this file, farpage-blockdev's\n\n"
	     "  farpage disk attach --name scratch --size 16G --donor rdma://10.0.0.7 --key /etc/farpage/key\n",
    .instead = "the device is named with --name",
};

int disk_attach(int argc, char **argv)
{
	static struct settings settings; /* static, because strings from config_read() are never freed */
	struct config_setting table[SETTINGS_TABLE_MAX + 1];
	char path[FRONTEND_PATH_MAX];
	int status;

	settings_defaults(&settings);
	table[settings_table(&settings, table)] = (struct config_setting){.name = NULL};
	status =
	    subcommands_begin(&text, table, defaults_read(table, SETTINGS_SECTION, argc, argv, "--config"), argc, argv);
	if (status >= 0)
		return status;
	if (settings_check(&settings) < 0)
		return COMMAND_USAGE;
	if (subcommands_root("disk attach") < 0 || disk_daemon_attach(&settings, path) < 0)
		return COMMAND_FAILED;
	printf("%s\n", path);
	return COMMAND_OK;
}

/* farpage swap on: makes swap space of a device in donors' memory (swap_space.h). */
#include "blockdev/devices.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/subcommands.h"
#include "cli/survival.h"
#include "cli/swap/swap.h"
#include "cli/swap/swap_space.h"
#include "common/log.h"

#include <limits.h>
#include <stdio.h>
#include <sys/swap.h>

/* Prints which settings of this machine the daemon has changed. */
static void changes_tell(const char *name)
{
	struct watermarks_record record;
	char changes[WATERMARKS_TEXT_MAX];

	if (watermarks_record_read(name, &record) == 0 && watermarks_changes(&record, changes))
		fprintf(stderr, "set for as long as %s is there: %s\n", name, changes);
}

/* Prints what happens to swapped pages when donors die. */
static void survival_tell(const struct settings *settings)
{
	struct survival survival = survival_of(settings->replicas, settings->backup);

	if (settings->memory)
		return;
	fprintf(stderr, "%u cop%s, %s backup: survives %s; costs %s\n", settings->replicas,
		settings->replicas == 1 ? "y" : "ies", settings->backup ? "a" : "no", survival.survives,
		survival.costs);
}

static const struct subcommands_text text = {
    .name = "swap on",
    .before =
	"usage: farpage swap on --size SIZE --donor URI... [--name NAME] [--priority P] [OPTION...]\n\n"
	"Makes a block device whose contents are in the donors' memory (farpage disk attach), and swaps to it. The\n"
	"last line of the output is the device's path. While the device exists, the kernel keeps more memory free,\n"
	"because sending pages needs memory. farpage doctor says how safe swapping is on this machine.\n\n",
    .after = "  --config FILE    read further settings from this file, farpage-blockdev's\n\n"
	     "  farpage swap on --size 64G --donor rdma://10.0.0.7 --key /etc/farpage/key\n",
    .instead = "the device is named with --name",
};

int swap_on(int argc, char **argv)
{
	static struct settings settings; /* static, because strings from config_read() are never freed */
	struct config_setting table[SETTINGS_TABLE_MAX + 2];
	unsigned priority = UINT_MAX, count;
	char path[FRONTEND_PATH_MAX];
	int status;

	settings_defaults(&settings);
	count = settings_table(&settings, table);
	table[count] =
	    (struct config_setting){.name = "priority",
				    .kind = CONFIG_NUMBER,
				    .value = &priority,
				    .max = SWAP_FLAG_PRIO_MASK,
				    .argument = "P",
				    .help = "among swap spaces, the highest is used first (default: the kernel's)"};
	table[count + 1] = (struct config_setting){.name = NULL};
	status =
	    subcommands_begin(&text, table, defaults_read(table, SETTINGS_SECTION, argc, argv, "--config"), argc, argv);
	if (status >= 0)
		return status;
	settings.swap = true;
	if (!settings.name)
		settings.name = SWAP_NAME;
	if (settings_check(&settings) < 0)
		return COMMAND_USAGE;
	if (subcommands_root("swap on") < 0 || swap_space_attach(&settings, priority, path) < 0)
		return COMMAND_FAILED;
	survival_tell(&settings);
	changes_tell(settings.name);
	printf("%s\n", path);
	return COMMAND_OK;
}

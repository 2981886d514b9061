/* config_help: prints the settings of config.h as the options of --help. */
#include "common/config.h"

#include <stdio.h>
#include <string.h>

static int help_width(const struct config_setting *setting)
{
	return (int)strlen(setting->name) + (setting->argument ? 1 + (int)strlen(setting->argument) : 0);
}

void config_help(const struct config_setting *settings)
{
	int widest = 0;

	for (const struct config_setting *setting = settings; setting->name; setting++) {
		int width = help_width(setting);

		if (width > widest)
			widest = width;
	}
	for (const struct config_setting *setting = settings; setting->name; setting++) {
		printf("  --%s%s%s%*s  %s\n", setting->name, setting->argument ? " " : "",
		       setting->argument ? setting->argument : "", widest - help_width(setting), "",
		       setting->help ? setting->help : "");
	}
}

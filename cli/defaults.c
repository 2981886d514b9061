/* defaults: see defaults.h. */
#include "cli/defaults.h"

#include "blockdev/devices.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* Writes the path of the file of defaults in @folder followed by @below. Returns @ret_path, or NULL if @folder is
   not absolute or the path is too long. */
static const char *path_of(const char *folder, const char *below, char ret_path[PATH_MAX])
{
	if (!folder || *folder != '/')
		return NULL;
	return snprintf(ret_path, PATH_MAX, "%s%s/farpage/farpage.ini", folder, below) < PATH_MAX ? ret_path : NULL;
}

int defaults_read(const struct config_setting *settings, const char *section, int argc, char **argv,
		  const char *file_option)
{
	static const char *const shared[] = {"donor", "key", "admin-key", NULL};
	static const char *const others[] = {"run", SETTINGS_SECTION, "helper", NULL};
	struct config_defaults defaults = {.section = "farpage", .shared = shared, .others = others};
	const char *only = getenv("FARPAGE_CONFIG"), *home = getenv("XDG_CONFIG_HOME");
	char path[PATH_MAX];

	if (only) {
		defaults.paths[0] = *only ? only : NULL;
		defaults.wanted = true;
	} else {
		defaults.paths[0] = home && *home ? path_of(home, "", path) : path_of(getenv("HOME"), "/.config", path);
		defaults.paths[1] = FARPAGE_CONFIG_DIR "/farpage.ini";
	}
	return config_read_defaults(settings, section, &defaults, argc, argv, file_option);
}

/* donors_option: see donors_option.h. */
#include "common/donors_option.h"

#include "common/donors_file.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(DONORS_FILE_DONORS <= CONFIG_LIST_MAX, "a list holds all donors of a file");

/* Returns the absolute form of @path, or NULL and errno. */
static char *path_complete(const char *path)
{
	char *here, *whole = NULL;

	if (*path == '/')
		return strdup(path);
	here = getcwd(NULL, 0);
	if (here && asprintf(&whole, "%s/%s", here, path) < 0)
		whole = NULL;
	free(here);
	return whole;
}

int donors_option_expand(struct config_list *donors, const char **ret_file)
{
	const char *given = NULL;
	struct donors_file *file;
	char *path;

	*ret_file = NULL;
	for (unsigned i = 0; i < donors->count; i++)
		given = donors->items[i][0] == '@' ? donors->items[i] : given;
	if (!given)
		return 0;
	if (donors->count > 1) {
		log_error("--donor %s: a donors file stands alone; write the other donors into it", given);
		return -EINVAL;
	}
	path = path_complete(given + 1);
	file = malloc(sizeof *file);
	if (!path || !file) {
		log_error("--donor %s: %m; give a whole path", given);
		free(file);
		free(path);
		return -EINVAL;
	}
	if (donors_file_read(path, file) < 0) {
		free(file);
		free(path);
		return -EINVAL;
	}
	memcpy(donors->items, file->uris, file->count * sizeof file->uris[0]);
	donors->count = file->count;
	*ret_file = path;
	return 0; /* the list points into @file */
}

/* donors_option: see donors_option.h. */
#include "common/donors_option.h"

#include "common/donors_dns.h"
#include "common/donors_file.h"
#include "common/log.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(DONORS_FILE_DONORS <= CONFIG_LIST_MAX, "a list holds all donors of a file");

static int names_expand(struct config_list *donors)
{
	struct config_list expanded = {.count = 0};

	for (unsigned i = 0; i < donors->count; i++) {
		if (donors_dns_is_name(donors->items[i])) {
			if (donors_dns_append(donors->items[i], &expanded) < 0)
				return -EINVAL;
		} else if (expanded.count < CONFIG_LIST_MAX) {
			expanded.items[expanded.count++] = donors->items[i];
		} else {
			log_error("--donor names more donors than the %u that a client can use", CONFIG_LIST_MAX);
			return -EINVAL;
		}
	}
	*donors = expanded;
	return 0;
}

int donors_option_expand(struct config_list *donors, const char **ret_file)
{
	const char *given = NULL, *path;
	struct donors_file *file;
	char *own;

	*ret_file = NULL;
	for (unsigned i = 0; i < donors->count; i++)
		given = donors->items[i][0] == '@' ? donors->items[i] : given;
	if (!given)
		return names_expand(donors);
	if (donors->count > 1) {
		log_error("--donor %s: a donors file stands alone; write the other donors into it", given);
		return -EINVAL;
	}
	path = given + 1;
	if (config_complete_path("donor", &path) < 0)
		return -EINVAL;
	own = path == given + 1 ? strdup(path) : (char *)(uintptr_t)path;
	file = malloc(sizeof *file);
	if (!own || !file)
		log_error("--donor %s: %m", given);
	if (!own || !file || donors_file_read(own, file) < 0) {
		free(file);
		free(own);
		return -EINVAL;
	}
	memcpy(donors->items, file->uris, file->count * sizeof file->uris[0]);
	donors->count = file->count;
	*ret_file = own;
	return 0; /* @file is not freed, because the list's items point into it */
}

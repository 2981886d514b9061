/* run_choice: see run_choice.h. */
#include "cli/run/run_choice.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Programs whose children continue to use their parent's memory. */
static const struct {
	const char *name;  /* the beginning of the program's name */
	bool only_to_save; /* the program forks only to save its data */
} forkers[] = {
    {"redis-server", true}, {"valkey-server", true}, {"keydb-server", true}, {"gunicorn", false},
    {"uwsgi", false},       {"apache2", false},      {"httpd", false},       {"php-fpm", false},
    {"postgres", false},    {"chromium", false},     {"chrome", false},      {"google-chrome", false},
};

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Returns true if Redis forks no child to save its data: the command line has --save '' and no --appendonly yes. As
   in Redis, the last option of a name counts, and "yes" may be in capitals. */
static bool saves_nothing(char *const arguments[])
{
	bool nothing = false, appends = false;

	for (; arguments && arguments[0] && arguments[1]; arguments++) {
		if (strcmp(arguments[0], "--save") == 0)
			nothing = !*arguments[1];
		if (strcmp(arguments[0], "--appendonly") == 0)
			appends = strcasecmp(arguments[1], "yes") == 0;
	}
	return nothing && !appends;
}

static bool forks(const char *name, char *const arguments[])
{
	for (size_t i = 0; i < sizeof forkers / sizeof forkers[0]; i++)
		if (strncmp(name, forkers[i].name, strlen(forkers[i].name)) == 0)
			return !forkers[i].only_to_save || !saves_nothing(arguments);
	return false;
}

bool run_choice_is_name(const char *name)
{
	return strcmp(name, "auto") == 0 || strcmp(name, "pager") == 0 || strcmp(name, "swap") == 0;
}

static enum run_engine choose_any(const struct run_choice *choice, char ret_line[RUN_CHOICE_MAX])
{
	const char *name = name_of(choice->path);

	if (choice->pager_lacks && choice->swap_lacks) {
		snprintf(ret_line, RUN_CHOICE_MAX, "%s (--engine swap would need %s)", choice->pager_lacks,
			 choice->swap_lacks);
		return RUN_ENGINE_NONE;
	}
	if (choice->pager_lacks) {
		snprintf(ret_line, RUN_CHOICE_MAX, "engine swap, because the pager cannot: %s", choice->pager_lacks);
		return RUN_ENGINE_SWAP;
	}
	bool forking = forks(name, choice->arguments);
	if (forking && !choice->swap_lacks) {
		snprintf(ret_line, RUN_CHOICE_MAX,
			 "engine swap, because children of %s go on with its memory (--engine pager gives each "
			 "process a budget)",
			 name);
		return RUN_ENGINE_SWAP;
	}
	if (forking)
		snprintf(ret_line, RUN_CHOICE_MAX,
			 "engine pager, although children of %s go on with its memory, each with half of the budget: "
			 "--engine swap would need %s",
			 name, choice->swap_lacks);
	else if (choice->swap_lacks)
		snprintf(ret_line, RUN_CHOICE_MAX, "engine pager; --engine swap would need %s", choice->swap_lacks);
	else
		snprintf(ret_line, RUN_CHOICE_MAX,
			 "engine pager, whose faults cost less (--engine swap has one budget for all processes)");
	return RUN_ENGINE_PAGER;
}

enum run_engine run_choose(const struct run_choice *choice, char ret_line[RUN_CHOICE_MAX])
{
	bool pager = strcmp(choice->wanted, "pager") == 0;
	const char *lacks = pager ? choice->pager_lacks : choice->swap_lacks;

	if (strcmp(choice->wanted, "auto") == 0)
		return choose_any(choice, ret_line);
	*ret_line = '\0';
	if (!lacks)
		return pager ? RUN_ENGINE_PAGER : RUN_ENGINE_SWAP;
	if (pager)
		snprintf(ret_line, RUN_CHOICE_MAX, "%s", lacks);
	else
		snprintf(ret_line, RUN_CHOICE_MAX, "%s: --engine swap needs %s", choice->path, lacks);
	return RUN_ENGINE_NONE;
}

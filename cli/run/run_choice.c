/* run_choice: see run_choice.h. */
#include "cli/run/run_choice.h"

#include <stdio.h>
#include <string.h>

/* Programs whose children go on in their parent's memory, by the beginnings of their names. */
static const char *const forkers[] = {"redis-server", "valkey-server", "keydb-server", "gunicorn", "uwsgi",
				      "apache2",      "httpd",         "php-fpm",      "postgres"};
/* Of these, the programs that fork only to save, and that do not save with --save ''. */
static const char *const savers[] = {"redis-server", "valkey-server", "keydb-server"};

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static bool begins_with_one(const char *name, const char *const names[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Returns true if the command line says --save '' and not --appendonly yes: then Redis forks no child. */
static bool saves_nothing(char *const arguments[])
{
	bool nothing = false;
	for (; arguments && arguments[0] && arguments[1]; arguments++) {
		if (strcmp(arguments[0], "--save") == 0)
			nothing = !*arguments[1];
		if (strcmp(arguments[0], "--appendonly") == 0 && strcmp(arguments[1], "no") != 0)
			return false;
	}
	return nothing;
}

static bool forks(const char *name, char *const arguments[])
{
	if (!begins_with_one(name, forkers, sizeof forkers / sizeof forkers[0]))
		return false;
	return !begins_with_one(name, savers, sizeof savers / sizeof savers[0]) || !saves_nothing(arguments);
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

/* run_choice: see run_choice.h. */
#include "cli/run/run_choice.h"

#include <stdio.h>
#include <string.h>

/* Servers of many processes that continue to use their parent's memory. */
static const char *const forkers[] = {
    "gunicorn", "uwsgi", "apache2", "httpd", "php-fpm", "postgres", "chromium", "chrome", "google-chrome",
};

/* Clients of daemons. The daemon starts the programs, so they have neither the library nor the control group. */
static const char *const starters[] = {"docker", "podman", "nerdctl", "kubectl", "systemd-run"};

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool forks(const char *name)
{
	for (size_t i = 0; i < sizeof forkers / sizeof forkers[0]; i++)
		if (strncmp(name, forkers[i], strlen(forkers[i])) == 0)
			return true;
	return false;
}

bool run_choice_starts_elsewhere(const char *path)
{
	for (size_t i = 0; i < sizeof starters / sizeof starters[0]; i++)
		if (strcmp(name_of(path), starters[i]) == 0)
			return true;
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
	bool forking = forks(name);
	if (forking && !choice->swap_lacks) {
		snprintf(ret_line, RUN_CHOICE_MAX,
			 "engine swap, because children of %s go on with its memory (--engine pager gives each "
			 "process a budget)",
			 name);
		return RUN_ENGINE_SWAP;
	}
	if (forking)
		snprintf(ret_line, RUN_CHOICE_MAX,
			 "engine pager, although children of %s go on with its memory, and each process has a budget: "
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

/* subcommands: see subcommands.h. */
#include "cli/subcommands.h"

#include "cli/commands.h"
#include "common/log.h"
#include "common/suggest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void verbs_help(const struct subcommand *verbs, const char *family, const char *about)
{
	printf("usage: farpage %s VERB [OPTION...]\n\n%s\n\nverbs:\n", family, about);
	for (; verbs->name; verbs++)
		printf("  %-8s %s\n", verbs->name, verbs->help);
	printf("\nfarpage %s VERB --help tells more about a verb.\n", family);
}

static int verb_act(const struct subcommand *verb, const char *family, int argc, char **argv)
{
	static const struct config_setting none[] = {{.name = NULL}};
	int first = config_read(none, NULL, argc, argv, NULL);
	const char *device = verb->otherwise;
	char name[32];

	snprintf(name, sizeof name, "%s %s", family, verb->name);
	if (first == -ECANCELED) {
		printf("%s", verb->about);
		return COMMAND_OK;
	}
	if (first < 0)
		return COMMAND_USAGE;
	if (argc - first == 1)
		device = argv[first];
	if (argc - first > 1 || !device) {
		log_error("%s: takes one name of a device; farpage disk list shows them", name);
		return COMMAND_USAGE;
	}
	return subcommands_root(name) < 0 || verb->act(device) < 0 ? COMMAND_FAILED : COMMAND_OK;
}

int subcommands_run(const struct subcommand *verbs, const char *family, const char *about, int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;

	if (!name) {
		log_error("%s: a verb is missing; farpage %s --help lists them", family, family);
		return COMMAND_USAGE;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
		verbs_help(verbs, family, about);
		return COMMAND_OK;
	}
	for (const struct subcommand *verb = verbs; verb->name; verb++)
		if (strcmp(verb->name, name) == 0)
			return verb->act ? verb_act(verb, family, argc - 1, argv + 1) : verb->run(argc - 1, argv + 1);
	struct suggestion near = {.word = name};
	char text[SUGGEST_TEXT_MAX];
	for (const struct subcommand *verb = verbs; verb->name; verb++)
		suggest_consider(&near, verb->name);
	suggest_consider(&near, "--help");
	suggest_consider(&near, "--version");
	log_error("%s: no such verb: %s%s; farpage %s --help lists them", family, name, suggest_format(&near, "", text),
		  family);
	return COMMAND_USAGE;
}

int subcommands_begin(const struct subcommands_text *text, const struct config_setting *settings, int first, int argc,
		      char **argv)
{
	if (first == -ECANCELED) {
		printf("%s", text->before);
		config_help(settings);
		printf("%s", text->after);
		return COMMAND_OK;
	}
	if (first == argc)
		return -1;
	if (first >= 0)
		log_error("%s: takes no argument \"%s\"; %s", text->name, argv[first], text->instead);
	return COMMAND_USAGE;
}

int subcommands_root(const char *name)
{
	if (geteuid() == 0)
		return 0;
	log_error("%s: only root may do this: run it with sudo", name);
	return -EPERM;
}

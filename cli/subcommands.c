/* verbs: see subcommands.h. */
#include "cli/subcommands.h"

#include "cli/commands.h"
#include "common/log.h"

#include <stdio.h>
#include <string.h>

static void verbs_help(const struct subcommand *verbs, const char *family, const char *about)
{
	printf("usage: farpage %s VERB [OPTION...]\n\n%s\n\nverbs:\n", family, about);
	for (; verbs->name; verbs++)
		printf("  %-8s %s\n", verbs->name, verbs->help);
	printf("\nfarpage %s VERB --help tells more about a verb.\n", family);
}

int subcommands_run(const struct subcommand *verbs, const char *family, const char *about, int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;

	if (!name) {
		log_error("%s: a verb is missing; farpage %s --help lists them", family, family);
		return COMMAND_USAGE;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
		verbs_help(verbs, family, about);
		return COMMAND_OK;
	}
	for (const struct subcommand *verb = verbs; verb->name; verb++)
		if (strcmp(verb->name, name) == 0)
			return verb->run(argc - 1, argv + 1);
	log_error("%s: no such verb: %s; farpage %s --help lists them", family, name, family);
	return COMMAND_USAGE;
}

const char *subcommands_name(const char *verb, int first, int argc, char **argv, const char *otherwise)
{
	if (argc - first == 1)
		return argv[first];
	if (argc == first && otherwise)
		return otherwise;
	log_error("%s: takes one name of a device; farpage disk list shows them", verb);
	return NULL;
}

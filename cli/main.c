/* farpage: the command. This file has the table of verbs. */
#include "cli/commands.h"
#include "common/log.h"
#include "common/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help; /* one line, or NULL for a verb that no user calls */
	bool has_verbs;   /* verbs of its own, such as "disk list" */
};

static const struct command commands[] = {
    {"run", command_run, "run a program with only part of its memory on this machine", false},
    {"status", command_status, "show the runs on this machine and their figures", false},
    {"advise", command_advise, "predict how a run would do with more local memory", false},
    {"top", command_top, "watch runs, devices and donors on the whole terminal", false},
    {"donors", command_donors, "show what donors lend: holders, drain, undrain, roll", true},
    {"disk", command_disk, "block devices of donors' memory: attach, detach, list, adopt", true},
    {"swap", command_swap, "swap space in donors' memory: on, off, list, squeeze", true},
    {"doctor", command_doctor, "check whether far memory works on this machine, and how fast", false},
    {"bench", command_bench, "measure the latency and throughput of donors, and far faults", false},
    {"key", command_key, "make the key that donors and their clients share", false},
    {"helper", command_helper, NULL, false},
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static void main_help(void)
{
	printf("usage: farpage VERB [OPTION...]\n\n"
	       "farpage lends the idle memory of other machines, called donors, to a program on this one.\n\n"
	       "verbs:\n");
	for (unsigned i = 0; i < COMMANDS; i++)
		if (commands[i].help)
			printf("  %-8s %s\n", commands[i].name, commands[i].help);
	printf(
	    "\n"
	    "To try it with a donor on this machine (elsewhere, a donor listens on its machine's address):\n"
	    "  farpage key farpage.key\n"
	    "  farpage-memserver --listen tcp://127.0.0.1:7470 --donate 2G --key farpage.key &\n"
	    "  farpage donors --donor tcp://127.0.0.1:7470 --key farpage.key\n"
	    "  farpage run --local 256M --donor tcp://127.0.0.1:7470 --key farpage.key -- sort big.txt\n"
	    "\n"
	    "Sizes are written 4096, 64M, 1.5G. The exit status is 0 if all went well, 1 if a donor or an operation\n"
	    "failed, 2 for wrong usage; farpage run returns the program's exit status. farpage VERB --help explains a\n"
	    "verb, and farpage --version prints the version. See also farpage(1) and farpage-memserver(8).\n");
}

static const struct command *main_find(const char *name)
{
	for (unsigned i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static void main_unknown(const char *name)
{
	struct suggestion near = {.word = name};
	char text[SUGGEST_TEXT_MAX];

	for (unsigned i = 0; i < COMMANDS; i++)
		if (commands[i].help)
			suggest_consider(&near, commands[i].name);
	suggest_consider(&near, "help");
	suggest_consider(&near, "--help");
	suggest_consider(&near, "--version");
	log_error("no such verb: %s%s; farpage --help lists them", name, suggest_format(&near, "", text));
}

/* Prints the help of the verb @name, or of farpage if it is NULL. Returns the exit status. */
static int main_help_of(char *name)
{
	const struct command *command = name ? main_find(name) : NULL;
	char *help[] = {name, (char[]){"--help"}, NULL};

	if (command)
		return command->run(2, help);
	if (name && *name != '-') {
		main_unknown(name);
		return COMMAND_USAGE;
	}
	main_help();
	return COMMAND_OK;
}

/* Flushes standard output. Returns COMMAND_FAILED if output was lost and @status is COMMAND_OK, otherwise @status. So
   the exit status tells a script about a full disk or a closed pipe. */
static int main_flushed(int status)
{
	bool lost = ferror(stdout) != 0;

	if (fflush(stdout) != 0 || lost) {
		log_error("cannot write to standard output: %m");
		return status == COMMAND_OK ? COMMAND_FAILED : status;
	}
	return status;
}

static bool is_version(const char *word)
{
	return strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0;
}

/* Returns true if the word after the verbs asks for the version. */
static bool verb_asks_version(const struct command *command, int argc, char **argv)
{
	int at = command->has_verbs && argc > 2 && *argv[2] != '-' ? 3 : 2;

	return argc > at && is_version(argv[at]);
}

static int main_version(void)
{
	printf("farpage %s\n", FARPAGE_VERSION);
	return main_flushed(COMMAND_OK);
}

int main(int argc, char **argv)
{
	const struct command *command;
	const char *name = argc > 1 ? argv[1] : NULL;

	log_setup("farpage", LOG_LEVEL_WARNING);
	if (!name) {
		log_error("a verb is missing; farpage --help lists them");
		return COMMAND_USAGE;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
		return main_flushed(main_help_of(argv[2]));
	if (is_version(name))
		return main_version();
	command = main_find(name);
	if (!command) {
		main_unknown(name);
		return COMMAND_USAGE;
	}
	if (verb_asks_version(command, argc, argv))
		return main_version();
	return main_flushed(command->run(argc - 1, argv + 1));
}

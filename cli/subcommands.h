/*
 * subcommands: runs commands that have commands of their own (`farpage disk attach`). commands.h says how these are called.
 */
#ifndef CLI_SUBCOMMANDS_H
#define CLI_SUBCOMMANDS_H

struct subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help; /* one line */
};

/* Runs the verb that argv[1] names among @verbs, which end with a NULL name. @family: "disk". @about: the first text
   of --help. Returns the exit status. */
int subcommands_run(const struct subcommand *verbs, const char *family, const char *about, int argc, char **argv);

/* Returns the only name that @verb takes: argv[first], or @otherwise if there is none. Returns NULL after one logged
   line if there is no name or more than one. */
const char *subcommands_name(const char *verb, int first, int argc, char **argv, const char *otherwise);

#endif

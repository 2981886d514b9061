/*
 * subcommands: runs commands that have commands of their own, called verbs (`farpage disk attach`), and reads the parts
 * of a command line that many commands share. commands.h says how commands and verbs are called.
 */
#ifndef CLI_SUBCOMMANDS_H
#define CLI_SUBCOMMANDS_H

#include "common/config.h"

/* A verb has either @run or @act. A verb with @act takes only the name of a device, and only root may use the verb. */
struct subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;               /* one line */
	int (*act)(const char *device); /* returns 0, or -errno after one logged line */
	const char *about;              /* with @act: the text of --help */
	const char *otherwise;          /* with @act: the default device, or NULL if the user must name one */
};

/* Runs the verb that argv[1] names among @verbs, which end with a NULL name. @family is, for example, "disk". @about is
   the first text of --help. Returns the exit status. */
int subcommands_run(const struct subcommand *verbs, const char *family, const char *about, int argc, char **argv);

/* The texts of a command that takes no arguments. */
struct subcommands_text {
	const char *name;           /* "disk list" */
	const char *before, *after; /* texts before and after the options in --help */
	const char *instead;        /* the end of the error message about an argument: "it shows all" */
};
/* Finishes the command line of a command without arguments. @first is the result of config_read() or defaults_read().
   Prints --help, or logs one line if there is an argument. Returns -1 if the command continues, otherwise its exit
   status. */
int subcommands_begin(const struct subcommands_text *text, const struct config_setting *settings, int first, int argc,
		      char **argv);

/* Returns 0 if this process is root, otherwise -EPERM after one logged line. */
int subcommands_root(const char *name);

#endif

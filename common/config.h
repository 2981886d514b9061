/*
 * config: reads a program's settings from its command line and from INI files. A setting is "--name VALUE" on the
 * command line, and "name = VALUE" in the section [PROGRAM] of a file. If both have a setting, the command line wins.
 *
 * Each mistake is logged as one line. The line names the place (the option, or file and line), the mistake, and what to
 * do.
 */
#ifndef COMMON_CONFIG_H
#define COMMON_CONFIG_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_kind {
	CONFIG_FLAG,   /* bool *; given as "--name", or as "name = yes|no" in a file */
	CONFIG_STRING, /* const char **; the string lives until exit */
	CONFIG_SIZE,   /* uint64_t *; written as in size.h */
	CONFIG_NUMBER, /* unsigned *; min to max */
	CONFIG_LIST,   /* struct config_list *; the option may be repeated, and a value may be a comma-separated list */
};
#define CONFIG_LIST_MAX 1024
struct config_list {
	const char *items[CONFIG_LIST_MAX];
	unsigned count;
};
struct config_setting {
	const char *name;
	enum config_kind kind;
	void *value;
	uint64_t min, max;           /* bounds of sizes and numbers; max 0 means no upper bound */
	const char *argument, *help; /* for --help: "SIZE", "memory to lend" */
};
/*
 * Reads the options, up to the first argument that is not an option, or to "--". If the option @file_option
 * ("--config") is given, reads the file that it names, too. The array @settings ends with a NULL name.
 *
 * Returns the index of the first argument that is not an option. Returns -EINVAL after logging one line, or -ECANCELED
 * if "--help" or "-h" is given. The caller then prints the help.
 */
int config_read(const struct config_setting *settings, const char *section, int argc, char **argv,
		const char *file_option);
/* Files of defaults, such as /etc/farpage/farpage.ini. They are read if the command line names no file. The command
   line wins over them. */
struct config_defaults {
	/* The section that several programs share. If the program's own section has the same setting, the own section
	   wins. */
	const char *section;
	/* Names of the settings allowed in that section, NULL at the end. The program ignores the settings that it
	   lacks. */
	const char *const *shared;
	const char *const *others; /* sections of other programs, which are ignored; NULL at the end */
	/* The files, or NULL. The first one wins. A file must belong to root or to the caller, and others must not
	   have write permission. */
	const char *paths[2];
	bool wanted; /* if true, a missing file is an error */
};
/* Does the same as config_read(), and reads @defaults, which may be NULL. @section is NULL if the program has no
   section of its own. */
int config_read_defaults(const struct config_setting *settings, const char *section,
			 const struct config_defaults *defaults, int argc, char **argv, const char *file_option);
/* For tests and fuzzing: reads @text as if it were the file @name. Returns 0, or -EINVAL after logging one line. */
int config_read_text(const struct config_setting *settings, const char *section, const char *name, const char *text);
/* Writes the absolute form of @path, which need not exist. Keeps symbolic links. Returns 0 or -errno. */
int config_absolute_path(const char *path, char ret_path[PATH_MAX]);
/* Replaces a relative path in *@path by an absolute one from malloc(). *@path may be NULL. @option is the option's
   name without dashes, for the log. Returns 0, or -EINVAL after logging one line. */
int config_complete_path(const char *option, const char **path);
void config_help(const struct config_setting *settings);
#endif

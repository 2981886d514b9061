/*
 * config: reads a program's settings from its command line and one INI file (libinih) into one table. A setting is
 * "--name VALUE" on the command line and "name = VALUE" in the file's [PROGRAM] section. The command line wins.
 *
 * Every mistake is logged as one line, which names file and line or the option, the mistake, and the next step.
 */
#ifndef COMMON_CONFIG_H
#define COMMON_CONFIG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_kind {
	CONFIG_FLAG,   /* bool *; given as "--name", or as "name = yes|no" in a file */
	CONFIG_STRING, /* const char **; the string lives until exit */
	CONFIG_SIZE,   /* uint64_t *; syntax of size.h */
	CONFIG_NUMBER, /* unsigned *; within min .. max */
	CONFIG_LIST,   /* struct config_list *; given several times, or comma-separated */
};
#define CONFIG_LIST_MAX 64
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
 * Reads options up to the first non-option or "--". If the option @file_option ("--config") is given, it then reads the
 * file that the option names. The table @settings ends with a NULL name.
 *
 * Returns the index of the first argument that is no option. Returns -EINVAL after logging one line. Returns -ECANCELED
 * for "--help" or "-h", which the caller handles.
 */
int config_read(const struct config_setting *settings, const char *section, int argc, char **argv,
		const char *file_option);
/* Files that are read if the command line names no file. A file adds only settings that stronger sources do not
   give. */
struct config_defaults {
	/* The section whose settings several programs share. The program's own section takes precedence over it. */
	const char *section;
	const char *const *shared; /* names of the shared settings, NULL at the end; unknown ones are ignored */
	const char *const *others; /* ignored sections of other programs, NULL at the end */
	/* The files, the strongest first, or NULL for none. Root or the caller must own a file, and nobody else may
	   write it. */
	const char *paths[2];
	bool wanted; /* every file must exist; if false, a missing file is skipped silently */
};
/* Does the same as config_read(), with @defaults. @section may be NULL if the program has no section of its own. */
int config_read_defaults(const struct config_setting *settings, const char *section,
			 const struct config_defaults *defaults, int argc, char **argv, const char *file_option);
/* Reads the text of a file from memory, for tests and fuzzing. @name is the file name in log lines. Returns 0, or
   -EINVAL after logging one line. */
int config_read_text(const struct config_setting *settings, const char *section, const char *name, const char *text);
/* Makes *@path absolute, if it is not NULL: a relative path is taken from the current directory. @option, without dashes,
   is for the log. A new string comes from malloc(). Returns 0, or -EINVAL after logging one line. */
int config_complete_path(const char *option, const char **path);
/* Prints the settings for --help, one a line, on standard output. */
void config_help(const struct config_setting *settings);
#endif

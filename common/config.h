/*
 * config: settings of a program, from its command line and one INI file (libinih), in one table. A setting is
 * "--name VALUE" on the command line and "name = VALUE" in the file's [PROGRAM] section; the command line wins.
 * Every mistake is one line: file and line or option, what is wrong, what to do.
 */
#ifndef COMMON_CONFIG_H
#define COMMON_CONFIG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_kind {
	CONFIG_FLAG,   /* bool *; "--name", "name = yes|no" */
	CONFIG_STRING, /* const char **; owned by the table's strings, live until exit */
	CONFIG_SIZE,   /* uint64_t *; size.h */
	CONFIG_NUMBER, /* unsigned *; min .. max */
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
	uint64_t min, max;           /* of sizes and numbers; max 0: none */
	const char *argument, *help; /* "SIZE", "memory to lend" : for --help */
};
/*
 * Reads options up to the first non-option or "--", then the file named by @file_option ("--config") if given.
 * The table ends with a NULL name. Returns the index of the first argument not taken, or -EINVAL after logging
 * one line. "--help" is not handled here: it is returned as -ECANCELED.
 */
int config_read(const struct config_setting *settings, const char *section, int argc, char **argv,
		const char *file_option);
/* Files that are read where the command line names none; what one does not say the next may. */
struct config_defaults {
	const char *section;       /* of settings that several programs have, beside each one's own */
	const char *const *shared; /* their names, NULL at the end; a program passes over those that it has not */
	const char *const *others; /* sections of other programs, NULL at the end: passed over */
	const char *paths[2];      /* the strongest first; NULL: none. Only root or the caller may write it. */
	bool wanted;               /* each of them is there; else one that is not says nothing */
};
/* config_read() with @defaults. @section may be NULL: the program has none of its own. */
int config_read_defaults(const struct config_setting *settings, const char *section,
			 const struct config_defaults *defaults, int argc, char **argv, const char *file_option);
/* Reads one file alone; -EINVAL or -errno after logging one line. */
int config_read_file(const struct config_setting *settings, const char *section, const char *path);
/* Same for text in memory (fuzzing); @name stands for the file in messages. */
int config_read_text(const struct config_setting *settings, const char *section, const char *name, const char *text);
/* The option part of --help, one setting a line, on standard output. */
void config_help(const struct config_setting *settings);
#endif

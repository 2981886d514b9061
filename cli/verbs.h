/*
 * verbs: commands that have commands of their own (`farpage disk attach`). Called as commands.h says.
 */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help; /* one line */
};

/* Runs the one of @verbs (ended by a NULL name) that argv[1] names. @family: "disk"; @about: what --help says first. */
int verbs_run(const struct verb *verbs, const char *family, const char *about, int argc, char **argv);

/* The one name that a verb takes: argv[first] or @otherwise; NULL after one logged line. */
const char *verbs_name(const char *verb, int first, int argc, char **argv, const char *otherwise);

#endif

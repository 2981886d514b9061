/*
 * run_choice: which engine carries a command of `farpage run`.
 *
 * Theory of operation. The pager is chosen where it can carry the program: it needs no root, its faults cost less than
 * those of a swap device, and other programs of the machine never use its far memory. The swap engine is chosen for
 * programs that the pager cannot carry, and for those known to fork children that go on with their parent's memory,
 * for which the pager has half of the budget only.
 *
 * Threads: any.
 */
#ifndef CLI_RUN_CHOICE_H
#define CLI_RUN_CHOICE_H

#include "cli/run_program.h"

#include <stdbool.h>

#define RUN_CHOICE_MAX (2 * RUN_WHY_MAX)

enum run_engine { RUN_ENGINE_NONE, RUN_ENGINE_PAGER, RUN_ENGINE_SWAP };

struct run_choice {
	const char *wanted; /* "auto", "pager" or "swap" */
	const char *path;   /* of the program */
	/* Each names the thing that an engine lacks to run the program, or is NULL if it lacks nothing. */
	const char *pager_lacks, *swap_lacks;
};

/* Whether run_choice.wanted may be @name. */
bool run_choice_is_name(const char *name);
/* Chooses. @ret_line: what was chosen, why, and what the other engine would need; empty if the engine was named; if
   none can be used, why not. */
enum run_engine run_choose(const struct run_choice *choice, char ret_line[RUN_CHOICE_MAX]);

#endif

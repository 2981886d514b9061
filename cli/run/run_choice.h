/*
 * run_choice: chooses the engine for a command of `farpage run`.
 *
 * Theory of operation. The pager is preferred, because it needs no root, and its faults are faster than those of a swap
 * device. Also, the kernel never swaps other programs to the pager's far memory.
 *
 * The swap engine is chosen in two cases:
 * - The pager cannot run the program.
 * - The program is known as a server of many processes that continue to use their parent's memory. With the pager each
 *   of them has a budget.
 *
 * Threads: any.
 */
#ifndef CLI_RUN_CHOICE_H
#define CLI_RUN_CHOICE_H

#include "cli/run/run_program.h"

#include <stdbool.h>

#define RUN_CHOICE_MAX (2 * RUN_WHY_MAX)

enum run_engine { RUN_ENGINE_NONE, RUN_ENGINE_PAGER, RUN_ENGINE_SWAP };

struct run_choice {
	const char *wanted; /* "auto", "pager" or "swap" */
	const char *path;   /* the program's path */
	/* The reason why the engine cannot run the program, or NULL if the engine can. */
	const char *pager_lacks, *swap_lacks;
};

/* Returns true if @name is a valid run_choice.wanted. */
bool run_choice_is_name(const char *name);
/* Returns true if the program at @path is known to have other programs started where no engine reaches them: in
   containers, or as units of systemd. */
bool run_choice_starts_elsewhere(const char *path);
/*
 * Chooses the engine. @ret_line gets one line:
 * - normally the choice, its reason, and what the other engine would need;
 * - an empty line if the engine was named;
 * - the reason if no engine can be used.
 */
enum run_engine run_choose(const struct run_choice *choice, char ret_line[RUN_CHOICE_MAX]);

#endif

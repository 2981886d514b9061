/*
 * signals: those that end a command (Ctrl-C and the like), for one that must not be ended half-way.
 *
 * Threads: the only one there is.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Blocks them, but for those that are to be ignored (nohup): blocked they would be pending. Which were blocked, and the
   mask before, for sigprocmask(SIG_SETMASK). */
void signals_block(sigset_t *ret_blocked, sigset_t *ret_before);
/* Whether one of these has come. */
bool signals_came(const sigset_t *blocked);
/* This process's mask without them: for a program that it starts, or while something is waited for. */
sigset_t signals_open(void);

#endif

/*
 * signals: handles the signals that end a command (SIGINT, SIGTERM, SIGHUP), for commands that must not end half-way.
 *
 * Threads: the command's only thread.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Blocks these signals, except ignored ones (nohup), which would become pending. *@ret_blocked gets the blocked
   signals, and *@ret_before the mask before, for sigprocmask(SIG_SETMASK). */
void signals_block(sigset_t *ret_blocked, sigset_t *ret_before);
/* Returns true if one of the signals in @blocked has come. */
bool signals_came(const sigset_t *blocked);
/* Returns this process's mask without these signals, for a program that this process starts, or for a wait. */
sigset_t signals_open(void);

#endif

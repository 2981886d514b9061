/*
 * signals: blocks the signals that end a command (SIGINT, SIGTERM, SIGHUP), for commands that must not end before
 * they have finished or undone their work.
 *
 * Threads: the command's only thread.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Blocks these signals, except signals that this process ignores, for example because of nohup(1). *@ret_blocked gets
   the blocked signals. *@ret_before gets the earlier mask, for sigprocmask(SIG_SETMASK). */
void signals_block(sigset_t *ret_blocked, sigset_t *ret_before);
/* Returns true if one of the signals in @blocked is pending. */
bool signals_came(const sigset_t *blocked);
/* Returns this process's signal mask without the signals of signals_block(), for posix_spawn(3) and ppoll(2). */
sigset_t signals_open(void);

#endif

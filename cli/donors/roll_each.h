/*
 * roll_each: runs the command of `farpage donors roll` for one donor.
 *
 * Theory of operation. /bin/sh runs the command. The command's environment names the donor. If the roll has the
 * terminal, the command shares the roll's process group, so that the command may ask for a password, and Ctrl-C reaches
 * both. Otherwise the command has a process group of its own, and the roll passes signals on to this whole group.
 *
 * Threads: the command's only thread.
 */
#ifndef CLI_ROLL_EACH_H
#define CLI_ROLL_EACH_H

#include <signal.h>
#include <stdbool.h>

#define ROLL_EACH_TEXT_MAX 48

struct roll_each {
	const char *command; /* for sh -c */
	bool to_stderr;      /* the command's standard output goes to standard error */
	sigset_t stops;      /* the blocked signals that are passed on */
	sigset_t mask;       /* the command's signal mask; its SIGPIPE has the default action */
};

/* Runs the command for the donor @uri, and waits for its end. *ret_signal is the last signal that was passed on, or 0.
   Returns 0 and the wait status, or -errno after one logged line. */
int roll_each_run(const struct roll_each *each, const char *uri, int *ret_wait_status, int *ret_signal);
/* Returns the command's exit status. If signal N ended the command, returns 128 + N, as shells do. */
int roll_each_status(int wait_status);
/* Writes, for example, "ended with status 3" or "was ended by signal 15". Returns @text. */
const char *roll_each_format(int wait_status, char text[ROLL_EACH_TEXT_MAX]);

#endif

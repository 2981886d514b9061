/*
 * drain: farpage donors drain and undrain. commands.h says how they are called.
 *
 * Theory of operation. A drained donor grants no leases and recalls all its slabs from its clients. One message of
 * this command starts the drain. After that the command only shows the progress until the donor is empty, so the
 * drain continues if the command ends. `farpage donors roll` (roll.h) drains with the same functions.
 *
 * Without --force the donor waits until its clients release their slabs. With --force the donor takes the slabs at the
 * deadline, and pages without another copy are lost.
 *
 * Threads: the caller's.
 */
#ifndef CLI_DRAIN_H
#define CLI_DRAIN_H

#include "cli/donors/visit.h"

#include <signal.h>
#include <stdbool.h>

#define DRAIN_NO_TIMEOUT UINT32_MAX
#define DRAIN_LEFT_MAX 96

struct drain {
	struct visit visit;
	bool force, json;
	bool several;                   /* several donors are given, so JSON has a line for each */
	uint64_t began;                 /* start of the timeout, by clock_now() */
	unsigned deadline_s, timeout_s; /* 0 and DRAIN_NO_TIMEOUT until options are read */
	uint32_t shown;                 /* the number of slabs in the last progress line */
};

/* The options that fill in a struct drain. @late is the help text of --timeout. */
/* clang-format off */
#define DRAIN_SETTINGS(drain, late) \
	{"timeout", CONFIG_NUMBER, &(drain)->timeout_s, 0, 1000000, "SECONDS", late}, \
	{"force", CONFIG_FLAG, &(drain)->force, 0, 0, NULL, \
	 "take unreleased slabs at the deadline: pages without another copy are lost"}, \
	{"deadline", CONFIG_NUMBER, &(drain)->deadline_s, 1, 3600, "SECONDS", \
	 "with --force: the donor is empty by then (default 10)"}
/* clang-format on */

/* Checks these options of @verb and completes them. Returns 0, or -EINVAL after one logged line. */
int drain_check(struct drain *drain, const char *verb);
/* Asks the donor of the open visit to do @what. Returns 0 and the donor's answer, a DRAINING, or -errno after one
   logged line. -EACCES means that this key has no right to ask for @what, and that nothing has changed. */
int drain_ask(struct drain *drain, enum wire_drain what, struct wire_message *ret_answer);
/* Asks the donor to drain, with --force by force. Returns the same as drain_ask(). */
int drain_order(struct drain *drain, struct wire_message *ret_answer);
/*
 * Shows the progress of a drain until the donor is empty. @answer is the answer to drain_order(), and becomes the last
 * answer. Returns:
 * - 0: the donor is empty;
 * - -ETIME: the timeout is over; nothing is logged;
 * - -EINTR: a signal of @stops is pending (@stops may be NULL); nothing is logged;
 * - another -errno after one logged line.
 */
int drain_wait(struct drain *drain, const sigset_t *stops, struct wire_message *answer);
/* Writes, for example, "768M in 12 slabs of 2 clients". Returns @text. */
const char *drain_left(const struct drain *drain, const struct wire_message *answer, char text[DRAIN_LEFT_MAX]);

int drain_command_begin(int argc, char **argv);
int drain_command_end(int argc, char **argv);

/* Returns "lending", "shrinking", "draining" or "clearing" for an enum wire_state, or "unknown". */
const char *drain_state_name(unsigned state);

#endif

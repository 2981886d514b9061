/*
 * frontends: the front ends there are, in the order of preference, and which of them this machine can use.
 *
 * Threads: the main thread's.
 */
#ifndef BLOCKDEV_FRONTENDS_H
#define BLOCKDEV_FRONTENDS_H

#include "blockdev/frontend.h"

#define FRONTEND_NOTE_MAX 512

/* By name; NULL: there is none called that. */
const struct frontend_ops *frontend_find(const char *name);

/* The one called @name, or with "auto" the first of all that this machine has. @ret_note: a line about what was passed
   over and why, or empty. -EINVAL: no such; or what the probe says; after one logged line with the next step. */
int frontend_choose(const char *name, const struct frontend_ops **ret_ops, char ret_note[FRONTEND_NOTE_MAX]);

/* The first that this machine has, or NULL if it has none. @ret_why: why not those before it, or empty. Logs nothing.
 */
const struct frontend_ops *frontend_any(char ret_why[FRONTEND_NOTE_MAX]);

/* What a device may have under way at most; queues and depth as asked for (0: as the front end likes). */
uint64_t frontend_flight_kib(const struct frontend_ops *ops, unsigned queues, unsigned depth);

#endif

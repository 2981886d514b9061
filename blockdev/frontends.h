/*
 * frontends: the list of front ends in order of preference, and the choice among them. devices.h has the functions for
 * other folders.
 *
 * Threads. All functions run in the main thread.
 */
#ifndef BLOCKDEV_FRONTENDS_H
#define BLOCKDEV_FRONTENDS_H

#include "blockdev/frontend.h"

/* Returns the front end of this name, or NULL. */
const struct frontend_ops *frontends_find(const char *name);

/*
 * Chooses the front end called @name, or for "auto" the first one that this machine has. @ret_note gets a line about
 * the front ends that were passed over, or "". Returns 0, -EINVAL for an unknown name, or the probe's error. Each error
 * is logged as one line with the next step.
 */
int frontends_choose(const char *name, const struct frontend_ops **ret_ops, char ret_note[FRONTENDS_NOTE_MAX]);

#endif

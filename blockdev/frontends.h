/*
 * frontends: the list of front ends in order of preference, and the choice among them. devices.h declares the functions
 * that other folders may call.
 *
 * Threads. All functions run in the main thread.
 */
#ifndef BLOCKDEV_FRONTENDS_H
#define BLOCKDEV_FRONTENDS_H

#include "blockdev/frontend.h"

const struct frontend_ops *frontends_find(const char *name);

/* Chooses the front end @name, or for "auto" the first front end that works on this machine. @ret_note gets "", or a
   line about the front ends that do not work. Returns 0, -EINVAL for an unknown name, or the error of probe(). Logs
   each error as one line with the next step. */
int frontends_choose(const char *name, const struct frontend_ops **ret_ops, char ret_note[FRONTENDS_NOTE_MAX]);

#endif

/*
 * group: a control group of a daemon's own, outside of the limits of whoever started it.
 *
 * Theory of operation. `farpage swap on` is run in somebody's session or service, and a daemon that stayed in that
 * control group would be slowed down and refused memory when those programs, whose pages it is to take away, have
 * reached their limit. So a daemon that serves swap space makes a group at the root (cgroup v2), farpage-NAME, with all
 * that it uses protected (memory.min = max) and nothing limited, and goes there before it takes any memory, which stays
 * counted where it was taken. At its end it goes to the root itself and removes the group. Where there is no such
 * hierarchy, or it has no memory controller (cgroup v1, containers), the daemon stays where it is. A daemon that
 * systemd starts has a unit, and so a group, already.
 *
 * FARPAGE_CGROUP names a folder in place of /sys/fs/cgroup (for tests).
 *
 * Threads: the main thread's, before there are others; all of the process goes.
 */
#ifndef BLOCKDEV_GROUP_H
#define BLOCKDEV_GROUP_H

#include <stdbool.h>

/* Whether this process could make one. */
bool group_possible(void);
/* 0; -errno: the process is where it was, and nothing was made. */
int group_enter(const char *name);
/* Removes the group of @name, from within it or not. No such group: nothing to do. */
void group_leave(const char *name);

#endif

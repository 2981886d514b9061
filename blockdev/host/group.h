/*
 * group: a control group for a daemon, outside the limits of the session or service that started it.
 *
 * Theory of operation. `farpage swap on` runs in some session or service. When that service's control group reaches its
 * limit, the kernel slows down its members and refuses them memory. At that moment the daemon must take that group's
 * pages, so it must not be a member.
 *
 * So a daemon that serves swap space creates the group farpage-NAME at the root (cgroup v2). The group protects all
 * memory that the daemon uses (memory.min = max) and limits nothing. The daemon enters it before it takes any memory,
 * because memory stays counted where it was taken. At its end the daemon moves to the root and removes the group.
 *
 * Without cgroup v2, or without its memory controller (cgroup v1, containers), the daemon stays where it is. A daemon
 * started by systemd already has a unit and therefore a group.
 *
 * FARPAGE_CGROUP names a folder in place of /sys/fs/cgroup, for tests.
 *
 * Threads. The main thread calls these functions before it starts other threads. They move the whole process.
 */
#ifndef BLOCKDEV_GROUP_H
#define BLOCKDEV_GROUP_H

#include "blockdev/devices.h"

/*
 * Creates the group of @name and moves the process there. Returns 0, or -errno. After an error the process has not
 * moved, and there is no group.
 */
int group_enter(const char *name);
/* Removes the group of @name. The process may be in it. Does nothing if there is no such group. */
void group_leave(const char *name);

#endif

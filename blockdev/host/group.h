/*
 * group: a control group for a daemon, without the limits of the session or service that started it.
 *
 * Theory of operation. `farpage swap on` runs in a session or service, whose control group may have a memory limit.
 * When the group reaches its limit, the kernel slows the group's members down and refuses them memory. Just then, the
 * daemon must store the pages that the group swaps out. So the daemon must not be a member of this group.
 *
 * A daemon that serves swap space creates the group farpage-NAME at the root (cgroup v2). The group has no limit, and
 * protects all memory that the daemon uses (memory.min = max). The daemon enters the group before it allocates memory,
 * because memory stays charged to the group in which it was allocated. At its end the daemon moves to the root and
 * removes the group.
 *
 * Without cgroup v2 or its memory controller (cgroup v1, containers), the daemon stays where it is. A daemon that
 * systemd starts already has its unit's group.
 *
 * FARPAGE_CGROUP names a folder in place of /sys/fs/cgroup, for tests.
 *
 * Threads. The main thread calls these functions before it starts other threads. group_enter() and group_leave() move
 * the whole process.
 */
#ifndef BLOCKDEV_GROUP_H
#define BLOCKDEV_GROUP_H

#include "blockdev/devices.h"

/* Creates the group of @name and moves this process into it. Returns 0 or -errno. After an error, there is no group and
   the process has not moved. */
int group_enter(const char *name);
/* Removes the group of @name, if it exists. The process may be in it. */
void group_leave(const char *name);

#endif

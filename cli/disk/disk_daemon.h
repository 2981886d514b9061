/*
 * disk_daemon: starts farpage-blockdev, and sends requests to running daemons.
 *
 * Theory of operation. This program looks for the daemon's program in folders near its own. While the daemon starts, it
 * logs errors to standard error, so that the user sees them. When the device is ready, the daemon writes the device's
 * path to a pipe, and closes standard error. If this program ends before the device is ready, the pipe is closed, and
 * the daemon removes the device again. The daemon does not remove a device that existed before.
 *
 * Threads: the main thread.
 */
#ifndef CLI_DISK_DAEMON_H
#define CLI_DISK_DAEMON_H

#include "blockdev/devices.h"

#include <stdbool.h>

/* Loads the kernel's ublk driver if this machine has it and it is not loaded yet. */
void disk_daemon_load_ublk(void);

/* Start a daemon that attaches a device according to @settings, or that adopts the device @name. Return 0 once the
   device can be used, with its path in @ret_path, or -errno after a logged line. */
int disk_daemon_attach(const struct settings *settings, char ret_path[FRONTEND_PATH_MAX]);
int disk_daemon_adopt(const char *name, char ret_path[FRONTEND_PATH_MAX]);
/* Ends the daemon of @name without removing the device, so that another daemon can adopt it. Returns 0 when the daemon
   has ended. After one logged line returns -EBUSY if the daemon cannot leave its device, -ETIMEDOUT if the daemon does
   not answer or end in time, or another -errno. */
int disk_daemon_leave(const char *name);

/* Removes the device @name, and ends its daemon if it still lives. Returns 0, or -EBUSY or another -errno after one
   logged line. */
int disk_daemon_detach(const char *name);

enum disk_state { DISK_SERVING, DISK_DEGRADED, DISK_FAILED, DISK_ADOPTING, DISK_LEFT, DISK_UNKNOWN, DISK_STATES };
const char *disk_state_name(enum disk_state state); /* "serving" */
/* Returns true for the states that a daemon reports, and false for the states that this program finds out itself. */
bool disk_state_is_reported(enum disk_state state);
/* Returns the exit status of a list that has shown a device in @state. @status is the exit status for the devices shown
   before. */
int disk_state_status(enum disk_state state, int status);
/* Asks the daemon of @name for its state. If the user is not root, reads the status that the daemon last wrote, and
   returns DISK_UNKNOWN if this status is old. If disk_state_is_reported() is true for the result, @ret_reply has the
   daemon's status as JSON (blockdev/daemon/status.h). */
enum disk_state disk_daemon_state(const char *name, char ret_reply[CONTROL_REPLY_MAX]);

#endif

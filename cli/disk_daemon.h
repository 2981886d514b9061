/*
 * disk_daemon: starting farpage-blockdev, and asking the daemons that run.
 *
 * Theory of operation. The daemon is found beside this program. It gets a pipe to say that its device is ready; what is
 * wrong it says on standard error itself, which it gives up when it is ready. If this program ends before that, the
 * daemon finds the pipe closed and takes the device away again, unless it was there before.
 *
 * Threads: the main thread's.
 */
#ifndef CLI_DISK_DAEMON_H
#define CLI_DISK_DAEMON_H

#include "blockdev/control.h"
#include "blockdev/frontend.h"
#include "blockdev/settings.h"

#include <stdbool.h>

/* -EPERM after one logged line: not root. */
int disk_daemon_allowed(const char *verb);

/* Loads the kernel's ublk driver if this machine has it and it is not loaded yet; otherwise changes nothing. */
void disk_daemon_load_ublk(void);

/* A daemon that attaches what @settings says, or with an @adopt name goes on with that device; returns once the device
   can be used. -errno: it said why. */
int disk_daemon_attach(const struct settings *settings, char ret_path[FRONTEND_PATH_MAX]);
int disk_daemon_adopt(const char *name, char ret_path[FRONTEND_PATH_MAX]);
/* Ends the daemon, and leaves the device to the next; returns when it has ended. -EBUSY: it cannot; -ETIMEDOUT: not in
   time, and then it goes on; after one logged line. */
int disk_daemon_leave(const char *name);
/* Removes a device whose daemon has ended. */
int disk_daemon_remove(const char *name);

/* Ends the device of that name, whether its daemon lives or not; -EBUSY and others after one logged line. */
int disk_daemon_detach(const char *name);

enum disk_state { DISK_SERVING, DISK_DEGRADED, DISK_FAILED, DISK_ADOPTING, DISK_LEFT, DISK_STATES };
const char *disk_state_name(enum disk_state state); /* "serving" */
/* Whether a daemon has said so. */
bool disk_state_is_told(enum disk_state state);
/* The exit status of a list that has shown a device in this state, and before it what makes @status. */
int disk_state_status(enum disk_state state, int status);
/* @ret_reply: of a state that is told what status.h's says. */
enum disk_state disk_daemon_state(const char *name, char ret_reply[CONTROL_REPLY_MAX]);

#endif

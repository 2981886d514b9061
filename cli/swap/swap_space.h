/*
 * swap_space: a block device in donors' memory that this machine swaps to.
 *
 * Theory of operation. swap_space_attach() makes a device (disk_daemon.h), runs mkswap(8) on it, and calls swapon(2).
 * If a step fails, the earlier steps are undone.
 *
 * swap_space_detach() calls swapoff(2), which reads every page back and may take long. If the pages do not fit into
 * memory, swapoff(2) fails only after it has read many of them, so their size is checked before. A child process makes
 * the call, because a signal can end the child. swapoff(2) then stops, and the device remains swap space. Meanwhile
 * this process shows the progress from /proc/swaps.
 *
 * Threads: the command's only thread.
 */
#ifndef CLI_SWAP_SPACE_H
#define CLI_SWAP_SPACE_H

#include "blockdev/devices.h"
#include "cli/swap/swaps.h"

#include <stdbool.h>

/* Returns true if mkswap(8), which swap_space_attach() runs, is where Debian installs it. */
bool swap_space_has_mkswap(void);

/* Makes swap space according to @settings, completely or not at all. @priority is its priority among swap spaces, or
   UINT_MAX for the kernel's choice. @ret_path gets the device's path. Signals that end a command are blocked meanwhile.
   Returns 0. If a step fails or such a signal comes, logs one line and returns the step's -errno or -EINTR. */
int swap_space_attach(const struct settings *settings, unsigned priority, char ret_path[FRONTEND_PATH_MAX]);

/* Ends swapping to @area, the device @name, and removes the device. Returns 0, or -errno after one logged line. The
   device is still swap space after -ENOMEM (no room for its pages), -EINTR (a signal) or an error of swapoff(2). */
int swap_space_detach(const char *name, const struct swap_area *area);

#endif

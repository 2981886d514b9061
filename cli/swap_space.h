/*
 * swap_space: a block device in donors' memory that this machine swaps to.
 *
 * Theory of operation. It is made of a device (disk_daemon.h), mkswap(8) and swapon(2), and what was done is undone
 * when a later step fails. swapoff(2) reads every page back, which takes as long as that takes, and fails half-way when
 * they do not fit; so that is looked at before. A child of ours makes the call: a signal ends it, and then the kernel
 * goes on swapping to the device as before. Meanwhile this process shows from /proc/swaps how far it is.
 *
 * Threads: the only one there is.
 */
#ifndef CLI_SWAP_SPACE_H
#define CLI_SWAP_SPACE_H

#include "blockdev/frontend.h"
#include "blockdev/settings.h"
#include "cli/swaps.h"

#include <stdbool.h>

/* Whether mkswap(8), which swap_space_attach() runs, is where Debian installs it. */
bool swap_space_has_mkswap(void);

/* Makes swap space of what @settings says, all of it or nothing, and gives the device's path. @priority: among swap
   spaces, or UINT_MAX: the kernel's choice. Signals that end a command wait meanwhile. -errno after one logged line. */
int swap_space_attach(const struct settings *settings, unsigned priority, char ret_path[FRONTEND_PATH_MAX]);

/* Ends swapping to @area, the device @name, and removes the device. -errno after one logged line: it is still swap
   space (-ENOMEM: what it holds fits nowhere else; -EINTR: interrupted). */
int swap_space_detach(const char *name, const struct swap_area *area);

#endif

/*
 * run_device: the swap space of a `farpage run --engine swap`: made for it, or one that `farpage swap on` has made.
 *
 * Theory of operation. One that is made for the run has the highest priority, so that the kernel uses it before other
 * swap space; its name tells that it belongs to a run, and no other run takes it. One of `farpage swap on` is used as
 * it is, and may be used by others. So what the run asks for (encryption, replicas, a backup, room) is compared with
 * what the device has, and is refused if it has less.
 *
 * Threads: one.
 */
#ifndef CLI_RUN_DEVICE_H
#define CLI_RUN_DEVICE_H

#include "blockdev/frontend.h"
#include "cli/run_options.h"

#include <stdbool.h>
#include <stdint.h>

#define RUN_DEVICE_NAME "run-%d-%08x" /* a process and a random number: those that are made for runs */

/* Pages that a device has moved, for all who use it. */
struct run_transfers {
	uint64_t in, out;
};

struct run_device {
	char path[FRONTEND_PATH_MAX];
	uint64_t size; /* bytes */
	bool lent;     /* `farpage swap on` has made it */
	bool is_gone;  /* it is swap space no more, and that was told */
	struct run_transfers before;
};

/* Makes the device @name and swaps to it. -errno after logged lines, and then there is none. */
int run_device_make(const struct run_options *options, const struct run_donors *donors, const char *name,
		    struct run_device *ret_device);
/* Finds the swap space options->swap. -errno after one logged line: it is not there, does not answer, or lacks what
   @options ask for. */
int run_device_find(const struct run_options *options, struct run_device *ret_device);

/* Bytes of swap space for a run that has @swapped bytes there now. Logs one line when the device has gone. */
uint64_t run_device_room(struct run_device *device, uint64_t swapped);
/* What it has moved since it was made, or found; 0 when it has gone. */
struct run_transfers run_device_moved(const struct run_device *device);

#endif

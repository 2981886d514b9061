/*
 * run_device: the swap space of a `farpage run --engine swap`: a device made for the run, or with --swap a device of
 * `farpage swap on`.
 *
 * Theory of operation. A device made for the run has the highest priority, so that the kernel uses it before other
 * swap space. Its name shows that it belongs to a run, and other runs do not use it.
 *
 * A device of `farpage swap on` has properties of its own, which the run cannot change. So run_device_find() compares
 * them with the options of the run (encryption, replicas, backup, size), and refuses a device that offers less. Other
 * programs may use this device, too.
 *
 * Threads: one.
 */
#ifndef CLI_RUN_DEVICE_H
#define CLI_RUN_DEVICE_H

#include "blockdev/devices.h"
#include "cli/run/run_options.h"

#include <stdbool.h>
#include <stdint.h>

#define RUN_DEVICE_NAME "run-%d-%08x" /* name of a device made for a run: process number, random number */

/* Pages read from and written to a device, for all its users. */
struct run_transfers {
	uint64_t in, out;
};

struct run_device {
	char path[FRONTEND_PATH_MAX];
	uint64_t size; /* bytes */
	bool lent;     /* `farpage swap on` has made the device */
	bool is_gone;  /* the device is no longer swap space, and this was logged */
	struct run_transfers before;
};

/* Makes the device @name and swaps to it. Returns 0, or -errno after logged lines. After an error no device remains. */
int run_device_make(const struct run_options *options, const struct run_donors *donors, const char *name,
		    struct run_device *ret_device);
/* Finds the swap space options->swap. Returns 0, or -errno after one logged line if it does not exist, does not
   answer, or lacks something that @options request. */
int run_device_find(const struct run_options *options, struct run_device *ret_device);
/* Describes the device @path of @size bytes, which another process has made for this run. */
void run_device_taken(const char *path, uint64_t size, struct run_device *ret_device);

/* Returns the size of the swap space that the run can use, in bytes. @swapped is the size of the run's swapped pages.
   Logs one line when the device is no longer swap space. */
uint64_t run_device_room(struct run_device *device, uint64_t swapped);
/* Returns the pages read and written since the device was made or found, or 0 if the device is no longer swap space. */
struct run_transfers run_device_moved(const struct run_device *device);

#endif

/*
 * status: what a daemon says about itself, as one line of JSON (`farpage disk list --json` passes it on).
 *
 * Threads: the main thread's, while all others run. Allocates nothing.
 */
#ifndef BLOCKDEV_STATUS_H
#define BLOCKDEV_STATUS_H

#include "blockdev/frontend.h"
#include "blockdev/settings.h"

#include <stddef.h>
#include <stdint.h>

struct status {
	const struct settings *settings;
	const struct frontend_ops *frontend;
	struct frontend_device device;
	const struct store *store;
	const struct disk *disk;
	uint64_t uptime_s;
	unsigned restarts; /* workers that died */
};

/* As a string; what does not fit is left out at its end, so that @size must be large enough (CONTROL_REPLY_MAX is). */
void status_write(const struct status *status, char *ret_text, size_t size);

#endif

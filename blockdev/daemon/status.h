/*
 * status: writes the state of a daemon as one line of JSON, for `farpage disk list --json`.
 *
 * Threads. The main thread calls status_write() while the other threads run. status_write() does not allocate.
 */
#ifndef BLOCKDEV_STATUS_H
#define BLOCKDEV_STATUS_H

#include "blockdev/daemon/settings.h"
#include "blockdev/frontend.h"
#include "common/metrics.h"

#include <stddef.h>
#include <stdint.h>

struct status {
	const struct settings *settings;
	const struct frontend_ops *frontend;
	struct frontend_device device;
	const struct store *store;
	const struct disk *disk;
	uint64_t uptime_s;
	unsigned restarts; /* number of workers that died */
};

/* A figure of struct store_stats, by its name in JSON and in metrics. */
struct status_figure {
	const char *name;
	struct metrics_figure metric;
};
extern const struct status_figure status_figures[];
extern const unsigned status_figure_count;

/* Writes the JSON. @size must be large enough, for example CONTROL_REPLY_MAX: text that does not fit is cut off. */
void status_write(const struct status *status, char *ret_text, size_t size);

#endif

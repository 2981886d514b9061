/*
 * device_metrics: a device's metrics for Prometheus: the figures of the status (status.h), and the times of
 * requests.
 *
 * Theory of operation. Once a second the main thread writes the text into one of two buffers. Then it publishes this
 * buffer under a mutex: the HTTP thread (metrics_http.h) copies the published buffer. If the HTTP thread has the mutex,
 * the main thread does not wait, and tries again a second later. Threads that serve requests are not involved.
 *
 * Threads. The main thread calls all functions.
 */
#ifndef BLOCKDEV_DEVICE_METRICS_H
#define BLOCKDEV_DEVICE_METRICS_H

#include "blockdev/daemon/status.h"

struct device_metrics;

/* Serves at @address. The answer is 503 until the first text is published, and 500 if the metrics are too many. Returns
   0, or -errno after one logged line. */
int device_metrics_open(const char *address, struct device_metrics **ret_metrics);
void device_metrics_close(struct device_metrics *metrics);
/* Writes and publishes the metrics, unless the last text is less than a second old. */
void device_metrics_publish(struct device_metrics *metrics, const struct status *status);
/* Writes the metrics. Declared here for tests. */
void device_metrics_write(struct metrics_text *text, const struct status *status, uint64_t started_s);

#endif

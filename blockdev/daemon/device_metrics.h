/*
 * device_metrics: the metrics of a device, for Prometheus. They have the figures of the status (status.h), and the times
 * of requests.
 *
 * Theory of operation. Once a second the main thread writes the text into one of two buffers and shows this buffer to the
 * thread that serves HTTP (metrics_http.h). That thread copies it under a mutex. While the mutex is taken, the main
 * thread does not wait: it shows the next text a second later. No thread that serves requests takes part.
 *
 * Threads. The main thread calls all functions.
 */
#ifndef BLOCKDEV_DEVICE_METRICS_H
#define BLOCKDEV_DEVICE_METRICS_H

#include "blockdev/daemon/status.h"

struct device_metrics;

/* Serves at @address, with 503 until the first text is published. Returns 0, or -errno after one logged line
   (metrics_http.h). */
int device_metrics_open(const char *address, struct device_metrics **ret_metrics);
/* Accepts NULL. */
void device_metrics_close(struct device_metrics *metrics);
/* Writes and shows the metrics, if a second has passed since the last text. */
void device_metrics_publish(struct device_metrics *metrics, const struct status *status);
/* Writes the metrics. Declared here for tests. */
void device_metrics_write(struct metrics_text *text, const struct status *status, uint64_t started_s);

#endif

/*
 * donor_metrics: the metrics of a donor, for Prometheus.
 *
 * Theory of operation. After each event the donor's thread publishes its figures: it copies each figure to a table with
 * one relaxed store. The thread that serves HTTP (metrics_http.h) reads that table. So no scrape, however slow or
 * frequent, delays a client. Two figures of one scrape may come from two events. Requests for pages cause no event: the
 * next heartbeat publishes their counts.
 *
 * Threads. All functions run in the donor's thread. The thread of metrics_http.h only reads the table.
 */
#ifndef MEMSERVER_DONOR_METRICS_H
#define MEMSERVER_DONOR_METRICS_H

#include "memserver/donor.h"

struct donor_metrics;
struct shrink;

/* Publishes for the first time and serves at @address. Returns 0, or -errno after one logged line (metrics_http.h). */
int donor_metrics_open(const char *address, const struct donor *donor, struct donor_metrics **ret_metrics);
/* Accepts NULL. */
void donor_metrics_close(struct donor_metrics *metrics);
/* Publishes the figures. @shrink may be NULL. */
void donor_metrics_publish(struct donor_metrics *metrics, const struct donor *donor, const struct shrink *shrink);

#endif

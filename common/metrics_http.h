/*
 * metrics_http: serves the metrics of a daemon over HTTP, for Prometheus.
 *
 * Theory of operation. libmicrohttpd answers in one thread of its own, so a slow or broken peer delays no other thread.
 * GET /metrics has the metrics, any other path is 404, and each answer ends its connection. At most METRICS_HTTP_PEERS
 * connections are open, for METRICS_HTTP_SECONDS without traffic. Further peers wait in the socket's queue.
 *
 * The library is loaded only if metrics are served. It brings GnuTLS along, which a block device's daemon would otherwise
 * lock in memory: more than 6 MiB of libraries.
 *
 * Threads. One thread opens and closes. The library's thread calls the callback, and inherits the caller's signal mask,
 * scheduling policy and stack size.
 */
#ifndef COMMON_METRICS_HTTP_H
#define COMMON_METRICS_HTTP_H
#include "common/metrics.h"

#define METRICS_HTTP_PEERS 16
#define METRICS_HTTP_SECONDS 5
#define METRICS_HTTP_TEXT_MAX (256u << 10)

struct metrics_http;
/* Writes the metrics. Called in the library's thread. Must not wait for the data path. Returns false if there are none
   yet, which the peer gets as 503. */
typedef bool metrics_http_write(void *user, struct metrics_text *text);

/*
 * Checks an address as given to --metrics: PORT for loopback, or ADDRESS:PORT. ADDRESS is IPv4, IPv6 in brackets, or
 * localhost. Returns 0, or -EINVAL after one logged line.
 */
int metrics_http_check(const char *address);
/* Loads libmicrohttpd from the disk. Returns 0, or -ELIBACC after one logged line. */
int metrics_http_load(void);
/*
 * Loads libmicrohttpd, if that has not happened. Listens on @address, which metrics_http_check() accepts, and starts the thread. Port 0 takes a free port. Logs where
 * the metrics are. Returns 0, or -errno after one logged line (-EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -ELIBACC, ...).
 */
int metrics_http_open(const char *address, metrics_http_write *write, void *user, struct metrics_http **ret_http);
/* Ends all connections and the thread. NULL is allowed. */
void metrics_http_close(struct metrics_http *http);
#endif

/*
 * metrics_http: serves the metrics of a daemon over HTTP, for Prometheus.
 *
 * Theory of operation. libmicrohttpd answers requests in a thread of its own, so that a slow or broken peer delays no
 * other thread. GET /metrics returns the metrics; any other path returns 404. Each connection ends after one answer,
 * or after METRICS_HTTP_SECONDS without traffic. At most METRICS_HTTP_PEERS connections are open. Further peers wait
 * in the socket's queue.
 *
 * libmicrohttpd is loaded only if metrics are served, because it loads GnuTLS, too. These libraries take more than 6
 * MiB, which the daemon of a block device would lock in memory.
 *
 * Threads. One thread calls metrics_http_open() and metrics_http_close(). The library's thread calls the
 * metrics_http_write function. The library's thread blocks all signals. It has the normal scheduling policy, even if
 * metrics_http_open()'s caller runs in real time.
 */
#ifndef COMMON_METRICS_HTTP_H
#define COMMON_METRICS_HTTP_H
#include "common/metrics.h"

#define METRICS_HTTP_PEERS 16
#define METRICS_HTTP_SECONDS 5
#define METRICS_HTTP_TEXT_MAX (256u << 10)

struct metrics_http;
/* Writes the metrics. Runs in the library's thread, and must not wait for the data path. Returns false if there are
   no metrics yet; the peer then gets 503. If the text is cut, the peer gets 500. */
typedef bool metrics_http_write(void *user, struct metrics_text *text);

/* Checks the value of --metrics: PORT for loopback, or ADDRESS:PORT. ADDRESS is an IPv4 address, an IPv6 address in
   brackets, or localhost. Returns 0, or -EINVAL after one logged line. */
int metrics_http_check(const char *address);
/* Loads libmicrohttpd. Returns 0, or -ELIBACC after one logged line. */
int metrics_http_load(void);
/* Loads libmicrohttpd if necessary, listens on @address (see metrics_http_check(); port 0 chooses a free port), and
   starts the thread. Logs the URL. Returns 0, -ENOMEM, or another -errno after one logged line (-EADDRINUSE,
   -EADDRNOTAVAIL, -EACCES, -ELIBACC, ...). */
int metrics_http_open(const char *address, metrics_http_write *write, void *user, struct metrics_http **ret_http);
/* NULL is allowed. */
void metrics_http_close(struct metrics_http *http);
#endif

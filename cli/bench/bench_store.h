/*
 * bench_store: measures reads and writes of far pages on one donor, at each depth.
 *
 * Theory of operation. A store (client/store.h) is opened over that donor alone. First all its pages are written with
 * contents that are not zero, because pages of zeroes would cost nothing.
 *
 * Each point keeps `depth` requests of one page each in flight for the requested time. A warm-up comes first and is not
 * counted. The thread polls for answers and yields the processor when there are none. Each slot of a point draws its
 * pages at random from a share of its own. So two requests in flight never use the same page. The store checks every
 * page that it reads against its checksum. At depth 1 the result is the fabric's bare round trip plus the store's
 * overhead.
 *
 * Threads: the caller's, which polls. The store's control thread is idle while pages are measured. Nothing is
 * allocated, logged or printed while a point is measured.
 */
#ifndef CLI_BENCH_STORE_H
#define CLI_BENCH_STORE_H
#include "cli/bench/bench_results.h"
#include "client/far.h"

/* Waits up to @wait_ms until the donor has @bytes free. A donor needs a moment to process leases that were returned.
   Returns 0, -ENOSPC after one logged line that says how much is free, or the -errno of far_query(), which logs its own
   line. */
int bench_store_room(const struct far_config *config, const char *uri, uint64_t bytes, unsigned wait_ms);

/* Measures the points of results->donors[@donor]. @config has the key and the fabric's settings. Returns 0, -EINTR if
   interrupted, or another -errno after one logged line. Points that were measured before the error are kept. */
int bench_store_measure(const struct far_config *config, struct bench_results *results, unsigned donor);

#endif

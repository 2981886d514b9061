/*
 * bench_store: measures reads and writes of far pages on one donor, at each depth.
 *
 * Theory of operation. First a store (client/store.h) with this one donor is opened, and all its pages are written.
 * No page is all zeroes, because a store does not send such pages to the donor.
 *
 * Then each point is measured. A point has `depth` slots. After a short warm-up, each slot has a request for one page
 * in flight during the whole requested time. A slot chooses its pages at random from its own share of the pages,
 * because two requests in flight must not use the same page. The thread polls for answers, and yields the processor
 * when there are none. The store compares every page that it reads with the page's checksum. At depth 1 the result is
 * the round trip of the fabric plus the overhead of the store.
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

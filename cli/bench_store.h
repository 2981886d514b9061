/*
 * bench_store: reads and writes of far pages on one donor, at each depth.
 *
 * Theory of operation. A store (farpage/store.h) is opened over that donor alone and all its pages are written with
 * contents that are not zero: pages of zeroes would cost nothing. Then, for each point, `depth` requests of one page
 * each are kept in flight for the time wished, after a warm-up that is not counted; the thread polls for answers and
 * gives the processor away when there are none. Each slot of a point draws its pages at random from a share of its
 * own, so that no two requests in flight meet on a page. Every page read is checked by the store against its checksum.
 * At depth 1 this is the bare round trip of the fabric and what the store adds to it.
 *
 * Threads: the caller's, which polls; the store's control thread, which is idle while pages are measured. Nothing is
 * allocated, logged or printed while a point is measured.
 */
#ifndef CLI_BENCH_STORE_H
#define CLI_BENCH_STORE_H
#include "cli/bench_results.h"
#include "client/far.h"

/*
 * Waits, for a while, until the donor has room for @bytes: it takes back what was given back a moment ago. -ENOSPC
 * after one line that says how much is free; what far_query() said, after its line.
 */
int bench_store_room(const struct far_config *config, const char *uri, uint64_t bytes, unsigned wait_ms);

/* Fills in the points of results->donors[@donor]. -EINTR: interrupted; -errno after one line, then with the points that
   were measured before. @config: key and fabric. */
int bench_store_measure(const struct far_config *config, struct bench_results *results, unsigned donor);

#endif

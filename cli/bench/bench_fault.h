/*
 * bench_fault: measures the cost of a far fault on this host.
 *
 * Theory of operation. One thread touches pages and measures how long each touch takes. It measures faults of two
 * kinds.
 *
 * The floor: faults in a plain mapping. A second thread, which blocks on the same processor, answers these faults with
 * UFFDIO_COPY. No other way to answer a userfaultfd fault is cheaper.
 *
 * Far faults: libfarpage maps memory over one donor, with a quarter of this memory as budget and without read-ahead.
 * All pages are sent to the donor, and then touched in random order, each page once. So each touch waits for the donor,
 * while earlier pages are evicted. Before each round a few other pages are written and sent to the donor. These other
 * pages fill farpage's victim buffer, which could otherwise answer some of the touches.
 *
 * A far fault takes about as long as one fault of the floor plus one read at depth 1 (bench_store.h). The rest of its
 * time is spent in farpage, including its evictor.
 *
 * Threads:
 * - the caller's;
 * - one that answers the faults of the floor;
 * - those of libfarpage.
 *
 * If a page is lost, SIGBUS ends the process (bench_apart.h).
 */
#ifndef CLI_BENCH_FAULT_H
#define CLI_BENCH_FAULT_H
#include "cli/bench/bench_results.h"

/* Measures the floor and writes it to results->userfaultfd. If the host does not permit userfaultfd, sets the reason
   in results->userfaultfd.skipped and returns 0. Returns 0, -EINTR if interrupted, or another -errno after one
   logged line. */
int bench_fault_floor(struct bench_results *results);

/* Measures far faults and writes them to results->donors[@donor].fault. @key_file may be NULL. Returns 0, -EINTR if
   interrupted, or another -errno after one logged line. */
int bench_fault_measure(const char *key_file, struct bench_results *results, unsigned donor);

#endif

/*
 * bench_fault: measures the cost of a far fault on this host.
 *
 * Theory of operation. The thread that touches the memory times two kinds of faults.
 *
 * The floor: faults in a plain mapping, answered with UFFDIO_COPY by a thread that blocks on the same processor. This
 * is the cheapest way to answer a userfaultfd fault.
 *
 * Far faults: libfarpage maps memory over one donor, with a quarter of the memory as local budget. All pages are sent
 * out, then touched in random order, each page once. So each touch waits for the donor while earlier pages are evicted.
 * There is no read-ahead. Before each round a few additional pages are written and sent out. They fill farpage's victim
 * buffer, so that it holds none of the pages that will be touched.
 *
 * A far fault takes about as long as one floor fault and one read at depth 1 (bench_store.h). Any additional time is
 * spent in farpage itself, including its evictor.
 *
 * Threads:
 * - the caller's;
 * - one that answers the floor's faults;
 * - those of libfarpage.
 *
 * A lost page ends the process by SIGBUS (bench_apart.h).
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

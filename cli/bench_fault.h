/*
 * bench_fault: what a far fault costs on this host.
 *
 * Theory of operation. Two things are timed, both in the thread that touches the memory. The floor: faults of a plain
 * mapping, answered with UFFDIO_COPY by a thread that blocks on the same processor, which is the cheapest way a
 * userfaultfd fault can be answered by another thread. And far faults: memory of libfarpage over one donor, with a
 * quarter of it as local budget. All of it is sent out, then touched in random order, each page once; so each touch
 * waits for the donor, while the pages before it are evicted. There is no read-ahead. Before each round a few pages
 * beside the others are written and sent out, so that farpage's buffer of pages on their way out holds none of those
 * that will be touched. A far fault takes about one floor and one read at depth 1 (bench_store.h); what is more is
 * farpage's own work, and the evictor's.
 *
 * Threads: the caller's; one that answers faults for the floor; libfarpage's own. A page that is lost ends
 * the process by SIGBUS: bench_apart.h.
 */
#ifndef CLI_BENCH_FAULT_H
#define CLI_BENCH_FAULT_H
#include "cli/bench_results.h"

/* Fills in results->userfaultfd; a host that does not allow it is not an error but a reason in there. -EINTR; -errno
   after one line. */
int bench_fault_floor(struct bench_results *results);

/* Fills in the fault of results->donors[@donor]. -EINTR; -errno after one line. @key_file may be NULL. */
int bench_fault_measure(const char *key_file, struct bench_results *results, unsigned donor);

#endif

/*
 * bench_results: what `farpage bench` measured. Filled in by bench_store.c and bench_fault.c, shown by bench_table.c,
 * bench_plot.c, bench_svg.c and bench_json.c, which only read it. Times are ns.
 *
 * Threads: one.
 */
#ifndef CLI_BENCH_RESULTS_H
#define CLI_BENCH_RESULTS_H
#include "common/histogram.h"
#include "common/uri.h"
#include <stdbool.h>
#include <stdint.h>

#define BENCH_DONORS_MAX 8u
#define BENCH_DEPTHS_MAX 16u
#define BENCH_DEPTH_MAX 256u /* what a connection has in flight at most (FABRIC_CONFIG_DEFAULT) */

enum bench_op { BENCH_READ, BENCH_WRITE, BENCH_OPS };
const char *bench_op_name(enum bench_op op); /* "read", "write" */

struct bench_latency {
	uint64_t count, p50, p99, p999;
};
struct bench_latency bench_latency_of(const struct histogram *histogram);

struct bench_point {
	bool measured;
	struct bench_latency latency; /* of each page */
	double seconds;               /* that latency.count pages took */
};

struct bench_fault {
	const char *skipped; /* NULL, or why it was not measured */
	struct bench_latency latency;
	uint64_t far; /* of latency.count, those that waited for the donor (libfarpage's count) */
};

struct bench_donor {
	const char *uri;
	char fabric[URI_SCHEME_MAX]; /* "tcp" */
	struct bench_point points[BENCH_OPS][BENCH_DEPTHS_MAX];
	struct bench_fault fault; /* neither skipped nor counted: not reached */
};

struct bench_results {
	uint64_t bytes; /* of far memory on each donor */
	double seconds; /* wished for each point */
	bool faults;    /* wished for, too */
	bool interrupted;
	unsigned depth_count, depths[BENCH_DEPTHS_MAX]; /* ascending */
	unsigned donor_count;
	struct bench_donor donors[BENCH_DONORS_MAX];
	struct bench_fault userfaultfd; /* a fault answered by UFFDIO_COPY and no network */
};

/* The fabric of an address is its scheme; "?" if it is no address. */
void bench_donor_set_fabric(struct bench_donor *donor, const char *uri);

/* Pages a second; 0 when not measured. */
double bench_point_rate(const struct bench_point *point);
/* The point of that depth, or NULL when it was not measured. */
const struct bench_point *bench_donor_point(const struct bench_results *results, unsigned donor, enum bench_op op,
					    unsigned depth);
/* How to call a donor among the others: by its fabric if no other has the same, else by its address. */
const char *bench_donor_label(const struct bench_results *results, unsigned donor);

/* What a far fault (p50) is made of, us. @rest is negative when the two parts take longer alone than together. */
struct bench_shares {
	double fault, resolve, read, rest;
};
/* False when one of the parts was not measured; the read is the one at depth 1. */
bool bench_donor_shares(const struct bench_results *results, unsigned donor, struct bench_shares *ret_shares);

#endif

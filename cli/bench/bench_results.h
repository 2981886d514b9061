/*
 * bench_results: the measurements of `farpage bench`. bench_store.c and bench_fault.c fill them in. bench_table.c,
 * bench_plot.c and bench_json.c only read them. Times are in ns.
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
#define BENCH_DEPTH_MAX 256u /* a connection's maximum in flight (FABRIC_CONFIG_DEFAULT) */

enum bench_op { BENCH_READ, BENCH_WRITE, BENCH_OPS };
const char *bench_op_name(enum bench_op op); /* "read", "write" */

struct bench_latency {
	uint64_t count, p50, p99, p999;
};
struct bench_latency bench_latency_of(const struct histogram *histogram);

struct bench_point {
	bool measured;
	struct bench_latency latency; /* the latency of each page */
	double seconds;               /* time in which all latency.count pages were read or written */
};

struct bench_fault {
	const char *skipped; /* why it was not measured, or NULL if it was */
	struct bench_latency latency;
	uint64_t far; /* how many of the latency.count faults waited for the donor, as libfarpage counts */
};

struct bench_donor {
	const char *uri;
	char fabric[URI_SCHEME_MAX]; /* "tcp" */
	struct bench_point points[BENCH_OPS][BENCH_DEPTHS_MAX];
	struct bench_fault fault; /* all zero if the benchmark ended before this measurement */
};

struct bench_results {
	uint64_t bytes; /* far memory used on each donor */
	double seconds; /* requested time for each point */
	bool faults;    /* the user requested far faults, too */
	bool interrupted;
	unsigned depth_count, depths[BENCH_DEPTHS_MAX]; /* ascending */
	unsigned donor_count;
	struct bench_donor donors[BENCH_DONORS_MAX];
	struct bench_fault userfaultfd; /* a fault answered by UFFDIO_COPY, without network */
};

/* Sets donor->fabric to the scheme of @uri, or to "?" if @uri is not an address. */
void bench_donor_set_fabric(struct bench_donor *donor, const char *uri);

/* Returns pages per second, or 0 if the point was not measured. */
double bench_point_rate(const struct bench_point *point);
/* Returns the point at @depth, or NULL if it was not measured. */
const struct bench_point *bench_donor_point(const struct bench_results *results, unsigned donor, enum bench_op op,
					    unsigned depth);
/* Returns the name of a donor in texts: its fabric if no other donor has the same fabric, otherwise its address. */
const char *bench_donor_label(const struct bench_results *results, unsigned donor);

/* The parts of a far fault (p50), in us: `resolve` is the floor, `read` a read of the donor, and `rest` the other
   time. `rest` is negative if the two parts, which are measured alone, take longer than the fault. */
struct bench_shares {
	double fault, resolve, read, rest;
};
/* Computes the parts of one donor's far fault from the p50s of its far faults, the floor, and its reads at depth 1.
   Returns false if one of these was not measured. */
bool bench_donor_shares(const struct bench_results *results, unsigned donor, struct bench_shares *ret_shares);

#endif

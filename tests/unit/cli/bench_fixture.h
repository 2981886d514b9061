/* bench_fixture: results of a benchmark with figures that are easy to compute with, and text captured in memory. */
#ifndef TESTS_UNIT_CLI_BENCH_FIXTURE_H
#define TESTS_UNIT_CLI_BENCH_FIXTURE_H
#include "cli/bench/bench_results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TCP "tcp://10.0.0.7"
#define RDMA "rdma://10.0.0.7"

/* Returns a point of @rate pages per second. p99 is twice p50, and p99.9 is four times p50. */
static inline struct bench_point fixture_point(unsigned rate, uint64_t p50)
{
	return (struct bench_point){
	    .measured = true, .seconds = 2, .latency = {.count = 2ull * rate, p50, 2 * p50, 4 * p50}};
}

/*
 * Fills @results with two donors at depths 1, 8 and 32:
 *  - At depth 1, tcp has 10 us and 100,000 pages/s. rdma has a quarter of the latency and four times the rate.
 *  - At depth 32, tcp has 400,000 and rdma 600,000 pages/s.
 *  - Writes over rdma were interrupted at depth 8.
 *  - A far fault takes 20 us over tcp, 9 us over rdma, and 7 us for userfaultfd alone.
 */
static inline void fixture_fill(struct bench_results *results)
{
	*results = (struct bench_results){.bytes = 256u << 20,
					  .seconds = 2,
					  .faults = true,
					  .depth_count = 3,
					  .depths = {1, 8, 32},
					  .donor_count = 2,
					  .userfaultfd.latency = {.count = 1000, 7000, 8000, 9000}};
	struct bench_donor *tcp = &results->donors[0], *rdma = &results->donors[1];
	*tcp = (struct bench_donor){
	    .uri = TCP, .fabric = "tcp", .fault = {.latency = {.count = 500, 20000, 30000, 40000}, .far = 499}};
	*rdma = (struct bench_donor){
	    .uri = RDMA, .fabric = "rdma", .fault = {.latency = {.count = 600, 9000, 10000, 11000}, .far = 600}};
	for (unsigned op = 0; op < BENCH_OPS; op++) {
		tcp->points[op][0] = fixture_point(100000, 10000);
		tcp->points[op][1] = fixture_point(300000, 25000);
		tcp->points[op][2] = fixture_point(400000, 80000);
		rdma->points[op][0] = fixture_point(400000, 2500);
	}
	rdma->points[BENCH_READ][1] = fixture_point(500000, 16000);
	rdma->points[BENCH_READ][2] = fixture_point(600000, 53000);
}

/* Returns all that was written to @file, and closes @file. The caller frees the text. */
static inline char *fixture_read(FILE *file)
{
	long size = ftell(file);
	char *text = calloc(1, (size_t)size + 1);

	rewind(file);
	if (!text || fread(text, 1, (size_t)size, file) != (size_t)size)
		abort();
	fclose(file);
	return text;
}

/* Runs @print and returns what it writes to `out`. The caller frees the text. */
#define CAUGHT(print)                                                                                                  \
	({                                                                                                             \
		FILE *out = tmpfile();                                                                                 \
		print;                                                                                                 \
		fixture_read(out);                                                                                     \
	})

/* Returns how often @part occurs in @text. */
static inline unsigned fixture_count(const char *text, const char *part)
{
	unsigned count = 0;

	for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
		count++;
	return count;
}

#endif

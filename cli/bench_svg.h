/*
 * bench_svg: the results of a benchmark as an SVG picture: throughput and latency over depth (log2), reads and writes,
 * a line and a marker a donor, and what a far fault is made of. Pure.
 */
#ifndef CLI_BENCH_SVG_H
#define CLI_BENCH_SVG_H
#include "cli/bench_results.h"
#include <stdio.h>

/* A whole document, also when little or nothing was measured. */
void bench_svg_print(const struct bench_results *results, FILE *out);

#endif

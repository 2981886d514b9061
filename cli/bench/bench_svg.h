/*
 * bench_svg: draws the results of a benchmark as an SVG picture. It plots throughput and latency over depth (log2), for
 * reads and writes, with one line for each donor. Bars show the parts of a far fault. Pure.
 */
#ifndef CLI_BENCH_SVG_H
#define CLI_BENCH_SVG_H
#include "cli/bench/bench_results.h"
#include <stdio.h>

/* Prints a complete document, even if little or nothing was measured. */
void bench_svg_print(const struct bench_results *results, FILE *out);

#endif

/*
 * bench_plot: the results of a benchmark drawn with characters: throughput and latency over depth, reads and writes,
 * one marker a donor. Pure.
 */
#ifndef CLI_BENCH_PLOT_H
#define CLI_BENCH_PLOT_H
#include "cli/bench_results.h"
#include <stdio.h>

/* At most 80 columns for up to 7 depths. @unicode: the terminal knows UTF-8. Nothing if nothing was measured. */
void bench_plot_print(const struct bench_results *results, bool unicode, FILE *out);

#endif

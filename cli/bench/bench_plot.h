/*
 * bench_plot: draws the results of a benchmark with characters. It plots throughput and latency over depth, for reads
 * and writes, with one marker for each donor. Pure.
 */
#ifndef CLI_BENCH_PLOT_H
#define CLI_BENCH_PLOT_H
#include "cli/bench/bench_results.h"

#include <stdio.h>

/* Prints the plots, at most 80 columns wide for up to 7 depths. Prints nothing if nothing was measured. @unicode:
   the terminal understands UTF-8. */
void bench_plot_print(const struct bench_results *results, bool unicode, FILE *out);

#endif

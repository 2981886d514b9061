/*
 * bench_table: the results of a benchmark as a table, and what they mean in a few sentences, all of it from what was
 * measured. Pure: results in, text out.
 */
#ifndef CLI_BENCH_TABLE_H
#define CLI_BENCH_TABLE_H
#include "cli/bench_results.h"
#include <stdio.h>

/* The points that were measured, and the faults; nothing if there are none. */
void bench_table_print(const struct bench_results *results, FILE *out);
/* Which fabric is faster one page at a time and with many in flight, and what a far fault is made of. */
void bench_table_print_meaning(const struct bench_results *results, FILE *out);

#endif

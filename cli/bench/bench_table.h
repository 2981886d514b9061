/* bench_table: prints the results of a benchmark as a table, and their meaning in a few sentences. Pure. */
#ifndef CLI_BENCH_TABLE_H
#define CLI_BENCH_TABLE_H
#include "cli/bench/bench_results.h"

#include <stdio.h>

/* Prints the points that were measured, and the faults. Prints nothing if there are none. */
void bench_table_print(const struct bench_results *results, FILE *out);
/* Prints which donor is fastest and slowest with one page in flight and with many, and the parts of a far fault. */
void bench_table_print_meaning(const struct bench_results *results, FILE *out);

#endif

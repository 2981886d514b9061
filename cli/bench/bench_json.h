/* bench_json: prints all results of a benchmark as JSON. Pure. */
#ifndef CLI_BENCH_JSON_H
#define CLI_BENCH_JSON_H
#include "cli/bench/bench_results.h"

#include <stdio.h>

void bench_json_print(const struct bench_results *results, FILE *out);

#endif

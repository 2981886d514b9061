/*
 * figures: what benchmarks measure, and how they tell it: beside each figure the target it has (issue 5, "Figures").
 *
 * A figure is the median of several rounds of one run, told with the least and the most of them. Only ratios of one run
 * mean anything.
 */
#ifndef TESTS_BENCH_CLIENT_FIGURES_H
#define TESTS_BENCH_CLIENT_FIGURES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ROUNDS_MAX 15u
#define SAMPLES_MAX (1u << 20)

/* Latencies, ns. What comes when there is no room any more is left out. */
struct samples {
	unsigned count;
	uint32_t ns[SAMPLES_MAX];
};
void samples_add(struct samples *samples, uint64_t ns);
/* Once all are there, and they have been sorted: in us. There is one at least. */
void samples_sort(struct samples *samples);
double samples_quantile(const struct samples *samples, unsigned per_mille);

struct rounds {
	unsigned count;
	double values[ROUNDS_MAX];
};
void rounds_add(struct rounds *rounds, double value);
double rounds_median(const struct rounds *rounds);
double rounds_most(const struct rounds *rounds);
double rounds_least(const struct rounds *rounds);

/* One line. With a target: whether the median is at most, or at least, that much. */
void figure(const char *name, const char *unit, const struct rounds *rounds);
void figure_at_most(const char *name, const char *unit, const struct rounds *rounds, double target);
void figure_at_least(const char *name, const char *unit, const struct rounds *rounds, double target);

/* What processes that are no part of the measurement take of the machine's processors: figures of a round in which that
   is much say little. */
struct others {
	const pid_t *donors;
	unsigned count;
	uint64_t busy, ours, begun;
};
void others_begin(struct others *others, const pid_t *donors, unsigned count);
/* In per cent, since then. */
double others_share(const struct others *others);

/* Ends the program with a line. */
void must(bool good, const char *what);

#endif

/*
 * figures: the figures of benchmarks, printed beside their targets.
 *
 * A figure is the median of several rounds of one run, printed with the least and the greatest value. Only ratios of
 * one run are meaningful.
 */
#ifndef TESTS_BENCH_FIGURES_H
#define TESTS_BENCH_FIGURES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ROUNDS_MAX 15u
#define SAMPLES_MAX (1u << 20)

/* Latencies in ns. Samples beyond SAMPLES_MAX are left out. */
struct samples {
	unsigned count;
	uint32_t ns[SAMPLES_MAX];
};
void samples_add(struct samples *samples, uint64_t ns);
void samples_sort(struct samples *samples);
/* Returns a quantile of sorted samples in us. There must be a sample. */
double samples_quantile(const struct samples *samples, unsigned per_mille);

struct rounds {
	unsigned count;
	double values[ROUNDS_MAX];
};
void rounds_add(struct rounds *rounds, double value);
double rounds_median(const struct rounds *rounds);
double rounds_most(const struct rounds *rounds);
double rounds_least(const struct rounds *rounds);

/* Print a line. With a target it says if the median is at most, or at least, the target. */
void figure(const char *name, const char *unit, const struct rounds *rounds);
void figure_at_most(const char *name, const char *unit, const struct rounds *rounds, double target);
void figure_at_least(const char *name, const char *unit, const struct rounds *rounds, double target);

/*
 * The share of the machine's processors that other processes take. Figures of a round with a large share mean little.
 */
struct others {
	const pid_t *donors;
	unsigned count;
	uint64_t busy, ours, begun;
};
void others_begin(struct others *others, const pid_t *donors, unsigned count);
/* Returns the share since others_begin(), in percent. */
double others_share(const struct others *others);

/* Unless @good is true, ends the program with the line @what. needed() also shows the place and errno. */
#define must(good, what) ((good) ? (void)0 : must_fail(what))
#define needed(good) ((good) ? (void)0 : needed_fail(#good, __FILE__, __LINE__))
__attribute__((noreturn)) void must_fail(const char *what);
__attribute__((noreturn)) void needed_fail(const char *what, const char *file, int line);
/* Returns argument @index as a number, or @fallback if there are fewer arguments. */
unsigned argument_number(int argc, char **argv, int index, unsigned fallback);
/* Returns the processor time of this process. */
double processor_ms(void);
/* Moves a process, or the calling thread if @pid is 0, to one processor. */
void pin(pid_t pid, int cpu);

#endif

/* figures: see figures.h. */
#include "tests/bench/figures.h"

#include "common/clock.h"
#include "tests/lib/process.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void must_fail(const char *what)
{
	fprintf(stderr, "benchmark: %s\n", what);
	exit(EXIT_FAILURE);
}

void needed_fail(const char *what, const char *file, int line)
{
	fprintf(stderr, "benchmark: %s:%d: %s: %s\n", file, line, what, strerror(errno));
	exit(EXIT_FAILURE);
}

unsigned argument_number(int argc, char **argv, int index, unsigned fallback)
{
	return argc > index ? (unsigned)strtoul(argv[index], NULL, 10) : fallback;
}

void pin(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(pid, sizeof set, &set) < 0)
		fprintf(stderr, "benchmark: only one processor: the figures are of no use\n");
}

void samples_add(struct samples *samples, uint64_t ns)
{
	if (samples->count < SAMPLES_MAX)
		samples->ns[samples->count++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static int samples_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

void samples_sort(struct samples *samples)
{
	qsort(samples->ns, samples->count, sizeof *samples->ns, samples_compare);
}

double samples_quantile(const struct samples *samples, unsigned per_mille)
{
	must(samples->count > 0, "nothing was measured");
	return samples->ns[(uint64_t)(samples->count - 1) * per_mille / 1000] / 1000.0;
}

void rounds_add(struct rounds *rounds, double value)
{
	unsigned at = rounds->count;

	must(at < ROUNDS_MAX, "too many rounds");
	for (; at && rounds->values[at - 1] > value; at--)
		rounds->values[at] = rounds->values[at - 1];
	rounds->values[at] = value;
	rounds->count++;
}

double rounds_median(const struct rounds *rounds)
{
	return rounds->values[rounds->count / 2];
}

double rounds_most(const struct rounds *rounds)
{
	return rounds->values[rounds->count - 1];
}

double rounds_least(const struct rounds *rounds)
{
	return rounds->values[0];
}

static void tell(const char *name, const char *unit, const struct rounds *rounds, const char *target)
{
	must(rounds->count > 0, "nothing was measured");
	printf("%-58s %9.2f %-5s (%.2f to %.2f, %u rounds)%s\n", name, rounds_median(rounds), unit,
	       rounds_least(rounds), rounds_most(rounds), rounds->count, target);
	fflush(stdout);
}

void figure(const char *name, const char *unit, const struct rounds *rounds)
{
	tell(name, unit, rounds, "");
}

void figure_at_most(const char *name, const char *unit, const struct rounds *rounds, double target)
{
	char text[64];

	snprintf(text, sizeof text, "  at most %g: %s", target, rounds_median(rounds) <= target ? "met" : "MISSED");
	tell(name, unit, rounds, text);
}

void figure_at_least(const char *name, const char *unit, const struct rounds *rounds, double target)
{
	char text[64];

	snprintf(text, sizeof text, "  at least %g: %s", target, rounds_median(rounds) >= target ? "met" : "MISSED");
	tell(name, unit, rounds, text);
}

/* Returns the busy ticks of all processors. */
static uint64_t ticks_busy(void)
{
	unsigned long long user = 0, nice = 0, system = 0, idle, wait, irq = 0, soft = 0;
	FILE *file = fopen("/proc/stat", "re");

	if (!file || fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &irq,
			    &soft) != 7)
		user = 0;
	if (file)
		fclose(file);
	return user + nice + system + irq + soft;
}

static uint64_t ticks_ours(const struct others *others)
{
	uint64_t ticks = process_ticks(getpid());

	for (unsigned i = 0; i < others->count; i++)
		ticks += process_ticks(others->donors[i]);
	return ticks;
}

void others_begin(struct others *others, const pid_t *donors, unsigned count)
{
	*others = (struct others){.donors = donors, .count = count};
	others->ours = ticks_ours(others);
	others->busy = ticks_busy();
	others->begun = clock_now();
}

double others_share(const struct others *others)
{
	const double seconds = (double)(clock_now() - others->begun) / 1e9;
	const double ticks = (double)(ticks_busy() - others->busy) - (double)(ticks_ours(others) - others->ours);
	const double all = seconds * (double)sysconf(_SC_CLK_TCK) * (double)sysconf(_SC_NPROCESSORS_ONLN);

	return ticks > 0 && all > 0 ? 100 * ticks / all : 0;
}

double processor_ms(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

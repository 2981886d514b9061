/*
 * histogram: a quantile differs from the exact one by at most the width of a bucket. A thread may read while
 * another records.
 */
#include "common/histogram.h"
#include "common/random.h"
#include "tests/lib/tap.h"

#include <inttypes.h>
#include <pthread.h>

static bool is_near(uint64_t got, uint64_t expected)
{
	uint64_t apart = got > expected ? got - expected : expected - got;

	return apart <= expected / 32;
}

static void few_values_give_exact_quantiles(void)
{
	static struct histogram histogram;

	ok(histogram_quantile(&histogram, 500) == 0, "the median of an empty histogram is 0");
	histogram_record(&histogram, 7);
	ok(histogram.count == 1, "a recorded value is counted");
	ok(histogram_quantile(&histogram, 0) == 7 && histogram_quantile(&histogram, 500) == 7 &&
	       histogram_quantile(&histogram, 1000) == 7,
	   "a single value is every quantile");
	histogram_record(&histogram, 9);
	ok(histogram_quantile(&histogram, 500) == 7, "the median of two values is the smaller");
	ok(histogram_quantile(&histogram, 990) == 9, "the 99th percentile of two values is the larger");
	ok(histogram_sum(&histogram) == 16, "the sum of a histogram is the sum of all values");
}

static void values_of_every_magnitude_are_kept_within_3_percent(void)
{
	unsigned bad = 0;

	for (uint64_t ns = 1; ns < 1ull << 36; ns += ns / 97 + 1) {
		static struct histogram histogram;

		memset(&histogram, 0, sizeof histogram);
		histogram_record(&histogram, ns);
		bad += !is_near(histogram_quantile(&histogram, 500), ns);
	}
	ok(bad == 0, "any value from 1 ns to 68 s is kept within 3 %%");
	static struct histogram histogram;
	histogram_record(&histogram, UINT64_MAX);
	histogram_record(&histogram, 1ull << 36);
	ok(histogram.count == 2 && histogram_quantile(&histogram, 500) == histogram_quantile(&histogram, 1000) &&
	       histogram_quantile(&histogram, 500) > 67000000000u,
	   "a value above 68 s counts as the largest value");
}

static int number_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

#define VALUES 10000u

static void quantiles_are_those_of_the_sorted_values(void)
{
	static struct histogram histogram, half;
	static uint64_t values[VALUES];
	static const unsigned quantiles[] = {1, 100, 500, 900, 990, 999, 1000};
	struct random_state random;

	random_seed(&random, 3);
	for (unsigned i = 0; i < VALUES; i++) {
		values[i] = 1 + (random_next(&random) >> (30 + random_below(&random, 34)));
		histogram_record(i % 2 ? &histogram : &half, values[i]);
	}
	histogram_add(&histogram, &half);
	qsort(values, VALUES, sizeof *values, number_compare);
	ok(histogram.count == VALUES, "a histogram added to another one counts the values of both");
	for (unsigned i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
		uint64_t expected = values[(VALUES * quantiles[i] + 999) / 1000 - 1];
		uint64_t got = histogram_quantile(&histogram, quantiles[i]);

		ok(is_near(got, expected),
		   "the quantile of %u per mille is near that of the sorted values (%" PRIu64 ", %" PRIu64 ")",
		   quantiles[i], got, expected);
	}
}

#define RECORDS 300000u

static void *record_many(void *argument)
{
	for (unsigned i = 0; i < RECORDS; i++)
		histogram_record(argument, 1000 + i % 1000);
	return NULL;
}

static void a_reader_may_run_beside_a_recorder(void)
{
	static struct histogram histogram, sum;
	pthread_t thread;
	unsigned bad = 0;

	if (!ok(!pthread_create(&thread, NULL, record_many, &histogram), "a recording thread starts"))
		return;
	for (unsigned i = 0; i < 200; i++) {
		uint64_t median = histogram_quantile(&histogram, 500);

		bad += median && (median < 960 || median > 2050);
	}
	pthread_join(thread, NULL);
	histogram_add(&sum, &histogram);
	ok(bad == 0, "a reader sees only possible medians while another thread records");
	ok(sum.count == RECORDS, "no value is lost while another thread reads");
}

int main(void)
{
	few_values_give_exact_quantiles();
	values_of_every_magnitude_are_kept_within_3_percent();
	quantiles_are_those_of_the_sorted_values();
	a_reader_may_run_beside_a_recorder();
	return tap_done();
}

/* bench_table: see bench_table.h. */
#include "cli/bench/bench_table.h"

#include <string.h>

#define PAGE 4096.0
#define MIB 1048576.0
#define MANY 32u /* depth of the second comparison; if this depth was not requested, the largest depth */

static double table_us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static int table_width(const struct bench_results *results)
{
	size_t width = strlen("userfaultfd alone");

	for (unsigned i = 0; i < results->donor_count; i++)
		if (strlen(results->donors[i].uri) > width)
			width = strlen(results->donors[i].uri);
	return (int)width;
}

static unsigned table_points(const struct bench_results *results)
{
	unsigned count = 0;

	for (unsigned donor = 0; donor < results->donor_count; donor++)
		for (unsigned op = 0; op < BENCH_OPS; op++)
			for (unsigned i = 0; i < results->depth_count; i++)
				count += results->donors[donor].points[op][i].measured;
	return count;
}

static void table_print_points(const struct bench_results *results, unsigned donor, int width, FILE *out)
{
	const struct bench_donor *own = &results->donors[donor];

	for (unsigned op = 0; op < BENCH_OPS; op++) {
		for (unsigned i = 0; i < results->depth_count; i++) {
			const struct bench_point *point = &own->points[op][i];
			double rate = bench_point_rate(point);

			if (point->measured)
				fprintf(out, "%-*s %-6s %-5s %5u %9.1f %9.1f %9.1f %10.0f %8.1f\n", width, own->uri,
					own->fabric, bench_op_name((enum bench_op)op), results->depths[i],
					table_us(point->latency.p50), table_us(point->latency.p99),
					table_us(point->latency.p999), rate, rate * PAGE / MIB);
		}
	}
}

static void table_print_fault(const struct bench_fault *fault, const char *name, const char *fabric, int width,
			      FILE *out)
{
	if (fault->latency.count)
		fprintf(out, "%-*s %-6s %-5s %5s %9.1f %9.1f %9.1f %10llu\n", width, name, fabric, "fault", "",
			table_us(fault->latency.p50), table_us(fault->latency.p99), table_us(fault->latency.p999),
			(unsigned long long)fault->latency.count);
}

static void table_print_faults(const struct bench_results *results, int width, FILE *out)
{
	const struct bench_fault *floor = &results->userfaultfd;
	unsigned shown = floor->latency.count != 0;

	for (unsigned i = 0; i < results->donor_count; i++)
		shown += results->donors[i].fault.latency.count != 0;
	if (shown) {
		fprintf(out, "\n%-*s %-6s %-5s %5s %9s %9s %9s %10s\n", width, "FAR FAULTS", "FABRIC", "", "", "P50 US",
			"P99 US", "P99.9 US", "FAULTS");
		table_print_fault(floor, "userfaultfd alone", "", width, out);
		for (unsigned i = 0; i < results->donor_count; i++)
			table_print_fault(&results->donors[i].fault, results->donors[i].uri, results->donors[i].fabric,
					  width, out);
	}
	if (floor->skipped)
		fprintf(out, "\nfar faults were not measured: %s\n", floor->skipped);
}

void bench_table_print(const struct bench_results *results, FILE *out)
{
	int width = table_width(results);

	if (table_points(results)) {
		fprintf(out, "%-*s %-6s %-5s %5s %9s %9s %9s %10s %8s\n", width, "DONOR", "FABRIC", "OP", "DEPTH",
			"P50 US", "P99 US", "P99.9 US", "PAGES/S", "MIB/S");
		for (unsigned i = 0; i < results->donor_count; i++)
			table_print_points(results, i, width, out);
	}
	table_print_faults(results, width, out);
}

/* Returns a donor's score at @depth: 1/p50 at depth 1, otherwise pages per second. A larger score is better. Returns 0
   if the donor was not measured. */
static double meaning_score(const struct bench_results *results, unsigned donor, unsigned depth)
{
	const struct bench_point *point = bench_donor_point(results, donor, BENCH_READ, depth);

	if (!point || !point->latency.p50)
		return 0;
	return depth == 1 ? 1 / (double)point->latency.p50 : bench_point_rate(point);
}

static void meaning_print_figure(const struct bench_results *results, unsigned donor, unsigned depth, FILE *out)
{
	const struct bench_point *point = bench_donor_point(results, donor, BENCH_READ, depth);

	if (depth == 1)
		fprintf(out, "%.1f us", table_us(point->latency.p50));
	else
		fprintf(out, "%.0f pages/s", bench_point_rate(point));
}

/* Prints, for example, "reads at depth 1: rdma is 3.10 x as fast as tcp (2.7 us, 8.3 us)". */
static void meaning_print_depth(const struct bench_results *results, unsigned depth, FILE *out)
{
	unsigned best = 0, worst = 0, count = 0;

	for (unsigned i = 0; i < results->donor_count; i++) {
		double score = meaning_score(results, i, depth);

		if (score <= 0)
			continue;
		if (!count || score > meaning_score(results, best, depth))
			best = i;
		if (!count || score < meaning_score(results, worst, depth))
			worst = i;
		count++;
	}
	if (!count)
		return;
	fprintf(out, "reads at depth %u: ", depth);
	if (count == 1) {
		fprintf(out, "%s ", bench_donor_label(results, best));
		meaning_print_figure(results, best, depth, out);
	} else {
		fprintf(out, "%s is %.2f x as fast as %s (", bench_donor_label(results, best),
			meaning_score(results, best, depth) / meaning_score(results, worst, depth),
			bench_donor_label(results, worst));
		meaning_print_figure(results, best, depth, out);
		fprintf(out, ", ");
		meaning_print_figure(results, worst, depth, out);
		fprintf(out, ")");
	}
	fprintf(out, "\n");
}

static void meaning_print_shares(const struct bench_results *results, unsigned donor, FILE *out)
{
	struct bench_shares shares;

	if (!bench_donor_shares(results, donor, &shares))
		return;
	fprintf(out,
		"a far fault over %s: %.1f us (p50); alone, userfaultfd takes %.1f us (%.0f %%), the page %.1f us "
		"(%.0f %%)",
		bench_donor_label(results, donor), shares.fault, shares.resolve, 100 * shares.resolve / shares.fault,
		shares.read, 100 * shares.read / shares.fault);
	if (shares.rest >= 0)
		fprintf(out, "; the rest is %.1f us (%.0f %%)\n", shares.rest, 100 * shares.rest / shares.fault);
	else
		fprintf(out, ", together %.1f us more\n", -shares.rest);
}

/* Returns the depth for the comparison with many pages in flight, or 0 if only depth 1 was requested. */
static unsigned meaning_many(const struct bench_results *results)
{
	unsigned deepest = results->depth_count ? results->depths[results->depth_count - 1] : 0;

	for (unsigned i = 0; i < results->depth_count; i++)
		if (results->depths[i] == MANY)
			return MANY;
	return deepest > 1 ? deepest : 0;
}

void bench_table_print_meaning(const struct bench_results *results, FILE *out)
{
	unsigned many = meaning_many(results);

	meaning_print_depth(results, 1, out);
	if (many)
		meaning_print_depth(results, many, out);
	for (unsigned i = 0; i < results->donor_count; i++)
		meaning_print_shares(results, i, out);
}

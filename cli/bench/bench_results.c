/* bench_results: see bench_results.h. */
#include "cli/bench/bench_results.h"

#include <stdio.h>
#include <string.h>

const char *bench_op_name(enum bench_op op)
{
	return op == BENCH_READ ? "read" : "write";
}

struct bench_latency bench_latency_of(const struct histogram *histogram)
{
	return (struct bench_latency){
	    .count = histogram->count,
	    .p50 = histogram_quantile(histogram, 500),
	    .p99 = histogram_quantile(histogram, 990),
	    .p999 = histogram_quantile(histogram, 999),
	};
}

void bench_donor_set_fabric(struct bench_donor *donor, const char *uri)
{
	struct uri parsed;

	snprintf(donor->fabric, sizeof donor->fabric, "%s", uri_parse(uri, 0, &parsed) ? "?" : parsed.scheme);
}

double bench_point_rate(const struct bench_point *point)
{
	return point->measured && point->seconds > 0 ? (double)point->latency.count / point->seconds : 0;
}

const struct bench_point *bench_donor_point(const struct bench_results *results, unsigned donor, enum bench_op op,
					    unsigned depth)
{
	for (unsigned i = 0; i < results->depth_count; i++)
		if (results->depths[i] == depth && results->donors[donor].points[op][i].measured)
			return &results->donors[donor].points[op][i];
	return NULL;
}

const char *bench_donor_label(const struct bench_results *results, unsigned donor)
{
	const struct bench_donor *own = &results->donors[donor];

	for (unsigned i = 0; i < results->donor_count; i++)
		if (i != donor && strcmp(results->donors[i].fabric, own->fabric) == 0)
			return own->uri;
	return own->fabric;
}

bool bench_donor_shares(const struct bench_results *results, unsigned donor, struct bench_shares *ret_shares)
{
	const struct bench_latency *fault = &results->donors[donor].fault.latency;
	const struct bench_point *read = bench_donor_point(results, donor, BENCH_READ, 1);
	struct bench_shares shares;

	if (!fault->count || !results->userfaultfd.latency.count || !read)
		return false;
	shares.fault = (double)fault->p50 / 1e3;
	shares.resolve = (double)results->userfaultfd.latency.p50 / 1e3;
	shares.read = (double)read->latency.p50 / 1e3;
	shares.rest = shares.fault - shares.resolve - shares.read;
	*ret_shares = shares;
	return true;
}

/* bench_json: see bench_json.h. farpage-bench(1) lists the names. */
#include "cli/bench/bench_json.h"

#include "cli/json.h"

#define PAGE 4096.0

static void json_add_latency(struct json_object *object, const struct bench_latency *latency)
{
	json_add_number(object, "p50_ns", latency->p50);
	json_add_number(object, "p99_ns", latency->p99);
	json_add_number(object, "p999_ns", latency->p999);
}

static struct json_object *json_point(const struct bench_point *point, enum bench_op op, unsigned depth)
{
	struct json_object *object = json_object_new_object();
	double rate = bench_point_rate(point);

	json_add_text(object, "operation", bench_op_name(op));
	json_add_number(object, "depth", depth);
	json_add_number(object, "pages", point->latency.count);
	json_add_real(object, "seconds", point->seconds);
	json_add_latency(object, &point->latency);
	json_add_number(object, "pages_per_second", (uint64_t)rate);
	json_add_number(object, "bytes_per_second", (uint64_t)(rate * PAGE));
	return object;
}

/* Returns the object for @fault, or NULL (JSON null) if the benchmark ended before that measurement. */
static struct json_object *json_fault(const struct bench_fault *fault, bool with_far)
{
	struct json_object *object;

	if (!fault->latency.count && !fault->skipped)
		return NULL;
	object = json_object_new_object();
	if (fault->skipped) {
		json_add_text(object, "skipped", fault->skipped);
		return object;
	}
	json_add_number(object, "faults", fault->latency.count);
	if (with_far)
		json_add_number(object, "faults_far", fault->far);
	json_add_latency(object, &fault->latency);
	return object;
}

static struct json_object *json_donor(const struct bench_results *results, unsigned index)
{
	const struct bench_donor *donor = &results->donors[index];
	struct json_object *object = json_object_new_object(), *points = json_object_new_array();

	json_add_text(object, "donor", donor->uri);
	json_add_text(object, "fabric", donor->fabric);
	for (unsigned op = 0; op < BENCH_OPS; op++)
		for (unsigned i = 0; i < results->depth_count; i++)
			if (donor->points[op][i].measured)
				json_object_array_add(
				    points, json_point(&donor->points[op][i], (enum bench_op)op, results->depths[i]));
	json_object_object_add(object, "points", points);
	json_object_object_add(object, "far_fault", json_fault(&donor->fault, true));
	return object;
}

void bench_json_print(const struct bench_results *results, FILE *out)
{
	struct json_object *root = json_object_new_object(), *donors = json_object_new_array();

	json_add_number(root, "bytes", results->bytes);
	json_add_real(root, "seconds_per_point", results->seconds);
	json_add_flag(root, "interrupted", results->interrupted);
	json_object_object_add(root, "userfaultfd", json_fault(&results->userfaultfd, false));
	for (unsigned i = 0; i < results->donor_count; i++)
		json_object_array_add(donors, json_donor(results, i));
	json_object_object_add(root, "donors", donors);
	json_print(root, false, out);
}

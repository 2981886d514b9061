/* bench_json: all figures, with the names of farpage-bench(1). */
#include "bench_fixture.h"
#include "cli/bench/bench_json.h"
#include "tests/lib/tap.h"

#include <json-c/json.h>

static uint64_t number(struct json_object *object, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) ? json_object_get_uint64(value) : UINT64_MAX;
}

static struct json_object *get(struct json_object *object, const char *name)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(object, name, &value);
	return value;
}

static struct json_object *parsed(const struct bench_results *results)
{
	char *text = CAUGHT(bench_json_print(results, out));
	struct json_object *root = json_tokener_parse(text);

	free(text);
	return root;
}

int main(void)
{
	struct bench_results results;

	fixture_fill(&results);
	struct json_object *root = parsed(&results);
	ok(root && number(root, "bytes") == 256u << 20 && !json_object_get_boolean(get(root, "interrupted")),
	   "the JSON has the bytes of the run and says that it was not interrupted");
	ok(number(get(root, "userfaultfd"), "p50_ns") == 7000 && number(get(root, "userfaultfd"), "faults") == 1000,
	   "the JSON has the median and count of userfaultfd alone");
	struct json_object *donors = get(root, "donors"), *tcp = json_object_array_get_idx(donors, 0);
	ok(json_object_array_length(donors) == 2 && strcmp(json_object_get_string(get(tcp, "donor")), TCP) == 0 &&
	       strcmp(json_object_get_string(get(tcp, "fabric")), "tcp") == 0,
	   "the JSON has both donors with address and fabric");
	ok(json_object_array_length(get(tcp, "points")) == 6 &&
	       json_object_array_length(get(json_object_array_get_idx(donors, 1), "points")) == 4,
	   "the JSON has exactly the points that were measured");
	struct json_object *point = json_object_array_get_idx(get(tcp, "points"), 5);
	ok(strcmp(json_object_get_string(get(point, "operation")), "write") == 0 && number(point, "depth") == 32 &&
	       number(point, "pages") == 800000 && number(point, "p50_ns") == 80000 &&
	       number(point, "p99_ns") == 160000 && number(point, "p999_ns") == 320000 &&
	       number(point, "pages_per_second") == 400000 && number(point, "bytes_per_second") == 1638400000 &&
	       json_object_get_double(get(point, "seconds")) == 2,
	   "a point has operation, depth, pages, seconds, percentiles and rates");
	struct json_object *fault = get(tcp, "far_fault");
	ok(number(fault, "faults") == 500 && number(fault, "faults_far") == 499 && number(fault, "p999_ns") == 40000,
	   "a far fault has its count, its far count and p99.9");
	json_object_put(root);

	results.donors[0].fault = (struct bench_fault){.skipped = "why"};
	results.donors[1].fault = (struct bench_fault){0};
	results.interrupted = true;
	root = parsed(&results);
	donors = get(root, "donors");
	fault = get(json_object_array_get_idx(donors, 0), "far_fault");
	ok(fault && strcmp(json_object_get_string(get(fault, "skipped")), "why") == 0,
	   "far faults that were skipped have the reason");
	ok(!get(json_object_array_get_idx(donors, 1), "far_fault"), "far faults that were not reached are null");
	ok(json_object_get_boolean(get(root, "interrupted")), "the JSON of an interrupted run says so");
	json_object_put(root);
	return tap_done();
}

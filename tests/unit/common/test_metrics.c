/* metrics: the text is valid whatever the values of labels are, and is cut only between lines. */
#include "common/metrics.h"
#include "tests/lib/tap.h"

#include <string.h>

static char buffer[8192];

static struct metrics_text text_of(size_t size)
{
	memset(buffer, 'x', sizeof buffer);
	buffer[0] = '\0';
	return (struct metrics_text){.out = {.at = buffer, .size = size}};
}

static void family_has_help_type_and_samples(void)
{
	static const struct metrics_label labels[] = {{"op", "read"}, {"device", "a"}, {NULL, NULL}};
	struct metrics_text text = text_of(sizeof buffer);

	metrics_family(&text, "farpage_x_total", METRICS_COUNTER, "Things.");
	metrics_sample(&text, NULL, 3);
	metrics_sample(&text, labels, 1.5);
	ok(!strcmp(buffer, "# HELP farpage_x_total Things.\n# TYPE farpage_x_total counter\nfarpage_x_total 3\n"
			   "farpage_x_total{op=\"read\",device=\"a\"} 1.5\n"),
	   "a family has its HELP and TYPE lines, then its samples");
	ok(text.out.length == strlen(buffer) && !text.out.cut, "the length is that of the string");
}

static void label_values_are_escaped(void)
{
	static const struct metrics_label labels[] = {{"a", "q\"b\\n\nt\t\xff"}, {"b", ""}, {NULL, NULL}};
	struct metrics_text text = text_of(sizeof buffer);

	text.family = "f";
	metrics_sample(&text, labels, 0);
	ok(!strcmp(buffer, "f{a=\"q\\\"b\\\\n\\nt??\",b=\"\"} 0\n"),
	   "quotes, backslashes and line breaks are escaped, and other bytes outside ASCII are question marks");
}

static void large_values_are_whole_numbers(void)
{
	struct metrics_text text = text_of(sizeof buffer);

	text.family = "f";
	metrics_sample(&text, NULL, (double)(UINT64_C(1) << 46));
	ok(!strcmp(buffer, "f 70368744177664\n"), "a value of 64 TiB is written with all its digits");
}

static void text_is_cut_between_lines(void)
{
	static const struct metrics_label labels[] = {{"a", "some long value of a label"}, {NULL, NULL}};
	unsigned bad = 0;

	for (size_t size = 1; size < 120; size++) {
		struct metrics_text text = text_of(size);

		metrics_family(&text, "f", METRICS_GAUGE, "Help.");
		for (unsigned i = 0; i < 4; i++)
			metrics_sample(&text, labels, i);
		bad += !text.out.cut || buffer[size] != 'x' || strlen(buffer) != text.out.length ||
		       (text.out.length && buffer[text.out.length - 1] != '\n');
	}
	ok(bad == 0,
	   "a buffer of any size gets whole lines, nothing beyond its end, and the mark that lines are missing");
}

static void histogram_has_cumulative_buckets(void)
{
	static const struct metrics_label labels[] = {{"op", "read"}, {NULL, NULL}};
	static struct histogram histogram;
	struct metrics_text text = text_of(sizeof buffer);

	histogram_record(&histogram, 5000);
	histogram_record(&histogram, 10000);
	histogram_record(&histogram, UINT64_C(60000000000));
	metrics_family(&text, "t_seconds", METRICS_HISTOGRAM, "Times.");
	metrics_histogram(&text, labels, &histogram);
	ok(strstr(buffer, "t_seconds_bucket{op=\"read\",le=\"8.192e-06\"} 1\n") &&
	       strstr(buffer, "t_seconds_bucket{op=\"read\",le=\"1.6384e-05\"} 2\n") &&
	       strstr(buffer, "t_seconds_bucket{op=\"read\",le=\"8.589934592\"} 2\n") &&
	       strstr(buffer, "t_seconds_bucket{op=\"read\",le=\"+Inf\"} 3\n"),
	   "each bucket counts all values below its bound");
	ok(strstr(buffer, "t_seconds_count{op=\"read\"} 3\n") && strstr(buffer, "t_seconds_sum{op=\"read\"} "),
	   "a histogram has its sum and its count");
}

int main(void)
{
	family_has_help_type_and_samples();
	label_values_are_escaped();
	large_values_are_whole_numbers();
	text_is_cut_between_lines();
	histogram_has_cumulative_buckets();
	return tap_done();
}

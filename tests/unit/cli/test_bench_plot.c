/* bench_plot: marks are where the values are, and the lines fit a terminal. */
#include "bench_fixture.h"
#include "cli/bench/bench_plot.h"
#include "tests/tap.h"

/* The @number-th line of @text, in a static buffer. */
static const char *line_at(const char *text, unsigned number)
{
	static char line[512];

	while (number-- && text)
		text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
	snprintf(line, sizeof line, "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
	return line;
}

static size_t longest_line(const char *text)
{
	size_t longest = 0, columns = 0;

	for (; *text; text++) {
		columns = *text == '\n' ? 0 : columns + ((*text & 0xc0) != 0x80); /* characters, not bytes */
		longest = columns > longest ? columns : longest;
	}
	return longest;
}

static void test_ascii(void)
{
	struct bench_results results;

	fixture_fill(&results);
	char *text = CAUGHT(bench_plot_print(&results, false, out));
	bool ascii = true;
	for (const char *at = text; *at; at++)
		ascii &= (unsigned char)*at < 128;
	ok(ascii, "ASCII alone where UTF-8 is not known");
	ok(strcmp(line_at(text, 1), "reads: thousand pages/s  reads: us (log)") == 0, "reads first");
	/* Left, 0 to 800 thousand in 8 steps: tcp 100, 300, 400; rdma 400, 500, 600. Right, 2 to 512 us in 8 steps:
	   tcp 10, 25, 80 and the double; rdma 2.5, 16, 53 and the double. */
	static const char *const rows[] = {
	    "   800 |                 512 |",
	    "       |                     |",
	    "   600 |           B     128 |           *",
	    "       |       B             |       a   *",
	    "   400 |   B       A      32 |       *",
	    "       |       A             |   a   B",
	    "   200 |                   8 |   A",
	    "       |   A                 |   b",
	    "     0 |                   2 |   B",
	    "       +------------         +------------",
	    " depth     1   8  32   depth     1   8  32",
	};
	for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
		ok(strcmp(line_at(text, 2 + i), rows[i]) == 0, "line %u of the panels", i + 1);
	ok(fixture_count(text, "writes: thousand pages/s") == 1, "then writes");
	ok(strstr(text, "A tcp (p99: a)  B rdma (p99: b)  * several\n") != NULL, "what the marks mean");
	free(text);
}

static void test_overlap(void)
{
	struct bench_results results;

	fixture_fill(&results);
	results.donors[1].points[BENCH_READ][0] = results.donors[0].points[BENCH_READ][0];
	char *text = CAUGHT(bench_plot_print(&results, false, out));
	ok(strncmp(line_at(text, 9), "       |   *  ", 14) == 0, "two marks in one place are a star");
	free(text);
}

static void test_width(void)
{
	struct bench_results results;

	fixture_fill(&results);
	results.depth_count = 7;
	for (unsigned i = 0; i < 7; i++) {
		results.depths[i] = 1u << i;
		for (unsigned op = 0; op < BENCH_OPS; op++)
			results.donors[0].points[op][i] = fixture_point(4000000, 30000000); /* 60 ms */
	}
	char *text = CAUGHT(bench_plot_print(&results, true, out));
	ok(longest_line(text) <= 80, "seven depths fit 80 columns (%zu)", longest_line(text));
	ok(strstr(text, "●") && strstr(text, "○"), "with UTF-8, drawn marks");
	free(text);
}

static void test_nothing(void)
{
	struct bench_results results;

	fixture_fill(&results);
	memset(results.donors[0].points, 0, sizeof results.donors[0].points);
	memset(results.donors[1].points, 0, sizeof results.donors[1].points);
	char *text = CAUGHT(bench_plot_print(&results, true, out));
	ok(!*text, "nothing measured, nothing drawn");
	free(text);
}

int main(void)
{
	test_ascii();
	test_overlap();
	test_width();
	test_nothing();
	return tap_done();
}

/* bench_plot: marks lie at their values, and the lines fit a terminal. */
#include "bench_fixture.h"
#include "cli/bench/bench_plot.h"
#include "tests/lib/tap.h"

/* Returns line @number of @text, counted from 0, in a static buffer. */
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

static void an_ascii_plot_has_its_marks_at_their_values(void)
{
	struct bench_results results;

	fixture_fill(&results);
	char *text = CAUGHT(bench_plot_print(&results, false, out));
	bool ascii = true;
	for (const char *at = text; *at; at++)
		ascii &= (unsigned char)*at < 128;
	ok(ascii, "a plot without UTF-8 is all ASCII");
	ok(strcmp(line_at(text, 1), "reads: thousand pages/s  reads: us (log)") == 0,
	   "the plot begins with the panels of reads");
	/* The left panel has 0 to 800 thousand in 8 steps: tcp 100, 300, 400; rdma 400, 500, 600. The right panel has 2
	   to 512 us in 8 steps: tcp 10, 25, 80 and twice that; rdma 2.5, 16, 53 and twice that. */
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
		ok(strcmp(line_at(text, 2 + i), rows[i]) == 0,
		   "line %u of the read panels has its marks at their values", i + 1);
	ok(fixture_count(text, "writes: thousand pages/s") == 1, "the plot has one title for the rates of writes");
	ok(strstr(text, "A tcp (p99: a)  B rdma (p99: b)  * several\n") != NULL,
	   "the legend names the mark of each donor");
	free(text);
}

static void marks_in_one_place_become_a_star(void)
{
	struct bench_results results;

	fixture_fill(&results);
	results.donors[1].points[BENCH_READ][0] = results.donors[0].points[BENCH_READ][0];
	char *text = CAUGHT(bench_plot_print(&results, false, out));
	ok(strncmp(line_at(text, 9), "       |   *  ", 14) == 0, "two marks in one place are drawn as a star");
	free(text);
}

static void a_plot_of_seven_depths_fits_a_terminal(void)
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
	ok(longest_line(text) <= 80, "a plot of seven depths fits 80 columns (%zu)", longest_line(text));
	ok(strstr(text, "●") && strstr(text, "○"), "a plot with UTF-8 has round marks");
	free(text);
}

static void a_plot_without_points_is_empty(void)
{
	struct bench_results results;

	fixture_fill(&results);
	memset(results.donors[0].points, 0, sizeof results.donors[0].points);
	memset(results.donors[1].points, 0, sizeof results.donors[1].points);
	char *text = CAUGHT(bench_plot_print(&results, true, out));
	ok(!*text, "a plot without measured points is empty");
	free(text);
}

int main(void)
{
	an_ascii_plot_has_its_marks_at_their_values();
	marks_in_one_place_become_a_star();
	a_plot_of_seven_depths_fits_a_terminal();
	a_plot_without_points_is_empty();
	return tap_done();
}

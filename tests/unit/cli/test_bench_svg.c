/* bench_svg: the picture of the measurements. A test in tests/func/cli parses the XML with Python. */
#include "bench_fixture.h"
#include "cli/bench/bench_svg.h"
#include "tests/lib/tap.h"

static void a_picture_shows_all_figures(void)
{
	struct bench_results results;

	fixture_fill(&results);
	char *text = CAUGHT(bench_svg_print(&results, out));
	ok(strncmp(text, "<?xml", 5) == 0 && strstr(text, "</svg>\n"),
	   "the picture begins as XML and ends with </svg>");
	ok(fixture_count(text, "<polyline") == 12, "the picture has a line for each donor, operation and figure");
	/* There are 10 points, each with a rate and two latencies, and 2 markers in the legend. */
	ok(fixture_count(text, "<circle") == 32, "the picture has a marker for each point and donor");
	ok(fixture_count(text, ">rdma") == 2 && fixture_count(text, ">tcp") == 2,
	   "the picture names each donor in the legend and at its bar");
	/* The panel begins at 70 and is 340 wide. Depth 8 of 1 to 32 is at three fifths of a log2 axis. */
	ok(strstr(text, "text-anchor=\"middle\">8<") && strstr(text, "<text x=\"274.0\""),
	   "the axis of depths is logarithmic");
	ok(strstr(text, "userfaultfd 7.0") && strstr(text, "page read 10.0"),
	   "the picture shows the parts of a far fault");
	ok(!strstr(text, "(interrupted)"), "the picture of a complete run does not say interrupted");
	free(text);
	results.interrupted = true;
	text = CAUGHT(bench_svg_print(&results, out));
	ok(strstr(text, "(interrupted)") != NULL, "the picture of an interrupted run says so");
	free(text);
}

static void addresses_are_escaped(void)
{
	struct bench_results results;

	fixture_fill(&results);
	strcpy(results.donors[1].fabric, "tcp");
	results.donors[1].uri = "tcp://<a&b>\"\x01\xff";
	char *text = CAUGHT(bench_svg_print(&results, out));
	ok(strstr(text, "tcp://&lt;a&amp;b&gt;\"??") != NULL, "the picture escapes the characters of addresses");
	free(text);
}

static void a_picture_of_little_is_whole(void)
{
	struct bench_results results;

	fixture_fill(&results);
	memset(results.donors[0].points, 0, sizeof results.donors[0].points);
	memset(results.donors[1].points, 0, sizeof results.donors[1].points);
	results.userfaultfd = results.donors[0].fault = results.donors[1].fault = (struct bench_fault){0};
	char *text = CAUGHT(bench_svg_print(&results, out));
	ok(strstr(text, "</svg>") && !strstr(text, "nan") && !strstr(text, "inf"),
	   "the picture without measured points is whole and has no nan or inf");
	free(text);

	fixture_fill(&results);
	results.depth_count = 1;
	text = CAUGHT(bench_svg_print(&results, out));
	ok(fixture_count(text, "<circle") == 14 && !strstr(text, "nan") && !strstr(text, "inf"),
	   "the picture of a single depth has its markers and no nan or inf");
	free(text);
}

int main(void)
{
	a_picture_shows_all_figures();
	addresses_are_escaped();
	a_picture_of_little_is_whole();
	return tap_done();
}

/* bench_svg: a picture of whatever was measured. That it is XML is tested with Python's parser (func/cli). */
#include "bench_fixture.h"
#include "cli/bench/bench_svg.h"
#include "tests/tap.h"

static void test_whole(void)
{
	struct bench_results results;

	fixture_fill(&results);
	char *text = CAUGHT(bench_svg_print(&results, out));
	ok(strncmp(text, "<?xml", 5) == 0 && strstr(text, "</svg>\n"), "begins and ends as it should");
	ok(fixture_count(text, "<polyline") == 12, "a line for each donor, operation and figure");
	/* 10 points, each with a rate and two latencies, and two in the legend. */
	ok(fixture_count(text, "<circle") == 32, "a marker for each point");
	ok(fixture_count(text, ">rdma") == 2 && fixture_count(text, ">tcp") == 2,
	   "names in the legend and at the bars");
	/* 70 + 340 wide: depth 8 of 1 to 32 is three fifths of the way on a log2 axis. */
	ok(strstr(text, "text-anchor=\"middle\">8<") && strstr(text, "<text x=\"274.0\""), "the depth axis is log2");
	ok(strstr(text, "userfaultfd 7.0") && strstr(text, "page read 10.0"), "the parts of a far fault");
	ok(!strstr(text, "(interrupted)"), "not interrupted");
	free(text);
	results.interrupted = true;
	text = CAUGHT(bench_svg_print(&results, out));
	ok(strstr(text, "(interrupted)") != NULL, "an interrupted run says so");
	free(text);
}

static void test_text(void)
{
	struct bench_results results;

	fixture_fill(&results);
	strcpy(results.donors[1].fabric, "tcp");
	results.donors[1].uri = "tcp://<a&b>\"\x01\xff";
	char *text = CAUGHT(bench_svg_print(&results, out));
	ok(strstr(text, "tcp://&lt;a&amp;b&gt;\"??") != NULL, "addresses are escaped");
	free(text);
}

static void test_little(void)
{
	struct bench_results results;

	fixture_fill(&results);
	memset(results.donors[0].points, 0, sizeof results.donors[0].points);
	memset(results.donors[1].points, 0, sizeof results.donors[1].points);
	results.userfaultfd = results.donors[0].fault = results.donors[1].fault = (struct bench_fault){0};
	char *text = CAUGHT(bench_svg_print(&results, out));
	ok(strstr(text, "</svg>") && !strstr(text, "nan") && !strstr(text, "inf"), "nothing measured: empty axes");
	free(text);

	fixture_fill(&results);
	results.depth_count = 1;
	text = CAUGHT(bench_svg_print(&results, out));
	ok(fixture_count(text, "<circle") == 14 && !strstr(text, "nan") && !strstr(text, "inf"), "one depth");
	free(text);
}

int main(void)
{
	test_whole();
	test_text();
	test_little();
	return tap_done();
}

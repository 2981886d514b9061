/* bench_table: the figures in their columns, and the sentences below the table. */
#include "bench_fixture.h"
#include "cli/bench/bench_table.h"
#include "tests/lib/tap.h"

/* Returns the line of @text that begins with @begin and contains @part, in a static buffer. Each run of blanks becomes
   one blank. */
static const char *line_of(const char *text, const char *begin, const char *part)
{
	static char line[256];

	while (text && *text) {
		size_t length = strcspn(text, "\n"), used = 0;

		for (size_t i = 0; i < length && used < sizeof line - 1; i++)
			if (text[i] != ' ' || (used && line[used - 1] != ' '))
				line[used++] = text[i];
		line[used] = 0;
		if (strncmp(line, begin, strlen(begin)) == 0 && strstr(line, part))
			return line;
		text += length + (text[length] == '\n');
	}
	return "";
}

static void the_table_has_all_figures(void)
{
	struct bench_results results;

	fixture_fill(&results);
	char *text = CAUGHT(bench_table_print(&results, out));
	ok(strcmp(line_of(text, TCP, "read 32"), TCP " tcp read 32 80.0 160.0 320.0 400000 1562.5") == 0,
	   "a line of the table has donor, fabric, operation, depth, us, pages/s and MiB/s");
	ok(strcmp(line_of(text, RDMA, "write 1 "), RDMA " rdma write 1 2.5 5.0 10.0 400000 1562.5") == 0,
	   "the table has a line for writes");
	ok(fixture_count(text, " read ") == 6 && fixture_count(text, " write ") == 4,
	   "the table has exactly the points that were measured");
	ok(strcmp(line_of(text, "userfaultfd", "fault"), "userfaultfd alone fault 7.0 8.0 9.0 1000") == 0,
	   "the table has a line for userfaultfd alone");
	ok(strcmp(line_of(text, TCP, "fault"), TCP " tcp fault 20.0 30.0 40.0 500") == 0,
	   "the table has a line for far faults");
	free(text);
}

static void a_table_without_figures_is_empty(void)
{
	struct bench_results results;

	fixture_fill(&results);
	memset(results.donors[0].points, 0, sizeof results.donors[0].points);
	memset(results.donors[1].points, 0, sizeof results.donors[1].points);
	results.userfaultfd = results.donors[0].fault = results.donors[1].fault = (struct bench_fault){0};
	char *text = CAUGHT(bench_table_print(&results, out); bench_table_print_meaning(&results, out));
	ok(!*text, "the table without measured figures is empty, and no sentence follows");
	free(text);

	results.userfaultfd.skipped = results.donors[0].fault.skipped = "not today";
	text = CAUGHT(bench_table_print(&results, out));
	ok(strcmp(text, "\nfar faults were not measured: not today\n") == 0,
	   "the table gives the reason for skipped far faults once");
	free(text);
}

static void the_sentences_compare_donors(void)
{
	struct bench_results results;

	fixture_fill(&results);
	char *text = CAUGHT(bench_table_print_meaning(&results, out));
	ok(strcmp(line_of(text, "reads at depth 1:", ""),
		  "reads at depth 1: rdma is 4.00 x as fast as tcp (2.5 us, 10.0 us)") == 0,
	   "donors at depth 1 are compared by latency");
	ok(strcmp(line_of(text, "reads at depth 32:", ""),
		  "reads at depth 32: rdma is 1.50 x as fast as tcp (600000 pages/s, 400000 pages/s)") == 0,
	   "donors at depth 32 are compared by throughput");
	ok(strstr(line_of(text, "a far fault over tcp", ""),
		  "20.0 us (p50); alone, userfaultfd takes 7.0 us (35 %), the page 10.0 us (50 %); the rest is 3.0 us "
		  "(15 %)"),
	   "the sentence about a far fault gives its parts in us and percent");
	ok(strstr(line_of(text, "a far fault over rdma", ""), "together 0.5 us more"),
	   "the sentence about parts that exceed the whole says by how much");
	free(text);

	results.donor_count = 1;
	results.depth_count = 2; /* 1 and 8 */
	text = CAUGHT(bench_table_print_meaning(&results, out));
	ok(strcmp(line_of(text, "reads at depth 1:", ""), "reads at depth 1: tcp 10.0 us") == 0,
	   "a single donor is not compared at depth 1");
	ok(strcmp(line_of(text, "reads at depth 8:", ""), "reads at depth 8: tcp 300000 pages/s") == 0,
	   "the deepest depth replaces depth 32 if that was not run");
	free(text);
}

int main(void)
{
	the_table_has_all_figures();
	a_table_without_figures_is_empty();
	the_sentences_compare_donors();
	return tap_done();
}

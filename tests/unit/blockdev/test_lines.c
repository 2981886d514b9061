/* test_lines: reading files line by line. */
#include "blockdev/daemon/lines.h"
#include "tests/lib/folder.h"

static void open_with(struct lines *lines, const char *text)
{
	folder_put("lines", text);
	if (lines_open(lines, folder_path("lines")) < 0)
		abort();
}

static bool next_is(struct lines *lines, const char *expected)
{
	char line[LINES_MAX];

	return lines_next(lines, line) && strcmp(line, expected) == 0;
}

static void a_short_file_is_read_to_its_end(void)
{
	char line[LINES_MAX] = "before";
	struct lines lines;

	open_with(&lines, "one\n\nthree");
	ok(next_is(&lines, "one"), "a line is read without its line break");
	ok(next_is(&lines, ""), "an empty line is read as an empty line");
	ok(next_is(&lines, "three"), "a last line without a line break is read");
	ok(!lines_next(&lines, line) && !*line, "no line is read at the end of the file, and the text is empty");
	ok(!lines_next(&lines, line), "no line is read at the end of the file the second time either");
	lines_close(&lines);
	ok(!lines_next(&lines, line), "a closed file has no lines");
}

/* More text than one read(2) takes, and a line longer than LINES_MAX. */
static void long_files_and_long_lines_are_read(void)
{
	enum { COUNT = 500, LONG = 5000 };
	char *text = malloc(COUNT * 16 + LONG + 16), expected[LINES_MAX], line[LINES_MAX];
	size_t size = 0;
	struct lines lines;
	bool good = true;

	for (unsigned i = 0; i < COUNT; i++)
		size += (size_t)sprintf(text + size, "line %u\n", i);
	memset(text + size, 'x', LONG);
	strcpy(text + size + LONG, "\nlast\n");
	open_with(&lines, text);
	for (unsigned i = 0; i < COUNT; i++) {
		snprintf(expected, sizeof expected, "line %u", i);
		good &= next_is(&lines, expected);
	}
	ok(good, "lines that lie across two reads of the file are whole");
	memset(expected, 'x', LINES_MAX - 1);
	expected[LINES_MAX - 1] = '\0';
	ok(next_is(&lines, expected), "a line longer than LINES_MAX is cut off");
	ok(next_is(&lines, "last"), "the line after a cut line is whole");
	ok(!lines_next(&lines, line), "a line break at the end of the file begins no further line");
	lines_close(&lines);
	free(text);
}

int main(void)
{
	struct lines lines;
	char line[LINES_MAX];

	a_short_file_is_read_to_its_end();
	long_files_and_long_lines_are_read();
	ok(lines_open(&lines, "/proc/nothing") < 0 && !lines_next(&lines, line),
	   "a file that cannot be opened has no lines");
	lines_close(&lines);
	return tap_done();
}

/* test_lines: files line by line. */
#include "blockdev/daemon/lines.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void open_with(struct lines *lines, const char *text, size_t size)
{
	char path[] = "/tmp/farpage-lines.XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || write(fd, text, size) != (ssize_t)size || lines_open(lines, path) < 0)
		abort();
	close(fd);
	unlink(path);
}

static bool next_is(struct lines *lines, const char *expected)
{
	char line[LINES_MAX];

	return lines_next(lines, line) && strcmp(line, expected) == 0;
}

static void test_few(void)
{
	static const char text[] = "one\n\nthree";
	char line[LINES_MAX] = "before";
	struct lines lines;

	open_with(&lines, text, sizeof text - 1);
	ok(next_is(&lines, "one"), "a line");
	ok(next_is(&lines, ""), "an empty one");
	ok(next_is(&lines, "three"), "one without an end");
	ok(!lines_next(&lines, line) && !*line, "and none after it");
	ok(!lines_next(&lines, line), "however often it is asked for");
	lines_close(&lines);
	ok(!lines_next(&lines, line), "a closed file has none");
}

/* More than is read at a time, and longer than is kept. */
static void test_many(void)
{
	enum { COUNT = 500, LONG = 5000 };
	char *text = malloc(COUNT * 16 + LONG + 16), expected[LINES_MAX], line[LINES_MAX];
	size_t size = 0;
	struct lines lines;
	bool good = true;

	for (unsigned i = 0; i < COUNT; i++)
		size += (size_t)sprintf(text + size, "line %u\n", i);
	memset(text + size, 'x', LONG);
	memcpy(text + size + LONG, "\nlast\n", 6);
	open_with(&lines, text, size + LONG + 6);
	for (unsigned i = 0; i < COUNT; i++) {
		snprintf(expected, sizeof expected, "line %u", i);
		good &= next_is(&lines, expected);
	}
	ok(good, "lines over the edges of what is read at a time");
	memset(expected, 'x', LINES_MAX - 1);
	expected[LINES_MAX - 1] = '\0';
	ok(next_is(&lines, expected), "a long one is cut off");
	ok(next_is(&lines, "last"), "and the next begins where it should");
	ok(!lines_next(&lines, line), "an end of line at the end begins no other");
	lines_close(&lines);
	free(text);
}

int main(void)
{
	struct lines lines;
	char line[LINES_MAX];

	test_few();
	test_many();
	ok(lines_open(&lines, "/proc/nothing") < 0 && !lines_next(&lines, line), "no file, no lines");
	lines_close(&lines);
	return tap_done();
}

/*
 * lines: reads a file of /proc line by line. Does not call malloc, because the daemon must not need memory while its
 * device is swap space.
 *
 *     struct lines lines;
 *     char line[LINES_MAX];
 *
 *     lines_open(&lines, "/proc/swaps");
 *     while (lines_next(&lines, line))
 *             ...
 *     lines_close(&lines);
 *
 * Threads. A struct lines belongs to its caller.
 */
#ifndef BLOCKDEV_LINES_H
#define BLOCKDEV_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define LINES_MAX 1024u

struct lines {
	int fd;
	size_t at, have;
	char text[4096];
};

/* Opens a file. Returns 0 or -errno. After an error, lines_next() finds no lines. */
int lines_open(struct lines *lines, const char *path);
/* Reads the next line, without its line break and cut off if it is too long. Returns false at the end. */
bool lines_next(struct lines *lines, char ret_line[LINES_MAX]);
void lines_close(struct lines *lines);

#endif

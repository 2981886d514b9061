/*
 * lines: a file of /proc line by line, without malloc: the daemon reads such files while its device is swap space.
 *
 *   struct lines lines;
 *   char line[LINES_MAX];
 *
 *   lines_open(&lines, "/proc/swaps");
 *   while (lines_next(&lines, line))
 *           ...
 *   lines_close(&lines);
 *
 * Threads: the caller's.
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

/* -errno: it cannot be opened; it then has no lines. */
int lines_open(struct lines *lines, const char *path);
/* The next line without its end, cut off where it is too long; false, and an empty one, when there is none. */
bool lines_next(struct lines *lines, char ret_line[LINES_MAX]);
void lines_close(struct lines *lines);

#endif

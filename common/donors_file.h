/*
 * donors_file: reads a donors file. Each line names one donor by its URI. "#" begins a comment. Blank lines are allowed.
 *
 * The text and its donors are bounded, and nothing is allocated: the thread that follows a donors file
 * (client/donor/donors_list.h) may be a near thread.
 *
 * Threads: any.
 */
#ifndef COMMON_DONORS_FILE_H
#define COMMON_DONORS_FILE_H

#include <stddef.h>

#define DONORS_FILE_DONORS 64u
#define DONORS_FILE_BYTES 32768u

struct donors_file {
	const char *uris[DONORS_FILE_DONORS]; /* they point into `text` */
	unsigned lines[DONORS_FILE_DONORS];   /* the line of each donor, from 1 */
	unsigned count;
	char text[DONORS_FILE_BYTES + 2]; /* room to see that a file is too large */
};

/* Reads the file. Returns 0, or -EINVAL or the error of reading it. An error is logged in one line, which names the
   file, the line, the mistake and the next step. */
int donors_file_read(const char *path, struct donors_file *ret_file);
/* Does the same with file->text, which has @length bytes and a zero byte behind them. @path is for the log. */
int donors_file_parse(struct donors_file *file, const char *path, size_t length);

#endif

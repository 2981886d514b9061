/*
 * donors_file: reads a donors file. Each line has one donor's URI. "#" begins a comment. Lines may be blank.
 *
 * The thread that watches the file for changes (client/donor/donors_list.h) may be a near thread (format.h), which
 * must not call malloc(). So the struct has space for the largest allowed file.
 *
 * Threads: any.
 */
#ifndef COMMON_DONORS_FILE_H
#define COMMON_DONORS_FILE_H

#include <stddef.h>

#define DONORS_FILE_DONORS 1024u
#define DONORS_FILE_BYTES 131072u

struct donors_file {
	const char *uris[DONORS_FILE_DONORS];
	unsigned lines[DONORS_FILE_DONORS];
	unsigned count;
	size_t length;                    /* the used bytes of `text` */
	char text[DONORS_FILE_BYTES + 2]; /* more than the limit, so that a larger file is noticed */
};

/* Returns 0, -EINVAL, or -errno of reading the file. An error is logged in one line: the file, the line, the mistake,
   and what to do. */
int donors_file_read(const char *path, struct donors_file *ret_file);
/* Does the same with the text in file->text, which has @length bytes and then a zero byte. @path is for the log. */
int donors_file_parse(struct donors_file *file, const char *path, size_t length);

#endif

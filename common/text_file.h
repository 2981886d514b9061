/*
 * text_file: reads and writes small files as a whole, above all in /proc and /sys, without malloc.
 *
 * Threads: any.
 */
#ifndef COMMON_TEXT_FILE_H
#define COMMON_TEXT_FILE_H
#include <stddef.h>
#include <sys/types.h>

/* Reads at most @size - 1 bytes from the beginning and appends a zero byte. Returns the number of bytes, or -errno.
   On error the text is empty. */
ssize_t text_file_read(const char *path, char *ret_text, size_t size);
/* Writes @text with one write(2) into an existing file, as kernel settings need it. Returns 0 or -errno. */
int text_file_write(const char *path, const char *text);

#endif

/*
 * text_file: reads and writes small files as a whole, mostly in /proc and /sys. The functions allocate nothing.
 *
 * Threads: any.
 */
#ifndef COMMON_TEXT_FILE_H
#define COMMON_TEXT_FILE_H
#include <stddef.h>
#include <sys/types.h>

/* Reads at most @size - 1 bytes from the beginning of the file, and appends a zero byte. Returns the number of bytes.
   On error, returns -errno and an empty text. */
ssize_t text_file_read(const char *path, char *ret_text, size_t size);
/* Writes @text to an existing file by one write(2), because the kernel's settings require this. Returns 0 or
   -errno. */
int text_file_write(const char *path, const char *text);

#endif

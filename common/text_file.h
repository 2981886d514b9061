/*
 * text_file: small files whole, those of /proc and /sys above all, without malloc.
 *
 * Threads: any.
 */
#ifndef COMMON_TEXT_FILE_H
#define COMMON_TEXT_FILE_H
#include <stddef.h>
#include <sys/types.h>

/* Up to @size - 1 bytes from the beginning, 0-terminated: how many; or -errno, and an empty text. */
ssize_t text_file_read(const char *path, char *ret_text, size_t size);
/* Writes @text at once into a file that there is: what the kernel takes as one setting. 0 or -errno. */
int text_file_write(const char *path, const char *text);

#endif

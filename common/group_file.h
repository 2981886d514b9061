/*
 * group_file: reads and writes the files of a control group. Allocates nothing.
 *
 * Threads: any.
 */
#ifndef COMMON_GROUP_FILE_H
#define COMMON_GROUP_FILE_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

/* Writes "FOLDER/FILE". Returns 0 or -ENAMETOOLONG. */
int group_file_path(const char *folder, const char *file, char ret_path[PATH_MAX]);
/* Does the same as text_file_read(). */
ssize_t group_file_read(const char *folder, const char *file, char *ret_text, size_t size);
/* Reads the number after the first @word, which may be empty, in the first 4 KiB of the file. It is UINT64_MAX for
   "max". Returns 0, -EINVAL if there is none, or another -errno. */
int group_file_number(const char *folder, const char *file, const char *word, uint64_t *ret_number);
/* Does the same as text_file_write(). */
int group_file_write(const char *folder, const char *file, const char *text);
int group_file_write_number(const char *folder, const char *file, uint64_t number);

#endif

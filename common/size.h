/* size: sizes as people write them: "4096", "64M", "2G", "1.5G", "1T" (powers of 1024; also "64MiB", "64m"). */
#ifndef COMMON_SIZE_H
#define COMMON_SIZE_H
#include <stddef.h>
#include <stdint.h>
#define SIZE_TEXT_MAX 16
/*
 * -EINVAL: not a size (empty, negative, trailing characters, a fraction without a unit); -ERANGE: does not fit.
 * "17.3M" is rounded down to whole bytes.
 */
int size_parse(const char *text, uint64_t *ret_bytes);
/* "64M", "1.5G", "17.3M", "4096", "1023M": within 1 %, for people; size_parse() reads it back. Returns @text. */
const char *size_format(uint64_t bytes, char text[SIZE_TEXT_MAX]);
#endif

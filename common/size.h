/* size: parses and formats sizes with units, such as "4096", "64M", "1.5G" and "1T". Units are powers of 1024. Also
   accepted are "64m" and "64MiB". */
#ifndef COMMON_SIZE_H
#define COMMON_SIZE_H
#include <stddef.h>
#include <stdint.h>
#define SIZE_TEXT_MAX 16
/* Parses a size. A fraction such as "17.3M" is rounded down to whole bytes. Returns 0, -ERANGE if the size does not
   fit, or -EINVAL if the text is not a size, such as "", "-1", "1Mx" and "1.5" (no unit). */
int size_parse(const char *text, uint64_t *ret_bytes);
/* Formats a size, exact to 1 %, such as "64M", "17.3M", "4096" and "1023M". size_parse() can read the text. Returns
   @text. */
const char *size_format(uint64_t bytes, char text[SIZE_TEXT_MAX]);
#endif

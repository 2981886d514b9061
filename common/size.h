/* size: parses and formats sizes with units: "4096", "64M", "2G", "1.5G", "1T" (powers of 1024; also "64MiB",
   "64m"). */
#ifndef COMMON_SIZE_H
#define COMMON_SIZE_H
#include <stddef.h>
#include <stdint.h>
#define SIZE_TEXT_MAX 16
/* Parses a size. A fraction such as "17.3M" is rounded down to whole bytes. Returns 0, -ERANGE if the size does not
   fit, or -EINVAL if the text is no size (empty, negative, trailing characters, a fraction without a unit). */
int size_parse(const char *text, uint64_t *ret_bytes);
/* Formats a size for people, exact to 1 %: "64M", "1.5G", "17.3M", "4096", "1023M". size_parse() can read it. Returns
   @text. */
const char *size_format(uint64_t bytes, char text[SIZE_TEXT_MAX]);
#endif

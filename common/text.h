/* text: builds a string piece by piece in a buffer of fixed size, by printf(3). Threads: any, except near threads,
   which must not call printf(3) (format.h). */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H
#include <stdbool.h>
#include <stddef.h>
/* A string in a buffer of the caller. The caller sets `at` and `size` (> 0) first. */
struct text {
	char *at;
	size_t size, length;
	bool cut;
};
/* Appends to the string. Leaves out the part that does not fit. */
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif

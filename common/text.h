/* text: builds a string piece by piece in a buffer of fixed size, by printf(3). Any thread, but no near thread. */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H
#include <stdbool.h>
#include <stddef.h>
/* The text so far. Begins with its buffer and the buffer's size in bytes, which is not 0. */
struct text {
	char *at;
	size_t size, length;
	bool cut; /* something did not fit */
};
/* Appends to the text, which stays a string. Leaves out what does not fit. */
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif

/* text: see text.h. */
#include "common/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

void text_add(struct text *text, const char *format, ...)
{
	const size_t room = text->size - text->length;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text->at + text->length, room, format, arguments);
	va_end(arguments);
	assert(length >= 0);
	text->cut |= (size_t)length >= room;
	text->length += (size_t)length < room ? (size_t)length : room - 1;
}

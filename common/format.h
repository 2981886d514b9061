/*
 * format: text from a format and its arguments, for every thread of farpage, near threads (docs/architecture.md)
 * above all. The C library's printf family must not run there: it reads tables that a program can register
 * (register_printf_modifier(3); libquadmath does so) and the locale that the program has set, and both may lie in far
 * memory. These functions read nothing but their arguments, allocate nothing, and keep errno.
 *
 * Conversions: %s %c %d %i %u %x %p %f %g %m %%; flags "0", "-" and "#"; a width; a precision, also as ".*"; lengths
 * hh, h, l, ll, z, j and t. They write what printf(3) writes in the C locale, with these exceptions: %g writes no
 * exponent, and %f and %g are exact to 15 digits, with 9 behind the point at most. Any other conversion is a mistake
 * of ours: the text ends there, in "%?".
 *
 * Threads: any.
 */
#ifndef COMMON_FORMAT_H
#define COMMON_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

/* Writes the text to @text, of @size bytes, cut if it is longer, and always ended by a zero byte if @size > 0. Returns
   the length of the whole text, like snprintf(3): from @size on it was cut. */
size_t format_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t format_list(char *text, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

/* Describes an errno value, positive or negative, in English: a constant text. */
const char *error_text(int error);

#endif

/*
 * format: printf-like formatting for every thread of farpage, above all for near threads (docs/architecture.md). The C
 * library's printf family must not run in near threads. It reads tables that a program can register
 * (register_printf_modifier(3), which libquadmath uses) and the program's locale. Both may lie in far memory. The
 * functions here read only their arguments, allocate nothing, and keep errno.
 *
 * Supported:
 *   - conversions %s %c %d %i %u %x %p %f %g %m %%
 *   - flags "0", "-" and "#"
 *   - a width, and a precision, also as ".*"
 *   - lengths hh, h, l, ll, z, j and t
 *
 * The output equals that of printf(3) in the C locale, with these exceptions:
 *   - %g writes no exponent
 *   - %f and %g are exact to 15 digits, with at most 9 digits after the point
 *   - %f and %g write "inf" for numbers from 1e18 on
 *   - any other conversion is a bug of ours, and the text ends there with "%?"
 *
 * Threads: any.
 */
#ifndef COMMON_FORMAT_H
#define COMMON_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

/* Formats into @text, which has @size bytes. A longer text is cut. If @size > 0, the text always ends with a zero byte.
   Returns the length of the uncut text, like snprintf(3). */
size_t format_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t format_list(char *text, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

/* Returns the English description of an errno value, positive or negative. The text is constant. */
const char *format_errno(int error);

#endif

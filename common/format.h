/*
 * format: formats text like printf(3), for all threads of farpage.
 *
 * A thread is near while it runs farpage's code inside a program under the preload library (pager/preload/preload.h). A
 * near thread must not touch far memory, because it may be the thread that must answer the page fault. Therefore, it
 * must not call printf(3) and its variants. These functions read the program's locale, and tables that a program can
 * register (register_printf_modifier(3), used by libquadmath). Both may lie in far memory. The functions here read only
 * their arguments, allocate nothing, and do not change errno.
 *
 * Supported:
 *
 * - conversions %s %c %d %i %u %x %p %f %g %m %%
 * - flags "0", "-" and "#"
 * - a width, and a precision, also as ".*"
 * - lengths hh, h, l, ll, z, j and t
 *
 * The output is that of printf(3) in the C locale, except:
 *
 * - %g writes no exponent.
 * - %f and %g are exact to 15 digits, with at most 9 digits after the point.
 * - %f and %g write "inf" for numbers from 1e18 on.
 * - Any other conversion is a bug of the caller. The text then ends with "%?".
 *
 * Threads: any.
 */
#ifndef COMMON_FORMAT_H
#define COMMON_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

/* Writes to @text, which has @size bytes. A text that does not fit is cut. If @size > 0, the text ends with a zero
   byte. Returns the length that the whole text has, like snprintf(3). */
size_t format_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t format_list(char *text, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

/* Returns the English description of an errno value, which may be positive or negative. The string is constant. */
const char *format_errno(int error);

#endif

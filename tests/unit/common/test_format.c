/*
 * format: writes the same texts as printf, cut where there is no more room. Error numbers have names. The module uses
 * neither the C library's printf nor anything that a program can change.
 */
#include "common/format.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>

static char ours[256], theirs[256];

/* Checks that format_text() and snprintf() write the same text and return the same length. */
#define SAME(name, ...)                                                                                                \
	do {                                                                                                           \
		errno = ENOENT;                                                                                        \
		size_t length = format_text(ours, sizeof ours, __VA_ARGS__);                                           \
		errno = ENOENT;                                                                                        \
		int wanted = snprintf(theirs, sizeof theirs, __VA_ARGS__);                                             \
		ok(length == (size_t)wanted && !strcmp(ours, theirs), "%s is written as by printf: \"%s\" is \"%s\"",  \
		   name, ours, theirs);                                                                                \
	} while (0)

static void numbers_are_as_printf_writes_them(void)
{
	SAME("an int", "%d %d %i", 0, INT_MIN, INT_MAX);
	SAME("an unsigned int", "%u %u", 0u, UINT_MAX);
	SAME("a long", "%ld %lu %lld %llu", LONG_MIN, ULONG_MAX, LLONG_MAX, ULLONG_MAX);
	SAME("a size", "%zu %zd", SIZE_MAX, (ssize_t)-1);
	SAME("a number of fixed size", "%" PRIu64 " %" PRId64 " %" PRIx64, UINT64_MAX, INT64_MIN, UINT64_MAX);
	SAME("a small number", "%hhu %hu %hd", (unsigned char)200, (unsigned short)40000, (short)-3);
	SAME("a hexadecimal number", "%x %#x %#x %08x %02x", 0xbeefu, 0xbeefu, 0u, 0xbeefu, 7u);
	SAME("a number with a width", "[%5d] [%-5d] [%05d] [%05d] [%*d]", 42, 42, 42, -42, 6, 42);
	SAME("a number with a precision", "[%.3d] [%6.3u] [%.0d]", 7, 7u, 0);
	SAME("a pointer", "%p", (void *)0x7f0012345678);
}

static void texts_are_as_printf_writes_them(void)
{
	SAME("a text", "%s|%10s|%-10s|%.3s|%.*s", "abc", "abc", "abc", "abcdef", 2, "abcdef");
	SAME("a text longer than its width", "%2s", "abcdef");
	SAME("a character", "%c%3c%-3c|", 'x', 'y', 'z');
	SAME("a percent sign", "100%%");
	SAME("an errno", "opening: %m");
	const char *volatile none = NULL; /* volatile, because the compiler would refuse a NULL constant */
	format_text(ours, sizeof ours, "%s", none);
	ok(!strcmp(ours, "(null)"), "a NULL text is written as \"(null)\"");
}

static void fractions_are_as_printf_writes_them(void)
{
	SAME("a fraction", "%.1f %.0f %.3f %f %.2f", 0.25000001, 2.4, 1234.5678, 1.0 / 3, -1.005001);
	SAME("a fraction that rounds up", "%.1f %.2f %.3g", 0.96, 9.999, 99.96);
	SAME("a number of significant digits", "%.3g %.3g %.3g %.3g %.3g %.3g %.3g", 0.0, 5.0, 0.0312, 1.234, 12.34,
	     123.4, 0.5);
	format_text(ours, sizeof ours, "%.3g", 4321.0);
	ok(!strcmp(ours, "4321"), "a number of four digits has no exponent under %%.3g (\"%s\")", ours);
	format_text(ours, sizeof ours, "%.1f %.1f", __builtin_inf(), __builtin_nan(""));
	ok(!strcmp(ours, "inf nan"), "infinity and NaN are written as words (\"%s\")", ours);
}

static void long_texts_are_cut(void)
{
	char small[8] = "xxxxxxx", none = 'x';

	ok(format_text(small, sizeof small, "%s", "0123456789") == 10 && !strcmp(small, "0123456"),
	   "an overlong text is cut, and its full length is returned");
	ok(format_text(small, sizeof small, "%u", 1234567u) == 7 && !strcmp(small, "1234567"),
	   "a text that just fits is not cut");
	ok(format_text(&none, 0, "%u", 1234567u) == 7 && none == 'x', "a buffer of 0 bytes is left untouched");
	ok(format_text(&none, 1, "%u", 1u) == 1 && none == '\0', "a buffer of one byte takes the terminating zero");
}

static void errors_have_names(void)
{
	ok(!strcmp(format_errno(ENOENT), strerror(ENOENT)) && !strcmp(format_errno(-ECONNRESET), strerror(ECONNRESET)),
	   "error numbers have the C library's names, whatever their sign");
	ok(!strcmp(format_errno(123456), "unknown error"), "an unknown error number is named \"unknown error\"");
}

static void unknown_conversions_end_the_text(void)
{
	static const char format[] = "at %q end";

	const char *volatile hidden = format; /* volatile, because the compiler would refuse the format */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
	format_text(ours, sizeof ours, hidden);
#pragma GCC diagnostic pop
	ok(!strcmp(ours, "at %?"), "an unknown conversion ends the text (\"%s\")", ours);
}

int main(void)
{
	numbers_are_as_printf_writes_them();
	texts_are_as_printf_writes_them();
	fractions_are_as_printf_writes_them();
	long_texts_are_cut();
	errors_have_names();
	unknown_conversions_end_the_text();
	return tap_done();
}

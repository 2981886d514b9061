/* format: see format.h. */
#include "common/format.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define DIGITS_MAX 32 /* more than a 64-bit number has in base 10 or 16 */
#define FRACTION_MAX 9

/* Characters that do not fit are counted, but not stored. */
struct output {
	char *text;
	size_t size, length;
};

/* One parsed conversion, such as "%-08.3lx". */
struct conversion {
	bool left, zeroes, prefix;
	int width, precision; /* precision is negative if none is given */
	unsigned longs;
	unsigned halves;
	char kind;
};

static void put(struct output *output, char one)
{
	if (output->length + 1 < output->size)
		output->text[output->length] = one;
	output->length++;
}

static void put_many(struct output *output, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		put(output, text[i]);
}

static void put_times(struct output *output, char one, int times)
{
	for (int i = 0; i < times; i++)
		put(output, one);
}

/* Writes @sign ("", "-" or "0x") and @body, padded to c->width. Zeroes are put between the two, blanks around
   them. */
static void put_field(struct output *output, const struct conversion *c, const char *sign, const char *body,
		      size_t length)
{
	int pad = c->width - (int)(strlen(sign) + length);

	if (!c->left && !c->zeroes)
		put_times(output, ' ', pad);
	put_many(output, sign, strlen(sign));
	if (!c->left && c->zeroes)
		put_times(output, '0', pad);
	put_many(output, body, length);
	if (c->left)
		put_times(output, ' ', pad);
}

/* --- Numbers ---------------------------------------------------------------------------------------------------- */

/* Writes at least @least digits of @value to the end of @digits. Returns a pointer to the first digit. */
static char *digits_of(uint64_t value, unsigned base, int least, char digits[DIGITS_MAX])
{
	char *at = digits + DIGITS_MAX;

	if (least > DIGITS_MAX)
		least = DIGITS_MAX;
	for (; value || digits + DIGITS_MAX - at < least; value /= base)
		*--at = "0123456789abcdef"[value % base];
	return at;
}

static void put_number(struct output *output, struct conversion c, const char *sign, uint64_t value, unsigned base)
{
	char digits[DIGITS_MAX];
	char *first = digits_of(value, base, c.precision < 0 ? 1 : c.precision, digits);

	if (c.precision >= 0)
		c.zeroes = false;
	put_field(output, &c, sign, first, (size_t)(digits + DIGITS_MAX - first));
}

static uint64_t power_of_ten(int exponent)
{
	uint64_t power = 1;

	while (exponent-- > 0)
		power *= 10;
	return power;
}

static void put_decimal(struct output *output, const struct conversion *c, const char *sign, double value, int fraction,
			bool strip)
{
	/* Rounds once, at the last digit that is written. Exactly half a unit is rounded up, as everywhere in
	   farpage. */
	uint64_t scale = power_of_ten(fraction), scaled = (uint64_t)(value * (double)scale + 0.5);
	char digits[DIGITS_MAX], body[2 * DIGITS_MAX];
	char *first = digits_of(scaled / scale, 10, 1, digits);
	size_t length = (size_t)(digits + DIGITS_MAX - first);

	memcpy(body, first, length);
	if (fraction) {
		body[length++] = '.';
		first = digits_of(scaled % scale, 10, fraction, digits);
		memcpy(body + length, first, (size_t)fraction);
		length += (size_t)fraction;
		while (strip && body[length - 1] == '0')
			length--;
		length -= strip && body[length - 1] == '.';
	}
	put_field(output, c, sign, body, length);
}

static void put_double(struct output *output, const struct conversion *c, double value)
{
	const char *sign = __builtin_signbit(value) ? "-" : "";
	double size = __builtin_fabs(value);
	int precision = c->precision < 0 ? 6 : c->precision, fraction = precision;

	if (__builtin_isnan(value) || size >= 1e18) {
		put_field(output, &(struct conversion){.width = c->width, .left = c->left}, sign,
			  __builtin_isnan(value) ? "nan" : "inf", 3);
		return;
	}
	if (c->kind == 'g') {
		/* The precision of %g is the number of digits from the first digit that is not 0. */
		fraction = precision ? precision - 1 : 0;
		for (double at = size; at >= 9.9999999 && fraction > 0; at /= 10)
			fraction--;
		for (double at = size; at && at < 0.99999999 && fraction < FRACTION_MAX; at *= 10)
			fraction++;
	}
	if (fraction > FRACTION_MAX)
		fraction = FRACTION_MAX;
	while (fraction > 0 && size * (double)power_of_ten(fraction) >= 1e18)
		fraction--;
	put_decimal(output, c, sign, size, fraction, c->kind == 'g');
}

/* --- Conversions ------------------------------------------------------------------------------------------------ */

static int number_at(const char **at, va_list *arguments)
{
	int number = 0;

	if (**at == '*') {
		++*at;
		return va_arg(*arguments, int);
	}
	for (; **at >= '0' && **at <= '9'; ++*at)
		number = number > 9999 ? number : number * 10 + (**at - '0');
	return number;
}

/* Parses the conversion whose '%' is just before @at. Returns the position after it. */
static const char *conversion_read(const char *at, va_list *arguments, struct conversion *c)
{
	*c = (struct conversion){.precision = -1};
	for (;; at++) {
		c->left |= *at == '-';
		c->zeroes |= *at == '0';
		c->prefix |= *at == '#';
		if (*at != '-' && *at != '0' && *at != '#')
			break;
	}
	c->width = number_at(&at, arguments);
	if (c->width < 0) {
		c->left = true;
		c->width = -c->width;
	}
	if (*at == '.') {
		at++;
		c->precision = number_at(&at, arguments);
	}
	for (; *at == 'l' || *at == 'z' || *at == 'j' || *at == 't' || *at == 'h'; at++) {
		if (*at == 'h')
			c->halves++;
		else
			c->longs++;
	}
	c->kind = *at;
	return *at ? at + 1 : at;
}

_Static_assert(sizeof(long) == sizeof(long long) && sizeof(long) == sizeof(size_t), "one length for all that is long");

static void put_signed(struct output *output, const struct conversion *c, va_list *arguments)
{
	int64_t value = c->longs ? va_arg(*arguments, long) : va_arg(*arguments, int);

	if (c->halves)
		value = c->halves > 1 ? (signed char)value : (short)value;
	put_number(output, *c, value < 0 ? "-" : "", value < 0 ? -(uint64_t)value : (uint64_t)value, 10);
}

static void put_unsigned(struct output *output, const struct conversion *c, va_list *arguments, unsigned base)
{
	uint64_t value = c->longs ? va_arg(*arguments, unsigned long) : va_arg(*arguments, unsigned);

	if (c->halves)
		value = c->halves > 1 ? (unsigned char)value : (unsigned short)value;
	put_number(output, *c, c->prefix && value && base == 16 ? "0x" : "", value, base);
}

static void put_text(struct output *output, const struct conversion *c, const char *text)
{
	struct conversion plain = {.width = c->width, .left = c->left};

	if (!text)
		text = "(null)";
	put_field(output, &plain, "", text, c->precision < 0 ? strlen(text) : strnlen(text, (size_t)c->precision));
}

/* Writes one conversion. Returns false if it is unknown: the caller must stop, because the size of its argument is
   unknown, too. */
static bool put_conversion(struct output *output, const struct conversion *c, int error, va_list *arguments)
{
	char one;

	switch (c->kind) {
	case '%':
		put(output, '%');
		return true;
	case 's':
		put_text(output, c, va_arg(*arguments, const char *));
		return true;
	case 'm':
		put_text(output, c, format_errno(error));
		return true;
	case 'c':
		one = (char)va_arg(*arguments, int);
		put_field(output, &(struct conversion){.width = c->width, .left = c->left}, "", &one, 1);
		return true;
	case 'd':
	case 'i':
		put_signed(output, c, arguments);
		return true;
	case 'u':
		put_unsigned(output, c, arguments, 10);
		return true;
	case 'x':
		put_unsigned(output, c, arguments, 16);
		return true;
	case 'p':
		put_number(output, *c, "0x", (uintptr_t)va_arg(*arguments, void *), 16);
		return true;
	case 'f':
	case 'g':
		put_double(output, c, va_arg(*arguments, double));
		return true;
	default:
		put_many(output, "%?", 2);
		return false;
	}
}

size_t format_list(char *text, size_t size, const char *format, va_list arguments)
{
	struct output output = {text, size, 0};
	struct conversion conversion;
	int error = errno;
	bool known = true;
	va_list list;

	va_copy(list, arguments);
	while (*format && known) {
		if (*format != '%') {
			put(&output, *format++);
			continue;
		}
		format = conversion_read(format + 1, &list, &conversion);
		known = put_conversion(&output, &conversion, error, &list);
	}
	va_end(list);
	if (size)
		text[output.length < size ? output.length : size - 1] = '\0';
	return output.length;
}

size_t format_text(char *text, size_t size, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	size_t length = format_list(text, size, format, arguments);
	va_end(arguments);
	return length;
}

const char *format_errno(int error)
{
	/* Reads glibc's table of English texts. strerror(3) would translate the text, and allocate memory for
	   that. */
	const char *text = strerrordesc_np(error < 0 ? -error : error);

	return text ? text : "unknown error";
}

/* size: see size.h. */
#include "common/size.h"

#include "common/ascii.h"
#include "common/format.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const char units[] = "kmgtpe"; /* 1024^1, 1024^2, ... */

#define FRACTION_DIGITS_MAX 18 /* so that 10^18 x 2^60 fits in 128 bits */

/* Parses the unit at @text, such as "", "M", "m" or "MiB", which must be the end of the text. Returns the exponent of
   its power of two, or -EINVAL. */
static int size_unit_parse(const char *text)
{
	if (!*text)
		return 0;
	const char *unit = strchr(units, ascii_lower(*text));
	if (!unit || (text[1] && (ascii_lower(text[1]) != 'i' || ascii_lower(text[2]) != 'b' || text[3])))
		return -EINVAL;
	return 10 * (int)(unit - units + 1);
}

int size_parse(const char *text, uint64_t *ret_bytes)
{
	uint64_t whole = 0, fraction = 0, scale = 1;
	bool too_large = false;
	const char *at = text;

	if (!ascii_is_digit(*at))
		return -EINVAL;
	for (; ascii_is_digit(*at); at++) {
		too_large |= __builtin_mul_overflow(whole, 10u, &whole);
		too_large |= __builtin_add_overflow(whole, (unsigned)(*at - '0'), &whole);
	}
	bool has_fraction = *at == '.';
	if (has_fraction) {
		const char *first = ++at;

		for (; ascii_is_digit(*at); at++, scale *= 10) {
			if (at - first == FRACTION_DIGITS_MAX)
				return -EINVAL;
			fraction = fraction * 10 + (unsigned)(*at - '0');
		}
		if (at == first)
			return -EINVAL;
	}
	int shift = size_unit_parse(at);
	if (shift < 0 || (has_fraction && !shift))
		return -EINVAL;
	if (too_large || whole > UINT64_MAX >> shift)
		return -ERANGE;
	/* This addition cannot overflow: the fraction is less than one unit, and (whole << shift) is at least one
	   unit below 2^64. */
	*ret_bytes = (whole << shift) + (uint64_t)(((unsigned __int128)fraction << shift) / scale);
	return 0;
}

const char *size_format(uint64_t bytes, char text[SIZE_TEXT_MAX])
{
	if (bytes < 10000) {
		format_text(text, SIZE_TEXT_MAX, "%u", (unsigned)bytes);
		return text;
	}
	unsigned unit = 0;
	while (unit < 5 && bytes >> (10 * (unit + 2)))
		unit++;
	unsigned shift = 10 * (unit + 1);
	unsigned __int128 half = (unsigned __int128)1 << (shift - 1);
	unsigned tenths = (unsigned)(((unsigned __int128)bytes * 10 + half) >> shift);
	if (tenths >= 1000)
		tenths = (unsigned)(((unsigned __int128)bytes + half) >> shift) * 10;
	if (tenths == 10240 && unit < 5) { /* rounded up to 1024.0: write 1 of the next unit instead */
		tenths = 10;
		unit++;
	}
	if (tenths % 10)
		format_text(text, SIZE_TEXT_MAX, "%u.%u%c", tenths / 10, tenths % 10, units[unit] - 'a' + 'A');
	else
		format_text(text, SIZE_TEXT_MAX, "%u%c", tenths / 10, units[unit] - 'a' + 'A');
	return text;
}

/*
 * ascii: classifies characters and parses numbers of ASCII text. ctype.h and strtol(3) must not be used in near
 * threads (format.h), because they read the program's locale, which may lie in far memory.
 *
 * Threads: any.
 */
#ifndef COMMON_ASCII_H
#define COMMON_ASCII_H

#include <stdbool.h>
#include <stdint.h>

static inline bool ascii_is_digit(char one)
{
	return one >= '0' && one <= '9';
}

static inline char ascii_lower(char one)
{
	return one >= 'A' && one <= 'Z' ? (char)(one - 'A' + 'a') : one;
}

static inline bool ascii_is_letter(char one)
{
	return ascii_lower(one) >= 'a' && ascii_lower(one) <= 'z';
}

/* Parses the digits at *@at, and moves *@at past them. Returns 0 if there is no digit, or UINT64_MAX if the number does
   not fit. */
static inline uint64_t ascii_number(const char **at)
{
	uint64_t number = 0;

	for (; ascii_is_digit(**at); ++*at)
		if (__builtin_mul_overflow(number, 10u, &number) ||
		    __builtin_add_overflow(number, (unsigned)(**at - '0'), &number))
			number = UINT64_MAX;
	return number;
}

#endif

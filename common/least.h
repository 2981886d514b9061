/* least: the smaller one of two numbers. Any thread. */
#ifndef COMMON_LEAST_H
#define COMMON_LEAST_H

#include <stdint.h>

static inline uint64_t least(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

#endif

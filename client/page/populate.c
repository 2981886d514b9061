/* populate: see populate.h. */
#include "client/page/populate.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* For Linux before 5.14, which lacks MADV_POPULATE_WRITE. The atomic OR with 0 writes each page without changing
   it, even if another thread writes the same byte. */
static void range_touch(uint8_t *first, const uint8_t *end, size_t page)
{
	for (; first < end; first += page)
		atomic_fetch_or((_Atomic uint8_t *)first, 0);
}

int populate_range(void *base, size_t length)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *first = (uint8_t *)base - (uintptr_t)base % page, *end = (uint8_t *)base + length;

	if (!length)
		return 0;
	while (madvise(first, (size_t)(end - first), MADV_POPULATE_WRITE) < 0) {
		if (errno == EINVAL) {
			range_touch(first, end, page);
			return 0;
		}
		if (errno != EINTR)
			return -ENOMEM;
	}
	return 0;
}

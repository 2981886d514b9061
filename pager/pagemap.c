#include "pager/pagemap.h"

#include "client/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)
#define PROTECTED (UINT64_C(1) << 57)

int pagemap_open(void)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	return pagemap < 0 ? -errno : pagemap;
}

/* Reads the pages' entries. Returns 0 or -EIO. */
static int read_entries(int pagemap, const void *address, unsigned count, uint64_t *ret_entries)
{
	size_t size = count * sizeof *ret_entries;
	off_t offset = (off_t)((uintptr_t)address / STORE_PAGE * sizeof *ret_entries);

	return pread(pagemap, ret_entries, size, offset) == (ssize_t)size ? 0 : -EIO;
}

int pagemap_present(int pagemap, const void *address, unsigned count, bool *ret_present)
{
	uint64_t entries[PAGEMAP_MAX];

	if (read_entries(pagemap, address, count, entries) < 0)
		return -EIO;
	for (unsigned i = 0; i < count; i++)
		ret_present[i] = entries[i] & (PRESENT | SWAPPED);
	return 0;
}

int pagemap_protected(int pagemap, const void *address, unsigned count, bool *ret_protected)
{
	uint64_t entries[PAGEMAP_MAX];

	if (read_entries(pagemap, address, count, entries) < 0)
		return -EIO;
	for (unsigned i = 0; i < count; i++)
		ret_protected[i] = (entries[i] & PRESENT) && (entries[i] & PROTECTED);
	return 0;
}

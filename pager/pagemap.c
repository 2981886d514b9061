#include "pager/pagemap.h"

#include "client/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

int pagemap_open(void)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	return pagemap < 0 ? -errno : pagemap;
}

int pagemap_present(int pagemap, const void *address, unsigned count, bool *ret_present)
{
	uint64_t entries[PAGEMAP_MAX];
	size_t size = count * sizeof entries[0];
	off_t offset = (off_t)((uintptr_t)address / STORE_PAGE * sizeof entries[0]);

	if (pread(pagemap, entries, size, offset) != (ssize_t)size)
		return -EIO;
	for (unsigned i = 0; i < count; i++)
		ret_present[i] = entries[i] >> 62; /* bit 63: present, bit 62: swapped */
	return 0;
}

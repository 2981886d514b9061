/* far_buffer: see far_buffer.h. */
#include "client/io/far_buffer.h"

#include <errno.h>
#include <sys/mman.h>

int far_buffer_open(struct far *far, size_t bytes, uint8_t **ret_memory, struct fabric_region **ret_region)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int error;

	if (memory == MAP_FAILED)
		return -ENOMEM;
	error = fabric_register(far->domain, memory, bytes, FABRIC_LOCAL, ret_region);
	if (error < 0) {
		munmap(memory, bytes);
		return error;
	}
	madvise(memory, bytes, MADV_DONTFORK);
	*ret_memory = memory;
	return 0;
}

void far_buffer_close(uint8_t *memory, size_t bytes, struct fabric_region *region)
{
	fabric_deregister(region);
	munmap(memory, bytes);
}

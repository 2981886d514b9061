/* The program drops memory by a bare system call, which farpage does not see. Such memory reads as zeroes. */
#include "victim.h"

#include <sys/syscall.h>

#define PART MB

int main(void)
{
	size_t size = victim_size();
	char *memory = map_memory(size);

	fill(memory, size, 1);
	char *here = memory + size - PART; /* this part is filled last, so it is still resident */
	ok(syscall(SYS_madvise, here, PART, MADV_DONTNEED) == 0, "a bare madvise system call drops resident memory");
	ok(not_zero(here, PART) == 0, "memory dropped by a bare system call reads as zeroes");
	fill(here, PART, 2);
	fill(memory, size - PART, 3);
	ok(wrong(here, PART, 2, 0) == 0 && wrong(memory, size - PART, 3, 0) == 0,
	   "memory written after the drop keeps its contents");
	return tap_done();
}

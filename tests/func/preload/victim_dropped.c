/* Memory that is dropped by a system call of the program's own, which farpage does not see: it reads as zeroes. */
#include "victim.h"
#include <sys/syscall.h>

#define PART MB

int main(void)
{
	size_t size = victim_size();
	char *memory = map_memory(size);
	fill(memory, size, 1);
	char *here = memory + size - PART; /* filled last: on this machine */
	ok(syscall(SYS_madvise, here, PART, MADV_DONTNEED) == 0, "memory is dropped behind farpage's back");
	ok(not_zero(here, PART) == 0, "it reads as zeroes");
	fill(here, PART, 2);
	fill(memory, size - PART, 3);
	ok(wrong(here, PART, 2, 0) == 0 && wrong(memory, size - PART, 3, 0) == 0,
	   "what is written afterwards is there");
	return tap_done();
}

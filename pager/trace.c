#include "pager/trace.h"

#ifdef FARPAGE_TRACE
#include "common/log.h"
#include "pager/anomaly.h"

#include <errno.h>
#include <sys/mman.h>
#include <xxhash.h>

/* For each page, the hash with which it left the program, or 0 if it reads as zeroes. A process has one pager. */
static uint64_t *hashes;

uint64_t trace_hash(const char *data)
{
	static const char zeroes[STORE_PAGE];
	static uint64_t of_zeroes;

	if (!of_zeroes)
		of_zeroes = XXH3_64bits(zeroes, STORE_PAGE);
	uint64_t hash = XXH3_64bits(data, STORE_PAGE);
	return hash == of_zeroes ? 0 : hash;
}

int trace_open(uint64_t count)
{
	void *memory = mmap(NULL, count * sizeof *hashes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -ENOMEM;
	hashes = memory;
	return 0;
}

void trace_left(uint64_t page, const char *data)
{
	hashes[page] = data ? trace_hash(data) : 0;
}

void trace_compare(struct core *core, uint64_t page, const char *data, const char *what)
{
	if (hashes[page] != trace_hash(data))
		anomaly_stop(core, page, what);
}

void trace_uncounted(unsigned count)
{
	if (count)
		log_warning("the kernel has moved %u pages and not counted them", count);
}
#endif

/* populate: populated memory is present and keeps its contents. A range that cannot be populated is an error. */
#include "client/page/populate.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGES 64u

static long faults_now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt;
}

/* Not instrumented, because a sanitizer takes page faults of its own. */
__attribute__((noinline, no_sanitize("address", "thread"))) static void write_each(volatile uint8_t *bytes, size_t page)
{
	for (unsigned i = 0; i < PAGES; i++)
		bytes[i * page] = 1;
}

static long blocks_of(int fd)
{
	struct stat status;

	fstat(fd, &status);
	return status.st_blocks;
}

int main(void)
{
	size_t page = (size_t)getpagesize(), length = PAGES * page;
	int fd = memfd_create("populate", MFD_CLOEXEC);
	volatile uint8_t *bytes;
	long before;

	if (ftruncate(fd, (off_t)(2 * length)) < 0)
		return EXIT_FAILURE;
	bytes = mmap(NULL, 2 * length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	bytes[3 * page] = 7;
	ok(populate_range((uint8_t *)bytes + page / 2, length - page) == 0,
	   "populate_range() populates a part of a file");
	ok(bytes[3 * page] == 7 && bytes[4 * page] == 0, "populated memory keeps its contents");
	ok(blocks_of(fd) == (long)(length / 512),
	   "populate_range() populates whole pages from the first to the last, and no more");
	before = faults_now();
	write_each(bytes, page);
	ok(faults_now() == before, "a write to populated memory takes no page fault");
	ok(populate_range((void *)bytes, 0) == 0, "an empty range is populated successfully");
	/* Memory that is mapped beyond the end of a file cannot be populated. */
	if (ftruncate(fd, (off_t)length) < 0)
		return EXIT_FAILURE;
	ok(populate_range((uint8_t *)bytes + length, page) == -ENOMEM,
	   "populating beyond the end of the file returns -ENOMEM");
	munmap((void *)bytes, 2 * length);
	close(fd);
	return tap_done();
}

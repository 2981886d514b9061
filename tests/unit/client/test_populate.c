/* populate: memory is there, keeps what is in it, and a file that is full is an error. */
#include "client/page/populate.h"
#include "tests/tap.h"

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

/* A sanitizer would take page faults of its own. */
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
	ok(populate_range((uint8_t *)bytes + page / 2, length - page) == 0, "a part of a file is populated");
	ok(bytes[3 * page] == 7 && bytes[4 * page] == 0, "and reads as before");
	ok(blocks_of(fd) == (long)(length / 512), "from the page it begins in to the one it ends in, and no more");
	before = faults_now();
	write_each(bytes, page);
	ok(faults_now() == before, "nobody takes a page fault there any more");
	ok(populate_range((void *)bytes, 0) == 0, "nothing is populated with nothing");
	/* What is mapped beyond a file's end can never be there. */
	if (ftruncate(fd, (off_t)length) < 0)
		return EXIT_FAILURE;
	ok(populate_range((uint8_t *)bytes + length, page) == -ENOMEM, "where there is no room that is said");
	munmap((void *)bytes, 2 * length);
	close(fd);
	return tap_done();
}

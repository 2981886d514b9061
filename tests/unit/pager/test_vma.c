/* vma and pagemap: mappings, as the kernel answers a query, and as read from the text on kernels without the query;
   and which pages have contents. */
#include "pager/pagemap.h"
#include "pager/vma.h"
#include "tests/lib/tap.h"
#include "wrap_ioctl.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* While this is true, ioctl(2) answers as before Linux 6.11. */
static bool without_query;

int ioctl_call(int fd, unsigned long request, void *argument)
{
	if (!without_query)
		return __real_ioctl(fd, request, argument);
	errno = ENOTTY;
	return -1;
}

static const char text[] = "55d0a0000000-55d0a0002000 r-xp 00000000 fe:01 1234    /usr/bin/a program\n"
			   "7f00deadb000-7f00deadd000 rw-p 00000000 00:00 0\n"
			   "7f00deadd000-7f00deade000 ---s 00000000 00:00 0\n";

static void the_kernel_describes_a_mapping(void)
{
	struct vma vma;
	int fd = vma_open();
	char *memory = mmap(NULL, 4 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(memory + 4096, 2 * 4096, PROT_READ);
	ok(vma_query(fd, memory + 4096 + 5, &vma) == 0 && vma.protection == PROT_READ && !vma.shared,
	   "a read-only mapping is found at any of its addresses");
	ok(vma.end == (uintptr_t)memory + 3 * 4096, "a mapping ends where its protection ends");
	munmap(memory, 4 * 4096);
	ok(vma_query(fd, memory, &vma) == -ENOENT, "an unmapped address gets -ENOENT");
	close(fd);
}

static void the_text_describes_a_mapping(void)
{
	struct vma vma;
	int fd = memfd_create("maps", MFD_CLOEXEC);

	ok(write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1,
	   "a file with the text of three mappings is written");
	ok(vma_query(fd, (void *)0x7f00deadcfff, &vma) == 0 && vma.protection == (PROT_READ | PROT_WRITE) &&
	       vma.end == 0x7f00deadd000 && !vma.shared,
	   "a mapping is found in the text by the address of its last byte");
	ok(vma_query(fd, (void *)0x7f00deadd000, &vma) == 0 && vma.protection == 0 && vma.shared,
	   "a shared mapping without access is found in the text");
	ok(vma_query(fd, (void *)0x55d0a0000000, &vma) == 0 && vma.protection == (PROT_READ | PROT_EXEC),
	   "a mapping of a file is found in the text");
	ok(vma_query(fd, (void *)0x7f00deade000, &vma) == -ENOENT,
	   "an address behind all mappings of the text gets -ENOENT");
	close(fd);
}

/* A kernel without the query has only the text of all mappings, which is more than one read gives. */
static void the_text_says_what_the_kernel_says(void)
{
	enum { MAPPINGS = 400 };
	static const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
	int fd = vma_open();
	char *memory = mmap(NULL, MAPPINGS * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned right = 0;
	for (unsigned i = 0; i < MAPPINGS; i++)
		mprotect(memory + i * 4096, 4096, protections[i % 3]);
	munmap(memory + 100 * 4096, 4096);
	for (unsigned i = 0; i < MAPPINGS; i++) {
		struct vma vma = {0};
		char *address = memory + i * 4096 + 4095;

		without_query = true;
		int error = vma_query(fd, address, &vma);
		without_query = false;
		right += i == 100 ? error == -ENOENT
				  : error == 0 && vma.protection == protections[i % 3] && !vma.shared &&
					(vma.end == (uintptr_t)address + 1 || i == MAPPINGS - 1);
	}
	ok(right == MAPPINGS, "a query of the text finds each of many mappings, and none in a gap (%u of %u)", right,
	   MAPPINGS);
	munmap(memory, MAPPINGS * 4096);
	close(fd);
}

/* --- pagemap ----------------------------------------------------------------------------------------------------- */

static void the_kernel_tells_which_pages_have_contents(void)
{
	static bool present[PAGEMAP_MAX];
	int pagemap = pagemap_open();
	char *memory = mmap(NULL, PAGEMAP_MAX * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(memory, PAGEMAP_MAX * 4096, MADV_NOHUGEPAGE);
	for (unsigned i = 0; i < PAGEMAP_MAX; i += 3)
		memory[i * 4096] = 1;
	munmap(memory + 30 * 4096, 30 * 4096);
	madvise(memory + 90 * 4096, 30 * 4096, MADV_DONTNEED);
	mprotect(memory + 150 * 4096, 30 * 4096, PROT_NONE);
	ok(pagemap_present(pagemap, memory, PAGEMAP_MAX, present) == 0,
	   "a query asks about the most pages that it takes");
	unsigned right = 0;
	for (unsigned i = 0; i < PAGEMAP_MAX; i++) {
		bool gone = (i >= 30 && i < 60) || (i >= 90 && i < 120);

		right += present[i] == (i % 3 == 0 && !gone);
	}
	ok(right == PAGEMAP_MAX,
	   "pages have contents if they were written, and not unmapped or dropped since (%u of %u)", right,
	   PAGEMAP_MAX);
	present[0] = false;
	present[1] = true;
	ok(pagemap_present(pagemap, memory + 3 * 4096, 1, present) == 0 && present[0] && present[1],
	   "a query about one page tells nothing of the next");
	ok(pagemap_present(-1, memory, 1, present) == -EIO, "a query without a descriptor gets -EIO");
	munmap(memory, PAGEMAP_MAX * 4096);
	close(pagemap);
}

int main(void)
{
	the_kernel_describes_a_mapping();
	the_text_describes_a_mapping();
	the_text_says_what_the_kernel_says();
	the_kernel_tells_which_pages_have_contents();
	return tap_done();
}

/* vma: mappings, as the kernel answers a query, and as read from the text on kernels without the query. */
#include "pager/vma.h"
#include "tests/lib/tap.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

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

int main(void)
{
	the_kernel_describes_a_mapping();
	the_text_describes_a_mapping();
	return tap_done();
}

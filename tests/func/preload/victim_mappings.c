/* Mappings: what mmap, munmap, mremap, madvise, mprotect and mlock leave in memory, with most of it elsewhere. */
#include "tests/func/preload/victim.h"
#include <fcntl.h>
#include <sys/resource.h>

static size_t size; /* bytes; several times what may stay local */

static void test_contents(void)
{
	char *memory = map_memory(size);
	ok(!not_zero(memory, MB), "a new mapping reads as zeroes");
	fill(memory, size, 1);
	ok(!wrong(memory, size, 1, 0), "all pages hold what was written");
	fill(memory, size / 2, 2);
	ok(!wrong(memory, size / 2, 2, 0) && !wrong(memory + size / 2, size / 2, 1, size / 2),
	   "the newest contents count");
	munmap(memory, size);
}

static void test_munmap(void)
{
	char *memory = map_memory(size);
	fill(memory, size, 3);
	ok(!munmap(memory + size / 4, size / 4), "munmap of a part");
	ok(!readable(memory + size / 4) && !readable(memory + size / 2 - 1), "it is gone");
	ok(!wrong(memory, size / 4, 3, 0) && !wrong(memory + size / 2, size / 2, 3, size / 2), "the rest is there");
	ok(munmap(memory + 1, PAGE) == -1 && errno == EINVAL, "munmap: unaligned");
	ok(munmap(memory, 0) == -1 && errno == EINVAL, "munmap: no length");
	char *again = map_memory(size / 4);
	ok(!not_zero(again, size / 4), "memory mapped anew reads as zeroes");
	munmap(again, size / 4);
	ok(!munmap(memory, size), "munmap over a hole");
	ok(!readable(memory) && !readable(memory + size - 1), "all of it is gone");
}

static void test_mremap(void)
{
	char *memory = map_memory(size / 2);
	fill(memory, size / 2, 4);
	char *other = map_memory(MB);
	ok(mremap(memory, size / 2, size / 4, 0) == memory, "mremap: shrinks in place");
	ok(!readable(memory + size / 4), "the tail is gone");
	memory = mremap(memory, size / 4, size, MREMAP_MAYMOVE);
	ok(memory != MAP_FAILED, "mremap: grows");
	ok(!wrong(memory, size / 4, 4, 0), "contents came along");
	ok(!not_zero(memory + size / 4, size - size / 4), "what is new reads as zeroes");
	munmap(other, MB);

	char *blocker = map_memory(size / 2), *old;
	fill(blocker, size / 2, 5);
	old = blocker;
	char *wall = mmap(blocker + size / 2, PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ok(mremap(old, size / 2, size / 2 + MB, 0) == MAP_FAILED && errno == ENOMEM, "mremap: cannot grow in place");
	blocker = mremap(old, size / 2, size / 2 + MB, MREMAP_MAYMOVE);
	ok(blocker != MAP_FAILED && blocker != old, "mremap: moves");
	ok(!wrong(blocker, size / 2, 5, 0) && !not_zero(blocker + size / 2, MB), "contents moved");
	ok(!readable(old) && !readable(old + size / 2 - 1), "nothing is left at the old place");
	munmap(blocker, size / 2 + MB);
	if (wall != MAP_FAILED)
		munmap(wall, PAGE);
	ok(mremap(memory, size, 0, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL, "mremap: to nothing");
	ok(mremap(memory + 1, PAGE, PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL, "mremap: unaligned");
	munmap(memory, size);
}

static void test_mremap_fixed(void)
{
	char *source = map_memory(size / 2), *target = map_memory(size / 2);
	fill(source, size / 2, 6);
	fill(target, size / 2, 7);
	char *moved = mremap(source, size / 4, size / 4, MREMAP_MAYMOVE | MREMAP_FIXED, target + size / 8);
	ok(moved == target + size / 8, "mremap: to a fixed place");
	ok(!wrong(moved, size / 4, 6, 0), "contents are there");
	ok(!wrong(target, size / 8, 7, 0) && !wrong(moved + size / 4, size / 8, 7, size / 8 + size / 4),
	   "what is around them stays");
	ok(!readable(source) && !wrong(source + size / 4, size / 4, 6, size / 4),
	   "the source is gone, its rest is not");
	ok(mremap(target, size / 4, size / 4, MREMAP_MAYMOVE | MREMAP_FIXED, target + PAGE) == MAP_FAILED,
	   "mremap: onto itself is refused");
	char *kept = mremap(target, size / 8, size / 8, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	ok(kept != MAP_FAILED && !wrong(kept, size / 8, 7, 0) && !not_zero(target, size / 8),
	   "mremap: the source stays mapped and empty");
	munmap(kept, size / 8);
	munmap(source, size / 2);
	munmap(target, size / 2);
}

/* A moved mapping keeps its protection, also one that may not be read. */
static void test_mremap_protected(void)
{
	char *walls[2], *memory = map_memory(size / 4);
	fill(memory, size / 4, 20);
	mprotect(memory, size / 4, PROT_NONE);
	walls[0] = map_memory(size / 4);
	char *moved = mremap(memory, size / 4, size / 2, MREMAP_MAYMOVE);
	ok(moved != MAP_FAILED, "mremap moves memory that may not be read");
	ok(!readable(moved) && !readable(moved + size / 2 - PAGE),
	   "moved memory still may not be read, nor what it grew by");
	ok(!mprotect(moved, size / 2, PROT_READ | PROT_WRITE) && !wrong(moved, size / 4, 20, 0),
	   "memory that may not be read has its contents after a move");
	ok(!not_zero(moved + size / 4, size / 4), "memory that a mapping grows by is zero");

	fill(moved, size / 2, 21);
	mprotect(moved, size / 4, PROT_READ);
	walls[1] = map_memory(size / 4);
	char *again = mremap(moved, size / 4, size / 4 + PAGE, MREMAP_MAYMOVE);
	int fd = open("/dev/zero", O_RDONLY);
	ok(again != MAP_FAILED && !wrong(again, size / 4, 21, 0), "mremap moves read-only memory");
	ok(read(fd, again, 1) == -1 && read(fd, again + size / 4, 1) == -1, "moved memory is still read-only");
	ok(!wrong(moved + size / 4, size / 4, 21, size / 4), "memory behind what was moved stays");
	close(fd);
	munmap(again, size / 4 + PAGE);
	munmap(moved + size / 4, size / 4);
	munmap(walls[0], size / 4);
	munmap(walls[1], size / 4);
}

static void test_madvise(void)
{
	char *memory = map_memory(size);
	fill(memory, size, 8);
	ok(!madvise(memory + size / 4, size / 4, MADV_DONTNEED), "MADV_DONTNEED");
	ok(!not_zero(memory + size / 4, size / 4), "discarded pages read as zeroes");
	ok(!wrong(memory, size / 4, 8, 0) && !wrong(memory + size / 2, size / 2, 8, size / 2), "others do not");
	fill(memory + size / 4, size / 4, 9);
	ok(!wrong(memory + size / 4, size / 4, 9, 0), "discarded pages can be used again");
	ok(!madvise(memory, size / 2, MADV_WILLNEED) && !wrong(memory, size / 4, 8, 0), "MADV_WILLNEED keeps contents");
	ok(!posix_madvise(memory, size / 4, POSIX_MADV_DONTNEED) && !wrong(memory, size / 4, 8, 0),
	   "POSIX_MADV_DONTNEED keeps contents");
	static const int harmless[] = {MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_SEQUENTIAL, MADV_RANDOM,
				       MADV_NORMAL,   MADV_COLD,       MADV_PAGEOUT};
	for (unsigned i = 0; i < sizeof harmless / sizeof *harmless; i++)
		ok(!madvise(memory, size / 4, harmless[i]) && !wrong(memory, size / 4, 8, 0), "madvise %d does no harm",
		   harmless[i]);
	fill(memory, MB, 10);
	ok(!madvise(memory, MB, MADV_FREE), "MADV_FREE");
	for (size_t at = 0; at < MB; at += PAGE) {
		uint64_t first = *(uint64_t *)(memory + at);
		if (first && first != mix(10 + at))
			ok(false, "a freed page has neither its contents nor zeroes");
	}
	ok(madvise(memory + 1, PAGE, MADV_DONTNEED) == -1 && errno == EINVAL, "madvise: unaligned");
	munmap(memory, size);
	ok(madvise(memory, size, MADV_DONTNEED) == -1 && errno == ENOMEM, "madvise: nothing mapped there");
}

static void test_fixed(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	char *memory = map_memory(size);
	fill(memory, size, 11);
	char *over = mmap(memory + size / 4, size / 4, PROT_READ | PROT_WRITE, flags, -1, 0);
	ok(over == memory + size / 4 && !not_zero(over, size / 4), "MAP_FIXED gives zeroes");
	fill(over, size / 4, 12);
	ok(!wrong(over, size / 4, 12, 0) && !wrong(memory, size / 4, 11, 0) &&
	       !wrong(memory + size / 2, size / 2, 11, size / 2),
	   "it can be used, and its neighbours kept theirs");
	over = mmap(memory, size / 4, PROT_NONE, flags, -1, 0);
	ok(over == memory && !readable(over), "MAP_FIXED without access");
	ok(!mprotect(over, size / 4, PROT_READ | PROT_WRITE) && !not_zero(over, size / 4), "and opened again");
	ok(mmap(memory, PAGE, PROT_READ | PROT_WRITE, (flags & ~MAP_FIXED) | MAP_FIXED_NOREPLACE, -1, 0) ==
		   MAP_FAILED &&
	       errno == EEXIST,
	   "MAP_FIXED_NOREPLACE over something");
	munmap(memory, size);
}

static void test_file_over(void)
{
	char *memory = map_memory(size);
	int fd = memfd_create("file", 0);
	ok(!ftruncate(fd, (off_t)MB), "a file of 1 MiB");
	fill(memory, size, 13);
	ok(pwrite(fd, memory, MB, 0) == (ssize_t)MB, "pages written to a file");
	char *file = mmap(memory + 4 * MB, MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	ok(file == memory + 4 * MB && !wrong(file, MB, 13, 0), "the file mapped over memory");
	fill(file, MB, 14);
	fill(memory, MB, 15);
	char *copy = mmap(NULL, MB, PROT_READ, MAP_SHARED, fd, 0);
	ok(!wrong(copy, MB, 14, 0), "writes reach the file");
	munmap(copy, MB);
	ok(!munmap(file, MB) && !readable(file), "the file unmapped");
	for (unsigned i = 0; i < 16; i++) {
		char *anew = map_memory(size / 4);
		fill(anew, size / 4, 16 + i);
		munmap(anew, size / 4);
	}
	copy = mmap(NULL, MB, PROT_READ, MAP_SHARED, fd, 0);
	ok(!wrong(copy, MB, 14, 0), "memory mapped later does not reach the file");
	munmap(copy, MB);
	ok(!wrong(memory + 5 * MB, size - 5 * MB, 13, 5 * MB), "the memory behind it kept its contents");
	munmap(memory, size);
	close(fd);
}

static void test_mprotect(void)
{
	char *memory = map_memory(size / 2);
	int fd = open("/dev/zero", O_RDONLY);
	fill(memory, size / 2, 17);
	ok(!mprotect(memory, size / 4, PROT_READ), "mprotect: read only");
	ok(!wrong(memory, size / 2, 17, 0), "contents stay");
	ok(read(fd, memory, 1) == -1 && errno == EFAULT, "and cannot be written");
	ok(!mprotect(memory, size / 4, PROT_READ | PROT_WRITE) && read(fd, memory, 8) == 8, "writable again");
	ok(!wrong(memory + PAGE, size / 2 - PAGE, 17, PAGE), "with all contents");
	munmap(memory, size / 2);
	char *anew = map_memory(size / 2);
	ok(read(fd, anew, PAGE) == (ssize_t)PAGE, "a new mapping does not inherit protection");
	munmap(anew, size / 2);
	close(fd);
}

static void test_locks(void)
{
	char *memory = map_memory(size / 2);
	const struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	fill(memory, size / 2, 18);
	if (setrlimit(RLIMIT_MEMLOCK, &limit)) {
		tap_skip("mlock", "no right to lock memory");
		munmap(memory, size / 2);
		return;
	}
	ok(!mlock(memory, size / 2), "mlock");
	ok(!wrong(memory, size / 2, 18, 0), "contents stay");
	ok(!munlock(memory, size / 2), "munlock");
	ok(!mlock2(memory, size / 2, MLOCK_ONFAULT) && !munlock(memory, size / 2), "mlock2");
	ok(!mlockall(MCL_CURRENT | MCL_FUTURE), "mlockall");
	char *more = map_memory(size / 4);
	fill(more, size / 4, 19);
	ok(!wrong(more, size / 4, 19, 0), "memory mapped afterwards");
	ok(!munlockall(), "munlockall");
	munmap(more, size / 4);
	munmap(memory, size / 2);
}

static void test_many(void)
{
	enum { COUNT = 64 };
	char *maps[COUNT];
	size_t each = size / COUNT, bad = 0;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < COUNT; i++) {
			maps[i] = map_memory(each);
			bad += not_zero(maps[i], PAGE);
			fill(maps[i], each, i);
		}
		for (unsigned i = 0; i < COUNT; i += 2)
			munmap(maps[i], each);
		for (unsigned i = 1; i < COUNT; i += 2) {
			bad += wrong(maps[i], each, i, 0);
			munmap(maps[i], each);
		}
	}
	ok(!bad, "many mappings, coming and going");
}

int main(void)
{
	size = victim_size() / MB / 8 * 8 * MB;
	test_contents();
	test_munmap();
	test_mremap();
	test_mremap_fixed();
	test_mremap_protected();
	test_madvise();
	test_fixed();
	test_file_over();
	test_mprotect();
	test_locks();
	test_many();
	return tap_done();
}

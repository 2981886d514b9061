/* The effect of mmap, munmap, mremap, madvise, mprotect and mlock on the contents of memory that is mostly far. */
#include "tests/func/preload/victim.h"

#include <fcntl.h>
#include <sys/resource.h>

static size_t size; /* bytes; several times the budget */

static void mapping_holds_what_was_written(void)
{
	char *memory = map_memory(size);

	ok(!not_zero(memory, MB), "a new mapping reads as zeroes");
	fill(memory, size, 1);
	ok(!wrong(memory, size, 1, 0), "all pages hold the contents written");
	fill(memory, size / 2, 2);
	ok(!wrong(memory, size / 2, 2, 0) && !wrong(memory + size / 2, size / 2, 1, size / 2),
	   "rewritten pages hold the new contents, the others the old");
	munmap(memory, size);
}

static void munmap_removes_a_part_of_a_mapping(void)
{
	char *memory = map_memory(size);

	fill(memory, size, 3);
	ok(!munmap(memory + size / 4, size / 4), "munmap unmaps a part of a mapping");
	ok(!readable(memory + size / 4) && !readable(memory + size / 2 - 1), "the unmapped part cannot be read");
	ok(!wrong(memory, size / 4, 3, 0) && !wrong(memory + size / 2, size / 2, 3, size / 2),
	   "the parts around an unmapped part keep their contents");
	ok(munmap(memory + 1, PAGE) == -1 && errno == EINVAL, "munmap at an unaligned address fails with EINVAL");
	ok(munmap(memory, 0) == -1 && errno == EINVAL, "munmap of 0 bytes fails with EINVAL");
	char *again = map_memory(size / 4);
	ok(!not_zero(again, size / 4), "memory mapped after an munmap reads as zeroes");
	munmap(again, size / 4);
	ok(!munmap(memory, size), "munmap unmaps a range with a hole");
	ok(!readable(memory) && !readable(memory + size - 1), "no page of an unmapped range can be read");
}

static void mremap_moves_contents(void)
{
	char *memory = map_memory(size / 2);

	fill(memory, size / 2, 4);
	char *other = map_memory(MB);
	ok(mremap(memory, size / 2, size / 4, 0) == memory, "mremap shrinks a mapping in place");
	ok(!readable(memory + size / 4), "the tail that mremap cut off cannot be read");
	memory = mremap(memory, size / 4, size, MREMAP_MAYMOVE);
	ok(memory != MAP_FAILED, "mremap grows a mapping");
	ok(!wrong(memory, size / 4, 4, 0), "contents stay when mremap grows a mapping");
	ok(!not_zero(memory + size / 4, size - size / 4), "memory that mremap adds reads as zeroes");
	munmap(other, MB);

	char *blocker = map_memory(size / 2), *old;
	fill(blocker, size / 2, 5);
	old = blocker;
	char *wall = mmap(blocker + size / 2, PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ok(mremap(old, size / 2, size / 2 + MB, 0) == MAP_FAILED && errno == ENOMEM,
	   "mremap that cannot grow in place fails with ENOMEM");
	blocker = mremap(old, size / 2, size / 2 + MB, MREMAP_MAYMOVE);
	ok(blocker != MAP_FAILED && blocker != old, "mremap moves a mapping that cannot grow in place");
	ok(!wrong(blocker, size / 2, 5, 0) && !not_zero(blocker + size / 2, MB),
	   "contents move with a mapping, and the added memory reads as zeroes");
	ok(!readable(old) && !readable(old + size / 2 - 1), "the old place of a moved mapping cannot be read");
	munmap(blocker, size / 2 + MB);
	if (wall != MAP_FAILED)
		munmap(wall, PAGE);
	ok(mremap(memory, size, 0, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL,
	   "mremap to 0 bytes fails with EINVAL");
	ok(mremap(memory + 1, PAGE, PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL,
	   "mremap at an unaligned address fails with EINVAL");
	munmap(memory, size);
}

static void mremap_moves_to_a_fixed_place(void)
{
	char *source = map_memory(size / 2), *target = map_memory(size / 2);

	fill(source, size / 2, 6);
	fill(target, size / 2, 7);
	char *moved = mremap(source, size / 4, size / 4, MREMAP_MAYMOVE | MREMAP_FIXED, target + size / 8);
	ok(moved == target + size / 8, "mremap moves a part of a mapping to a fixed place");
	ok(!wrong(moved, size / 4, 6, 0), "contents move to a fixed place");
	ok(!wrong(target, size / 8, 7, 0) && !wrong(moved + size / 4, size / 8, 7, size / 8 + size / 4),
	   "memory around the fixed place keeps its contents");
	ok(!readable(source) && !wrong(source + size / 4, size / 4, 6, size / 4),
	   "the moved part of the source cannot be read, its rest keeps its contents");
	ok(mremap(target, size / 4, size / 4, MREMAP_MAYMOVE | MREMAP_FIXED, target + PAGE) == MAP_FAILED,
	   "mremap refuses a fixed place that overlaps the source");
	char *kept = mremap(target, size / 8, size / 8, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	ok(kept != MAP_FAILED && !wrong(kept, size / 8, 7, 0) && !not_zero(target, size / 8),
	   "mremap with MREMAP_DONTUNMAP moves contents and leaves an empty source");
	munmap(kept, size / 8);
	munmap(source, size / 2);
	munmap(target, size / 2);
}

/* Mappings of two pages stay local. */
static void mremap_moves_small_mappings_to_freed_places(void)
{
	char *far = map_memory(MB), *small = map_memory(2 * PAGE);

	fill(small, 2 * PAGE, 9);
	munmap(far, MB);
	ok(mremap(small, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, far) == far && !wrong(far, 2 * PAGE, 9, 0),
	   "mremap moves a small mapping to the place of an unmapped large one");
	ok(mremap(far, 2 * PAGE, PAGE, 0) == far && !readable(far + PAGE) && !wrong(far, PAGE, 9, 0),
	   "the small mapping shrinks at its new place");
	char *moved = mremap(far, PAGE, MB, MREMAP_MAYMOVE);
	ok(moved != MAP_FAILED && !wrong(moved, PAGE, 9, 0) && !not_zero(moved + PAGE, MB - PAGE) &&
	       (moved == far || !readable(far)),
	   "the small mapping grows, and its contents stay");
	munmap(moved, MB);
}

/* A moved mapping keeps its protection, even PROT_NONE. */
static void mremap_keeps_protection(void)
{
	char *walls[2], *memory = map_memory(size / 4);

	fill(memory, size / 4, 20);
	mprotect(memory, size / 4, PROT_NONE);
	walls[0] = map_memory(size / 4);
	char *moved = mremap(memory, size / 4, size / 2, MREMAP_MAYMOVE);
	ok(moved != MAP_FAILED, "mremap moves memory that may not be read");
	ok(!readable(moved) && !readable(moved + size / 2 - PAGE),
	   "memory moved without access, and what mremap added to it, cannot be read");
	ok(!mprotect(moved, size / 2, PROT_READ | PROT_WRITE) && !wrong(moved, size / 4, 20, 0),
	   "memory moved without access keeps its contents");
	ok(!not_zero(moved + size / 4, size / 4),
	   "memory that mremap adds to a mapping without access reads as zeroes");

	fill(moved, size / 2, 21);
	mprotect(moved, size / 4, PROT_READ);
	walls[1] = map_memory(size / 4);
	char *again = mremap(moved, size / 4, size / 4 + PAGE, MREMAP_MAYMOVE);
	int fd = open("/dev/zero", O_RDONLY);
	ok(again != MAP_FAILED && !wrong(again, size / 4, 21, 0), "mremap moves read-only memory");
	ok(read(fd, again, 1) == -1 && read(fd, again + size / 4, 1) == -1,
	   "moved read-only memory, and what mremap added to it, is still read-only");
	ok(!wrong(moved + size / 4, size / 4, 21, size / 4), "memory behind a moved part keeps its contents");
	close(fd);
	munmap(again, size / 4 + PAGE);
	munmap(moved + size / 4, size / 4);
	munmap(walls[0], size / 4);
	munmap(walls[1], size / 4);
}

static void madvise_discards_only_where_linux_does(void)
{
	char *memory = map_memory(size);

	fill(memory, size, 8);
	ok(!madvise(memory + size / 4, size / 4, MADV_DONTNEED), "madvise(MADV_DONTNEED) discards a part of a mapping");
	ok(!not_zero(memory + size / 4, size / 4), "discarded pages read as zeroes");
	ok(!wrong(memory, size / 4, 8, 0) && !wrong(memory + size / 2, size / 2, 8, size / 2),
	   "pages around discarded pages keep their contents");
	fill(memory + size / 4, size / 4, 9);
	ok(!wrong(memory + size / 4, size / 4, 9, 0), "discarded pages hold the contents written afterwards");
	ok(!madvise(memory, size / 2, MADV_WILLNEED) && !wrong(memory, size / 4, 8, 0),
	   "madvise(MADV_WILLNEED) keeps contents");
	ok(!posix_madvise(memory, size / 4, POSIX_MADV_DONTNEED) && !wrong(memory, size / 4, 8, 0),
	   "posix_madvise(POSIX_MADV_DONTNEED) keeps contents");
	static const int harmless[] = {MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_SEQUENTIAL, MADV_RANDOM,
				       MADV_NORMAL,   MADV_COLD,       MADV_PAGEOUT};
	for (unsigned i = 0; i < sizeof harmless / sizeof *harmless; i++)
		ok(!madvise(memory, size / 4, harmless[i]) && !wrong(memory, size / 4, 8, 0),
		   "madvise with advice %d keeps contents", harmless[i]);
	fill(memory, MB, 10);
	ok(!madvise(memory, MB, MADV_FREE), "madvise(MADV_FREE) succeeds");
	for (size_t at = 0; at < MB; at += PAGE) {
		uint64_t first = *(uint64_t *)(memory + at);

		if (first && first != mix(10 + at))
			ok(false, "a page freed by MADV_FREE has its contents or zeroes");
	}
	ok(madvise(memory + 1, PAGE, MADV_DONTNEED) == -1 && errno == EINVAL,
	   "madvise at an unaligned address fails with EINVAL");
	munmap(memory, size);
	ok(madvise(memory, size, MADV_DONTNEED) == -1 && errno == ENOMEM,
	   "madvise of an unmapped range fails with ENOMEM");
}

static void fixed_mappings_replace_memory(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	char *memory = map_memory(size);

	fill(memory, size, 11);
	char *over = mmap(memory + size / 4, size / 4, PROT_READ | PROT_WRITE, flags, -1, 0);
	ok(over == memory + size / 4 && !not_zero(over, size / 4), "mmap with MAP_FIXED over used memory gives zeroes");
	fill(over, size / 4, 12);
	ok(!wrong(over, size / 4, 12, 0) && !wrong(memory, size / 4, 11, 0) &&
	       !wrong(memory + size / 2, size / 2, 11, size / 2),
	   "memory mapped over a part holds new contents, its neighbours keep theirs");
	over = mmap(memory, size / 4, PROT_NONE, flags, -1, 0);
	ok(over == memory && !readable(over), "mmap with PROT_NONE over used memory takes access away");
	ok(!mprotect(over, size / 4, PROT_READ | PROT_WRITE) && !not_zero(over, size / 4),
	   "mprotect opens memory mapped over with PROT_NONE, which reads as zeroes");
	ok(mmap(memory, PAGE, PROT_READ | PROT_WRITE, (flags & ~MAP_FIXED) | MAP_FIXED_NOREPLACE, -1, 0) ==
		   MAP_FAILED &&
	       errno == EEXIST,
	   "mmap with MAP_FIXED_NOREPLACE over a mapping fails with EEXIST");
	munmap(memory, size);
}

static void file_mapped_over_memory_is_separate(void)
{
	char *memory = map_memory(size);
	int fd = memfd_create("file", 0);

	ok(!ftruncate(fd, (off_t)MB), "a memory file has 1 MiB");
	fill(memory, size, 13);
	ok(pwrite(fd, memory, MB, 0) == (ssize_t)MB, "pwrite writes far pages to a file");
	char *file = mmap(memory + 4 * MB, MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	ok(file == memory + 4 * MB && !wrong(file, MB, 13, 0), "a file mapped over memory reads as the file");
	fill(file, MB, 14);
	fill(memory, MB, 15);
	char *copy = mmap(NULL, MB, PROT_READ, MAP_SHARED, fd, 0);
	ok(!wrong(copy, MB, 14, 0), "writes to the mapping of a file reach the file");
	munmap(copy, MB);
	ok(!munmap(file, MB) && !readable(file), "munmap unmaps the file");
	for (unsigned i = 0; i < 16; i++) {
		char *anew = map_memory(size / 4);

		fill(anew, size / 4, 16 + i);
		munmap(anew, size / 4);
	}
	copy = mmap(NULL, MB, PROT_READ, MAP_SHARED, fd, 0);
	ok(!wrong(copy, MB, 14, 0), "writes to memory mapped later do not reach the file");
	munmap(copy, MB);
	ok(!wrong(memory + 5 * MB, size - 5 * MB, 13, 5 * MB), "memory behind the unmapped file keeps its contents");
	munmap(memory, size);
	close(fd);
}

static void mprotect_keeps_contents(void)
{
	char *memory = map_memory(size / 2);
	int fd = open("/dev/zero", O_RDONLY);

	fill(memory, size / 2, 17);
	ok(!mprotect(memory, size / 4, PROT_READ), "mprotect makes memory read-only");
	ok(!wrong(memory, size / 2, 17, 0), "memory made read-only keeps its contents");
	ok(read(fd, memory, 1) == -1 && errno == EFAULT, "read(2) into read-only memory fails with EFAULT");
	ok(!mprotect(memory, size / 4, PROT_READ | PROT_WRITE) && read(fd, memory, 8) == 8,
	   "mprotect makes read-only memory writable again");
	ok(!wrong(memory + PAGE, size / 2 - PAGE, 17, PAGE), "memory made writable again keeps its contents");
	munmap(memory, size / 2);
	char *anew = map_memory(size / 2);
	ok(read(fd, anew, PAGE) == (ssize_t)PAGE, "a new mapping does not inherit the protection of an unmapped one");
	munmap(anew, size / 2);
	close(fd);
}

static void locked_memory_keeps_contents(void)
{
	char *memory = map_memory(size / 2);
	const struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	fill(memory, size / 2, 18);
	if (setrlimit(RLIMIT_MEMLOCK, &limit)) {
		tap_skip("mlock", "no right to lock memory");
		munmap(memory, size / 2);
		return;
	}
	ok(!mlock(memory, size / 2), "mlock of memory beyond the budget succeeds");
	ok(!wrong(memory, size / 2, 18, 0), "locked memory keeps its contents");
	ok(!munlock(memory, size / 2), "munlock succeeds");
	ok(!mlock2(memory, size / 2, MLOCK_ONFAULT) && !munlock(memory, size / 2),
	   "mlock2 with MLOCK_ONFAULT succeeds");
	ok(!mlockall(MCL_CURRENT | MCL_FUTURE), "mlockall of present and future memory succeeds");
	char *more = map_memory(size / 4);
	fill(more, size / 4, 19);
	ok(!wrong(more, size / 4, 19, 0), "memory mapped after mlockall holds the contents written");
	ok(!munlockall(), "munlockall succeeds");
	munmap(more, size / 4);
	munmap(memory, size / 2);
}

static void many_mappings_come_and_go(void)
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
	ok(!bad, "64 mappings, made and unmapped three times, start as zeroes and keep their contents");
}

/* Ruby maps its objects in blocks of 16 KiB. It asks for twice as much, and unmaps what is not aligned. */
static char *map_small_block(size_t block)
{
	char *wide = map_memory(2 * block);
	size_t before = (block - (uintptr_t)wide % block) % block;

	if (before)
		munmap(wide, before);
	munmap(wide + before + block, block - before);
	return wide + before;
}

static void small_mappings_leave(void)
{
	const size_t block = 4 * PAGE, count = size / block;
	char **blocks = malloc(count * sizeof *blocks);
	size_t bad = 0;

	for (size_t i = 0; i < count; i++) {
		blocks[i] = map_small_block(block);
		fill(blocks[i], block, i);
	}
	/* run_victim.sh sets CHILD_MB for programs with far memory. */
	ok(!getenv("CHILD_MB") || resident() < size / 2, "mappings of 16 KiB leave local memory");
	for (size_t i = 0; i < count; i++) {
		bad += wrong(blocks[i], block, i, 0);
		munmap(blocks[i], block);
	}
	ok(!bad, "mappings of 16 KiB keep their contents");
	free(blocks);
}

int main(void)
{
	size = victim_size() / MB / 8 * 8 * MB;
	mapping_holds_what_was_written();
	munmap_removes_a_part_of_a_mapping();
	mremap_moves_contents();
	mremap_moves_to_a_fixed_place();
	mremap_moves_small_mappings_to_freed_places();
	mremap_keeps_protection();
	madvise_discards_only_where_linux_does();
	fixed_mappings_replace_memory();
	file_mapped_over_memory_is_separate();
	mprotect_keeps_contents();
	locked_memory_keeps_contents();
	many_mappings_come_and_go();
	small_mappings_leave();
	return tap_done();
}

/*
 * Threads of a store with a state file. None of them allocates memory. The thread that does I/O takes no page fault,
 * even for the first write of a page or for a new lease. The control thread takes page faults in advance, only for the
 * checksums of a chunk's pages.
 *
 * Allocations are counted through the linker's --wrap, page faults by the kernel. Under sanitizers page faults are not
 * counted, because a sanitizer takes its own.
 */
#include "tests/func/client/rig.h"
#include "tests/lib/sanitizers.h"

#include <link.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define CHUNKS 48u
#define RUN 16u

#define SANITIZED (UNDER_ASAN || UNDER_TSAN)

static atomic_uint allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *old);
void *__real_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *address, size_t length);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *old);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *address, size_t length);

void *__wrap_malloc(size_t size)
{
	allocations++;
	return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	allocations++;
	return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	allocations++;
	return __real_realloc(old, size);
}

void __wrap_free(void *old)
{
	allocations++;
	__real_free(old);
}

void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	allocations++;
	return __real_mmap64(address, length, protection, flags, fd, offset);
}

int __wrap_munmap(void *address, size_t length)
{
	allocations++;
	return __real_munmap(address, length);
}

/* @who is RUSAGE_SELF for all threads, or RUSAGE_THREAD. */
static long faults_now(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

/* Writes, reads and discards these chunks. A page must read as zero before its first write. */
static bool chunks_use(struct rig *rig, uint64_t first, uint64_t count)
{
	bool good = true;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t page = (first + i) * RIG_SLAB_PAGES;

		good &= rig_read(rig, page, RUN, rig->bytes) == 0 && rig_is_zero(rig->bytes);
		for (unsigned j = 0; j < RIG_SLAB_PAGES; j += RUN) {
			memset(rig->bytes, 1 + (int)(page + j) % 200, RUN * STORE_PAGE);
			good &= rig_write(rig, page + j, RUN, rig->bytes) == 0;
			good &= rig_read(rig, page + j, RUN, rig->bytes) == 0;
		}
		if (i % 2)
			store_discard(rig->store, page, RIG_SLAB_PAGES);
	}
	return good;
}

/* Waits asleep until @bytes are leased. */
static bool leased_wait(struct rig *rig, uint64_t bytes)
{
	return wait_until(rig_stats(rig).bytes_leased == bytes);
}

/*
 * Populates the segments of a program or library, so that code that runs late, such as heartbeats on a busy machine,
 * takes no page fault.
 */
static int segments_populate(struct dl_phdr_info *info, size_t size, void *data)
{
	uintptr_t page = (uintptr_t)getpagesize() - 1;

	(void)size;
	(void)data;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + header->p_vaddr, end = begin + header->p_memsz;

		if (header->p_type == PT_LOAD)
			madvise((void *)(begin & ~page), ((end + page) & ~page) - (begin & ~page),
				header->p_flags & PF_W ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	}
	return 0;
}

int main(void)
{
	struct store_stats stats;
	struct rig rig;
	unsigned counted;
	long own, all, kept;
	bool good;

	rig_donors(&rig, 2, "64M");
	rig_state(&rig);
	rig.config.pages = CHUNKS * RIG_SLAB_PAGES;
	rig_open(&rig);
	memset(rig.bytes, 1, RIG_BUFFER_PAGES * STORE_PAGE);
	/* The first run brings in the code: slabs are leased and released. */
	good = chunks_use(&rig, 0, 4) && leased_wait(&rig, 2 * RIG_SLAB);
	dl_iterate_phdr(segments_populate, NULL);
	/* The first count may itself take a page fault, if its stack begins on a new page. */
	faults_now(RUSAGE_SELF);
	counted = allocations;
	kept = (long)rig_state_bytes(&rig);
	all = faults_now(RUSAGE_SELF);
	own = faults_now(RUSAGE_THREAD);
	good = good && chunks_use(&rig, 4, CHUNKS - 4) && leased_wait(&rig, CHUNKS / 2 * RIG_SLAB);
	own = faults_now(RUSAGE_THREAD) - own;
	all = faults_now(RUSAGE_SELF) - all;
	kept = ((long)rig_state_bytes(&rig) - kept) / getpagesize();
	counted = allocations - counted;
	stats = rig_stats(&rig);
	ok(good && stats.pages_live == CHUNKS / 2 * RIG_SLAB_PAGES,
	   "%u chunks are written for the first time, and half of them are discarded", CHUNKS - 4);
	ok(!counted, "no thread of the store allocates or frees memory during I/O: %u times", counted);
	if (SANITIZED) {
		tap_skip("the threads of a store take no page fault beyond new state",
			 "a sanitizer's own would be counted");
	} else {
		ok(!own, "the thread that does I/O takes no page fault: %ld", own);
		ok(kept && all <= kept,
		   "the other threads take %ld page faults, at most one for each of %ld new pages of state", all, kept);
	}
	rig_close(&rig);
	return tap_done();
}

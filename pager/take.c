#include "pager/take.h"

#include "farpage/store.h"
#include "pager/pagemap.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int take_open(struct take *take, const struct uffd *uffd, void *base, void *landing)
{
	*take = (struct take){.uffd = uffd, .base = base, .landing = landing, .memory = -1, .pagemap = -1};
	take->scratch = mmap(NULL, TAKE_MAX * STORE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (take->scratch == MAP_FAILED) {
		take->scratch = NULL;
		return -ENOMEM;
	}
	madvise(take->scratch, TAKE_MAX * STORE_PAGE, MADV_DONTFORK);
	take->memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	if (take->memory >= 0)
		take->pagemap = pagemap_open();
	if (take->pagemap < 0) {
		int error = errno;
		take_close(take);
		return -error;
	}
	return 0;
}

void take_close(struct take *take)
{
	if (take->scratch)
		munmap(take->scratch, TAKE_MAX * STORE_PAGE);
	if (take->memory >= 0)
		close(take->memory);
	if (take->pagemap >= 0)
		close(take->pagemap);
	take->scratch = NULL;
	take->memory = take->pagemap = -1;
}

static char *address_of(const struct take *take, uint64_t page)
{
	return take->base + page * STORE_PAGE;
}

/* Reads protected pages without trusting that the program may read them: process_vm_readv(2) first, it is cheaper. */
static bool read_pages(const struct take *take, char *to, char *from, size_t length)
{
	struct iovec local = {to, length}, remote = {from, length};
	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)length)
		return true;
	return pread(take->memory, to, length, (off_t)(uintptr_t)from) == (ssize_t)length;
}

static void set_results(struct taken *taken, unsigned count, enum take_result result)
{
	for (unsigned i = 0; i < count; i++)
		taken[i].result = result;
}

/* @count present pages next to each other. */
static void copy_out(struct take *take, struct taken *taken, unsigned first, unsigned count)
{
	char *from = address_of(take, taken[first].page), *to = take->scratch + (size_t)first * STORE_PAGE;
	size_t length = (size_t)count * STORE_PAGE;
	set_results(taken + first, count, TAKE_BUSY);
	if (uffd_protect(take->uffd, from, length, true))
		return;
	if (!read_pages(take, to, from, length) || madvise(from, length, MADV_DONTNEED)) {
		uffd_protect(take->uffd, from, length, false);
		return;
	}
	uffd_wake(take->uffd->fd, from, length); /* writers that came meanwhile find it missing now */
	for (unsigned i = 0; i < count; i++) {
		taken[first + i].result = TAKE_TAKEN;
		taken[first + i].data = to + (size_t)i * STORE_PAGE;
	}
}

/* The way without UFFDIO_MOVE, for @count pages next to each other. */
static void take_by_copy(struct take *take, struct taken *taken, unsigned first, unsigned count)
{
	bool present[TAKE_MAX];
	if (pagemap_present(take->pagemap, address_of(take, taken[first].page), count, present)) {
		set_results(taken + first, count, TAKE_BUSY);
		return;
	}
	for (unsigned i = 0, length; i < count; i += length) {
		for (length = 1; i + length < count && present[i + length] == present[i];)
			length++;
		if (present[i])
			copy_out(take, taken, first + i, length);
		else
			set_results(taken + first + i, length, TAKE_ABSENT);
	}
}

/* What to do about one page that MOVE refused. */
static void take_refused(struct take *take, struct taken *taken, unsigned index, int error)
{
	char *from = address_of(take, taken[index].page);
	if (error == -ENOENT) {
		taken[index].result = TAKE_ABSENT;
		return;
	}
	if (error == -EINVAL) {
		take_by_copy(take, taken, index, 1);
		return;
	}
	/* After a fork the page is shared with the child: a write, even of nothing, gives this process its own copy. */
	taken[index].result = TAKE_BUSY;
	bool present = false;
	if (error == -EBUSY && pagemap_present(take->pagemap, from, 1, &present) == 0 && present &&
	    madvise(from, STORE_PAGE, MADV_POPULATE_WRITE) == 0) {
		char *to = take->landing + (size_t)index * STORE_PAGE;
		if (uffd_take(take->uffd, to, from, STORE_PAGE) == (ssize_t)STORE_PAGE) {
			taken[index].result = TAKE_TAKEN;
			taken[index].data = to;
		}
	}
}

static void take_by_move(struct take *take, struct taken *taken, unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count;) {
		char *to = take->landing + (size_t)i * STORE_PAGE;
		ssize_t moved = uffd_take(take->uffd, to, address_of(take, taken[i].page),
					  (size_t)(first + count - i) * STORE_PAGE);
		if (moved < 0) {
			take_refused(take, taken, i, (int)moved);
			i++;
			continue;
		}
		for (; moved > 0; moved -= (ssize_t)STORE_PAGE, i++) {
			taken[i].result = TAKE_TAKEN;
			taken[i].data = take->landing + (size_t)i * STORE_PAGE;
		}
	}
}

void take_pages(struct take *take, struct taken *taken, unsigned count)
{
	for (unsigned first = 0, length; first < count; first += length) {
		for (length = 1; first + length < count && taken[first + length].page == taken[first].page + length;)
			length++;
		if (take->uffd->mover >= 0)
			take_by_move(take, taken, first, length);
		else
			take_by_copy(take, taken, first, length);
	}
}

void take_release(struct take *take, unsigned count)
{
	madvise(take->landing, (size_t)count * STORE_PAGE, MADV_DONTNEED);
}

#include "pager/take.h"

#include "client/store.h"
#include "pager/pagemap.h"
#include "pager/trace.h"
#include "pager/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

void *take_landing(void)
{
	const size_t half = (size_t)TAKE_MAX * STORE_PAGE;
	char *landing =
	    mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (landing == MAP_FAILED)
		return NULL;
	madvise(landing, 2 * half, MADV_DONTFORK);
	madvise(landing, 2 * half, MADV_NOHUGEPAGE);
	/* If the host forbids executable memory, pages of executable mappings cannot be moved, and stay. */
	mprotect(landing + half, half, PROT_READ | PROT_WRITE | PROT_EXEC);
	return landing;
}

int take_open(struct take *take, const struct uffd *uffd, struct window *window, void *landing, bool copies)
{
	if (uffd->mover < 0 && !copies)
		return -EOPNOTSUPP;
	*take = (struct take){.uffd = uffd,
			      .window = window,
			      .landing = landing,
			      .copies = copies,
			      .maps = vma_open(),
			      .memory = -1,
			      .pagemap = -1};
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
	if (take->maps >= 0)
		close(take->maps);
	take->scratch = NULL;
	take->maps = take->memory = take->pagemap = -1;
}

size_t take_memory(const struct take *take)
{
	return take->copies ? TAKE_MAX * STORE_PAGE : 0;
}

static char *address_of(const struct take *take, uint64_t page)
{
	return take->window->base + page * STORE_PAGE;
}

/* Reads pages, even if the program may not read them (PROT_NONE): by process_vm_readv(2), which is faster, or else
   from /proc/self/mem. Returns true on success. */
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

static void copy_out(struct take *take, struct taken *taken, unsigned first, unsigned count)
{
	char *from = address_of(take, taken[first].page), *to = take->scratch + (size_t)first * STORE_PAGE;
	size_t length = (size_t)count * STORE_PAGE;

	set_results(taken + first, count, TAKE_BUSY);
	if (uffd_protect(take->uffd, from, length, true))
		return;
	if (!read_pages(take, to, from, length)) {
		uffd_protect(take->uffd, from, length, false);
		return;
	}
	bool dropped = madvise(from, length, MADV_DONTNEED) == 0;
	for (unsigned i = 0; i < count; i++) {
		struct taken *page = &taken[first + i];
		char *address = from + (size_t)i * STORE_PAGE;

		/* If a part of the range is locked, madvise(2) drops the pages in front of that part, and then fails.
		   So this loop drops each page again, alone. Dropping a page twice does no harm, because nobody places
		   a page meanwhile. */
		if (!dropped && madvise(address, STORE_PAGE, MADV_DONTNEED)) {
			page->result = errno == EINVAL ? TAKE_HELD : TAKE_BUSY;
			uffd_protect(take->uffd, address, STORE_PAGE, false);
			continue;
		}
		page->result = TAKE_TAKEN;
		page->data = to + (size_t)i * STORE_PAGE;
	}
	uffd_wake(take->uffd->fd, from, length); /* writers that wait find the page missing now, and fault again */
}

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

/*
 * Returns how many pages the kernel has moved to @to without counting them. No page was present at @to before the move,
 * so the move brought every page that is present there now.
 *
 * If a page's table entry changes during the move (the kernel clears its Accessed bit, for example), Linux retries
 * the page. From 6.18 on, Linux sets a flag for the retry, and does not clear the flag. So Linux moves the page without
 * counting it, tries the same page again, and finds the target occupied (move_pages() in mm/userfaultfd.c). If this
 * file trusted the count, it would drop these pages with the landing area, and the program would read zeroes.
 */
static unsigned uncounted(const struct take *take, const char *to, unsigned count)
{
	bool present[TAKE_MAX];
	unsigned came = 0;

	if (pagemap_present(take->pagemap, to, count, present))
		return 0;
	while (came < count && present[came])
		came++;
	trace_uncounted(came);
	return came;
}

/* Moves @count adjacent pages to half @half of the landing area. Returns how many were moved, or -errno. */
static ssize_t move_out(struct take *take, struct taken *taken, unsigned first, unsigned count, unsigned half)
{
	char *to = take->landing + (size_t)(half * TAKE_MAX + first) * STORE_PAGE;
	ssize_t moved = uffd_take(take->uffd, to, address_of(take, taken[first].page), (size_t)count * STORE_PAGE);
	unsigned went = moved > 0 ? (unsigned)((size_t)moved / STORE_PAGE) : 0;

	if (went < count && (went || moved == -EEXIST))
		went += uncounted(take, to + (size_t)went * STORE_PAGE, count - went);
	if (!went)
		return moved;
	for (unsigned i = 0; i < went; i++) {
		taken[first + i].result = TAKE_TAKEN;
		taken[first + i].data = to + (size_t)i * STORE_PAGE;
	}
	return went;
}

/* Gives this process its own copy of a page that it shares with a forked child. The kernel makes the copy when it
   pins the page for reading (gup_must_unshare()). Pages that a device holds are never shared. */
static void own_page(struct take *take, const char *page)
{
	char byte;
	bool present = false;
	struct iovec local = {&byte, 1}, remote = {(void *)(uintptr_t)page, 1};

	if (pagemap_present(take->pagemap, page, 1, &present) == 0 && present)
		process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
}

/* Handles one page that UFFDIO_MOVE refused with @error, for a reason other than the mapping. */
static void take_refused(struct take *take, struct taken *taken, unsigned index, unsigned half, int error)
{
	if (error == -EBUSY) {
		own_page(take, address_of(take, taken[index].page));
		ssize_t moved = move_out(take, taken, index, 1, half);
		if (moved == 1)
			return;
		error = (int)moved;
	}
	taken[index].result = error == -ENOENT                      ? TAKE_ABSENT
			      : error == -EBUSY || error == -EINVAL ? TAKE_HELD
								    : TAKE_BUSY;
}

/* Moves pages of one mapping that is writable now. */
static void take_writable(struct take *take, struct taken *taken, unsigned first, unsigned count, unsigned half)
{
	for (unsigned i = first; i < first + count;) {
		ssize_t moved = move_out(take, taken, i, first + count - i, half);

		if (moved < 0)
			take_refused(take, taken, i, half, (int)moved);
		i += moved > 0 ? (unsigned)moved : 1;
	}
}

/* Moves pages of a mapping that the first half of the landing area does not accept. Returns the number of pages
   handled, up to the end of the mapping. */
static unsigned take_protected(struct take *take, struct taken *taken, unsigned first, unsigned count)
{
	struct vma vma;
	char *from = address_of(take, taken[first].page);

	taken[first].result = TAKE_HELD;
	if (vma_query(take->maps, from, &vma) || vma.shared || !(vma.protection & PROT_READ))
		return 1;
	unsigned half = vma.protection & PROT_EXEC ? 1 : 0;
	if ((vma.end - (uintptr_t)from) / STORE_PAGE < count)
		count = (unsigned)((vma.end - (uintptr_t)from) / STORE_PAGE);
	size_t length = (size_t)count * STORE_PAGE;
	take->used_executable |= half;
	set_results(taken + first, count, TAKE_HELD);
	if (vma.protection & PROT_WRITE) {
		take_writable(take, taken, first, count, half);
	} else if (take->window->mediated) {
		/* From here to the end, writers wait. Afterwards the mapping is as it was. */
		if (uffd_protect(take->uffd, from, length, true) == 0 &&
		    mprotect(from, length, vma.protection | PROT_WRITE) == 0) {
			take_writable(take, taken, first, count, half);
			mprotect(from, length, vma.protection);
		}
		uffd_protect(take->uffd, from, length, false);
	}
	return count;
}

/* Handles pages that UFFDIO_MOVE refused because of their mapping. The lock prevents protections from changing
   meanwhile. Returns the number of pages handled. */
static unsigned take_refused_run(struct take *take, struct taken *taken, unsigned first, unsigned count)
{
	if (take->copies) {
		take_by_copy(take, taken, first, 1);
		return 1;
	}
	/* Must not wait: the thread that holds the lock may be waiting for one of these pages. */
	if (pthread_mutex_trylock(&take->window->protect_lock)) {
		taken[first].result = TAKE_BUSY;
		return 1;
	}
	unsigned done = take_protected(take, taken, first, count);
	pthread_mutex_unlock(&take->window->protect_lock);
	return done;
}

static void take_by_move(struct take *take, struct taken *taken, unsigned first, unsigned count)
{
	unsigned end = first + count, at_once = count;

	for (unsigned i = first; i < end;) {
		unsigned length = end - i < at_once ? end - i : at_once;
		ssize_t moved = move_out(take, taken, i, length, 0);

		if (moved == -EINVAL && length > 1) {
			at_once = length / 2; /* half may lie in one mapping */
		} else if (moved == -EINVAL) {
			i += take_refused_run(take, taken, i, end - i);
			at_once = count;
		} else if (moved < 0) {
			take_refused(take, taken, i++, 0, (int)moved);
		} else {
			i += (unsigned)moved;
			if ((unsigned)moved == length)
				at_once *= 2; /* the end of the mapping is passed, so try longer runs again */
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

static void add_page(struct iovec *runs, unsigned *count, const char *page)
{
	struct iovec *last = *count ? &runs[*count - 1] : NULL;

	if (last && (char *)last->iov_base + last->iov_len == page)
		last->iov_len += STORE_PAGE;
	else
		runs[(*count)++] = (struct iovec){(void *)(uintptr_t)page, STORE_PAGE};
}

void take_copy(const struct taken *taken, char *const *to, unsigned count)
{
	struct iovec sources[TAKE_MAX], targets[TAKE_MAX];
	unsigned source_count = 0, target_count = 0;
	size_t length = 0;

	for (unsigned i = 0; i < count; i++) {
		if (taken[i].result != TAKE_TAKEN)
			continue;
		add_page(sources, &source_count, taken[i].data);
		add_page(targets, &target_count, to[i]);
		length += STORE_PAGE;
	}
	if (process_vm_readv(getpid(), targets, target_count, sources, source_count, 0) == (ssize_t)length)
		return;
	for (unsigned i = 0; i < count; i++)
		if (taken[i].result == TAKE_TAKEN)
			memcpy(to[i], taken[i].data, STORE_PAGE);
}

void take_release(struct take *take, unsigned count)
{
	madvise(take->landing, (size_t)count * STORE_PAGE, MADV_DONTNEED);
	if (take->used_executable)
		madvise(take->landing + (size_t)TAKE_MAX * STORE_PAGE, (size_t)count * STORE_PAGE, MADV_DONTNEED);
	take->used_executable = false;
}

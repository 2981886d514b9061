/* The bitmap is searched one word at a time, from the lowest free page to the highest page ever allocated. So the
   cost does not depend on the size of the reservation. */
#include "pager/window.h"

#include "pager/bitmap.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t pages_of(size_t length)
{
	return length / WINDOW_PAGE + (length % WINDOW_PAGE != 0);
}

static uint64_t page_count(const struct window *window)
{
	return window->length / WINDOW_PAGE;
}

static char *page_address(const struct window *window, uint64_t page)
{
	return window->base + page * WINDOW_PAGE;
}

/* Makes the system call itself, because the preload library replaces mmap(). */
static void *map_pages(size_t length, int protection)
{
	long address = syscall(SYS_mmap, NULL, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);

	return address == -1 ? NULL : (void *)address;
}

static int protect(const struct window *window, uint64_t page, uint64_t count, int protection)
{
	long error = syscall(SYS_mprotect, page_address(window, page), count * WINDOW_PAGE, protection);

	return error ? -errno : 0;
}

/* Returns the first page in [@from, @end) whose bit is @value, or @end if there is none. */
static uint64_t find_bit(const struct window *window, uint64_t from, uint64_t end, bool value)
{
	while (from < end) {
		uint64_t word = __atomic_load_n(&window->used[from / BITMAP_WORD], __ATOMIC_RELAXED);

		if (!value)
			word = ~word;
		word &= ~UINT64_C(0) << (from % BITMAP_WORD);
		if (word) {
			uint64_t page = from / BITMAP_WORD * BITMAP_WORD + (unsigned)__builtin_ctzll(word);

			return page < end ? page : end;
		}
		from = (from / BITMAP_WORD + 1) * BITMAP_WORD;
	}
	return end;
}

static int window_create(struct window *window, void *base, size_t length)
{
	*window = (struct window){.base = base, .length = length};
	window->used = map_pages(bitmap_bytes(page_count(window)), PROT_READ | PROT_WRITE);
	if (!window->used)
		return -ENOMEM;
	pthread_mutex_init(&window->lock, NULL);
	pthread_mutex_init(&window->protect_lock, NULL);
	return 0;
}

int window_reserve(struct window *window, size_t length, size_t room)
{
	if (!length || length > SIZE_MAX - WINDOW_PAGE - room)
		return -EINVAL;
	length = pages_of(length) * WINDOW_PAGE;
	char *base = map_pages(length + room, PROT_NONE);
	if (base && room)
		syscall(SYS_munmap, base + length, room);
	if (!base)
		base = map_pages(length, PROT_NONE);
	if (!base)
		return -ENOMEM;
	/* The budget counts pages of 4 KiB, and each of them moves by itself. Huge pages would make that
	   impossible. */
	syscall(SYS_madvise, base, length, MADV_NOHUGEPAGE);
	int error = window_create(window, base, length);
	if (error)
		syscall(SYS_munmap, base, length);
	return error;
}

int window_adopt(struct window *window, void *base, size_t length)
{
	if (!length || (uintptr_t)base % WINDOW_PAGE || length % WINDOW_PAGE)
		return -EINVAL;
	int error = window_create(window, base, length);
	if (error)
		return error;
	syscall(SYS_madvise, base, length, MADV_NOHUGEPAGE);
	window->adopted = true;
	bitmap_set(window->used, 0, page_count(window), true);
	window->next = page_count(window);
	window->allocated = window->next;
	window->high = window->next;
	return 0;
}

void window_release(struct window *window)
{
	if (!window->used)
		return;
	syscall(SYS_munmap, window->used, bitmap_bytes(page_count(window)));
	if (!window->adopted)
		syscall(SYS_munmap, window->base, window->length);
	pthread_mutex_destroy(&window->lock);
	pthread_mutex_destroy(&window->protect_lock);
	*window = (struct window){0};
}

/* Returns the first free run of @count pages at an aligned address, or page_count() if there is none. */
static uint64_t find_run(const struct window *window, uint64_t count, uint64_t alignment)
{
	uint64_t total = page_count(window);
	uint64_t skew = (uintptr_t)window->base / WINDOW_PAGE % alignment; /* aligns addresses, not page numbers */
	uint64_t page = find_bit(window, window->next, total, false);

	while (page < total) {
		page = (page + skew + alignment - 1) / alignment * alignment - skew;
		if (page > total || count > total - page)
			return total;
		/* Pages from `high` on are free, so they need not be searched. */
		uint64_t end = page + count < window->high ? page + count : window->high;
		uint64_t taken = page < end ? find_bit(window, page, end, true) : end;
		if (taken == end || page >= end)
			return page;
		page = find_bit(window, taken, total, false);
	}
	return total;
}

static int take(struct window *window, uint64_t page, uint64_t count)
{
	int error = protect(window, page, count, PROT_READ | PROT_WRITE);

	if (error)
		return -ENOMEM;
	bitmap_set(window->used, page, count, true);
	window->allocated += count;
	if (page + count > window->high)
		window->high = page + count;
	if (page == window->next)
		window->next = find_bit(window, page + count, page_count(window), false);
	return 0;
}

int window_allocate(struct window *window, size_t length, size_t alignment, void **ret_address)
{
	uint64_t count = pages_of(length);

	if (!count || alignment & (alignment - 1))
		return -EINVAL;
	if (alignment < WINDOW_PAGE)
		alignment = WINDOW_PAGE;
	pthread_mutex_lock(&window->lock);
	uint64_t page = find_run(window, count, alignment / WINDOW_PAGE);
	int error = page == page_count(window) ? -ENOMEM : take(window, page, count);
	pthread_mutex_unlock(&window->lock);
	if (!error)
		*ret_address = page_address(window, page);
	return error;
}

static bool range_valid(const struct window *window, const void *address, size_t length)
{
	if ((uintptr_t)address % WINDOW_PAGE || !length || !window_contains(window, address))
		return false;
	return pages_of(length) <= page_count(window) - window_page(window, address);
}

int window_allocate_at(struct window *window, void *address, size_t length)
{
	if (!range_valid(window, address, length))
		return -EINVAL;
	uint64_t page = window_page(window, address), count = pages_of(length);
	pthread_mutex_lock(&window->lock);
	bool free = find_bit(window, page, page + count, true) == page + count;
	int error = free ? take(window, page, count) : -EEXIST;
	pthread_mutex_unlock(&window->lock);
	return error;
}

int window_take(struct window *window, void *address, size_t length)
{
	if (!range_valid(window, address, length))
		return -EINVAL;
	uint64_t page = window_page(window, address), end = page + pages_of(length);
	int error = 0;
	pthread_mutex_lock(&window->lock);
	while (!error && (page = find_bit(window, page, end, false)) < end) {
		uint64_t stop = find_bit(window, page, end, true);

		error = take(window, page, stop - page);
		page = stop;
	}
	pthread_mutex_unlock(&window->lock);
	return error;
}

void window_free(struct window *window, void *address, size_t length)
{
	if (!range_valid(window, address, length))
		return;
	uint64_t page = window_page(window, address), end = page + pages_of(length);
	pthread_mutex_lock(&window->lock);
	while ((page = find_bit(window, page, end, true)) < end) {
		uint64_t stop = find_bit(window, page, end, false);

		/* Fails only if the process has too many mappings. The pages are free even so, but may stay
		   accessible. */
		protect(window, page, stop - page, PROT_NONE);
		bitmap_set(window->used, page, stop - page, false);
		assert(window->allocated >= stop - page);
		window->allocated -= stop - page;
		if (page < window->next)
			window->next = page;
		page = stop;
	}
	pthread_mutex_unlock(&window->lock);
}

bool window_allocated(struct window *window, const void *address, size_t length)
{
	if (!range_valid(window, address, length))
		return false;
	uint64_t page = window_page(window, address), count = pages_of(length);
	pthread_mutex_lock(&window->lock);
	bool all = find_bit(window, page, page + count, false) == page + count;
	pthread_mutex_unlock(&window->lock);
	return all;
}

bool window_has(const struct window *window, uint64_t page)
{
	return page < page_count(window) && bitmap_has(window->used, page);
}

void window_fork_prepare(struct window *window)
{
	pthread_mutex_lock(&window->lock);
	pthread_mutex_lock(&window->protect_lock);
}

void window_fork_done(struct window *window)
{
	pthread_mutex_unlock(&window->protect_lock);
	pthread_mutex_unlock(&window->lock);
}

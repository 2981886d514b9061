/*
 * window: the pager window, an address range for far memory, and the allocation of its pages.
 *
 * Theory of operation. The window is one reservation (PROT_NONE, MAP_NORESERVE), which exists until
 * window_release(). Its page i is page i of the store. Allocations are whole pages. A bitmap has one bit per page.
 * The bitmap is a mapping of its own, because the preload library allocates from the window underneath malloc: these
 * functions must not call malloc.
 *
 * A free page is PROT_NONE, as after munmap. An allocated page can be read and written. The caller must empty pages
 * before it frees them: by farpage_advise(DISCARD) or, while no pager runs, by MADV_DONTNEED.
 *
 * Any thread may call these functions. They hold a lock only for work on the bitmap and for mprotect(2).
 */
#ifndef PAGER_WINDOW_H
#define PAGER_WINDOW_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WINDOW_PAGE 4096u

struct window {
	char *base;
	size_t length;                /* bytes */
	uint64_t *used;               /* one bit per page */
	uint64_t next;                /* the lowest free page, where a search begins */
	_Atomic uint64_t high;        /* one more than the highest page ever allocated; read without the lock */
	_Atomic uint64_t allocated;   /* number of pages; read without the lock */
	bool adopted;                 /* the caller made the mapping, so window_release() does not unmap it */
	bool mediated;                /* protections change only while protect_lock is held */
	pthread_mutex_t protect_lock; /* held while protections change, and while the evictor relies on them */
	pthread_mutex_t lock;
};

/* Reserves @length bytes, rounded up to pages. Leaves @room bytes of addresses above the window unmapped if it can; the
   kernel gives away their upper end first. Makes the system calls itself, because the preload library replaces mmap().
   Returns 0, -ENOMEM or -EINVAL. */
int window_reserve(struct window *window, size_t length, size_t room);
/* Makes a window of an existing private anonymous mapping of @length bytes at @base. All pages count as allocated.
   Returns 0, -ENOMEM or -EINVAL. */
int window_adopt(struct window *window, void *base, size_t length);
/* Unmaps the bitmap, and the reservation if window_reserve() made it. */
void window_release(struct window *window);

/* Returns @length rounded up to whole pages: 0 if the last page is above SIZE_MAX, as in the kernel. */
static inline size_t window_round(size_t length)
{
	return (length + WINDOW_PAGE - 1) / WINDOW_PAGE * WINDOW_PAGE;
}

static inline bool window_contains(const struct window *window, const void *address)
{
	return (uintptr_t)address - (uintptr_t)window->base < window->length;
}

/* Returns the page number of @address, which must lie in the window. */
static inline uint64_t window_page(const struct window *window, const void *address)
{
	return ((uintptr_t)address - (uintptr_t)window->base) / WINDOW_PAGE;
}

/* Allocates @length bytes, rounded up to pages. @alignment is a power of two; less than a page counts as a page.
   Takes the lowest addresses that fit, because tables that are indexed by page then use less memory. Returns 0,
   -ENOMEM if no free run is long enough, or -EINVAL. */
int window_allocate(struct window *window, size_t length, size_t alignment, void **ret_address);
/* Allocates the range at @address. Returns 0, -EEXIST if a page of it is allocated already, -EINVAL if it is outside
   the window, or -ENOMEM. */
int window_allocate_at(struct window *window, void *address, size_t length);
/* Allocates those pages of the range that are free. Returns 0, -EINVAL if the range is outside the window, or
   -ENOMEM. */
int window_take(struct window *window, void *address, size_t length);
/* Frees the allocated pages of the range and makes them PROT_NONE. */
void window_free(struct window *window, void *address, size_t length);
bool window_allocated(struct window *window, const void *address, size_t length);

/* Returns true if the page with the number @page is allocated. Takes no lock, so another thread may change it
   meanwhile. */
bool window_has(const struct window *window, uint64_t page);

/* Hold the window's locks during a fork. Otherwise the child could inherit a lock that another thread held, and nobody
   would release it there. near_heap_fork_prepare() must be called before the fork, and near_heap_fork_done() after it,
   in parent and child. */
void window_fork_prepare(struct window *window);
void window_fork_done(struct window *window);

#endif

/*
 * window: the pager window, an address range for far memory, and its allocation.
 *
 * Theory of operation. One reservation (PROT_NONE, not accounted) is made and kept for good. Its page i is page i of
 * the store. Allocations are whole pages, kept in a bitmap of one bit per page. The bitmap is a mapping of its own, so
 * that these functions call no allocator: the preload library uses the window underneath malloc. Free pages are
 * PROT_NONE, like after munmap. Allocated pages are readable and writable. Pages must be emptied before they are freed:
 * by farpage_advise(DISCARD), or, before a pager runs, by MADV_DONTNEED.
 *
 * Any thread may call these functions. A lock is held only for work on the bitmap and for mprotect(2).
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
	uint64_t *used;               /* one bit a page */
	uint64_t next;                /* the lowest free page, where searches begin */
	_Atomic uint64_t high;        /* first page never allocated so far; read without the lock */
	uint64_t allocated;           /* pages allocated now */
	bool adopted;                 /* the caller made the mapping, which stays */
	bool mediated;                /* the owner promises to change protections by window_protect() alone */
	pthread_mutex_t protect_lock; /* held while protections change, or must not change */
	pthread_mutex_t lock;
};

/* Reserves @length bytes (rounded up to pages). Makes the system call mmap(2) itself, without libc. Returns 0, -ENOMEM
   or -EINVAL. */
int window_reserve(struct window *window, size_t length);
/* Takes an existing private anonymous mapping of @length bytes at @base as entirely allocated. Returns 0, -ENOMEM or
   -EINVAL. */
int window_adopt(struct window *window, void *base, size_t length);
/* Unmaps the bitmap, and the reservation unless it was adopted. */
void window_release(struct window *window);

static inline bool window_contains(const struct window *window, const void *address)
{
	return (uintptr_t)address - (uintptr_t)window->base < window->length;
}

/* Returns the number of the page of @address, which lies in the window. */
static inline uint64_t window_page(const struct window *window, const void *address)
{
	return ((uintptr_t)address - (uintptr_t)window->base) / WINDOW_PAGE;
}

/*
 * Allocates @length bytes, rounded up to pages. @alignment is a power of two. An alignment below a page counts as a
 * page. Allocations stay close together at the low end (first fit), so that bookkeeping stays dense. Returns 0, -ENOMEM
 * if there is no such run, or -EINVAL.
 */
int window_allocate(struct window *window, size_t length, size_t alignment, void **ret_address);
/* Allocates a range at a fixed place. Returns 0, -EEXIST if any page of it is taken, -EINVAL if it is outside the
   window, or -ENOMEM. */
int window_allocate_at(struct window *window, void *address, size_t length);
/* Allocates all pages of the range that are still free. Returns 0, -EINVAL if it is outside the window, or -ENOMEM. */
int window_take(struct window *window, void *address, size_t length);
/* Frees the allocated pages of [@address, +@length), and makes them PROT_NONE. */
void window_free(struct window *window, void *address, size_t length);
/* Returns true if every page of the range is allocated. */
bool window_allocated(struct window *window, const void *address, size_t length);

/* Calls mprotect(2) on a range, which need not lie in the window. Waits while the evictor relies on the protections
   (take.c). Returns 0, or -1 with errno. */
int window_protect(struct window *window, void *address, size_t length, int protection);
/* Does the same with pkey_mprotect(2). */
int window_protect_by_key(struct window *window, void *address, size_t length, int protection, int key);

/* Returns how many of the @max pages from @page on are allocated, up to the first free page. Takes no lock, so the
   answer may be old. */
unsigned window_run(const struct window *window, uint64_t page, unsigned max);

/* Keep a fork from copying a held lock. Call prepare before the fork, and done after it in parent and child. */
void window_fork_prepare(struct window *window);
void window_fork_done(struct window *window);

#endif

/*
 * window: the address space far memory is mapped in, and who has which pages of it.
 *
 * Theory of operation. One reservation (PROT_NONE, not accounted) is made for good; page i of it is page i of the
 * store. Allocations are whole pages, kept in a bitmap of one bit a page that lives in a mapping of its own, so that
 * nothing here calls an allocator: the preload library uses it underneath malloc. Free pages are PROT_NONE, as they
 * would be after munmap; allocated ones are readable and writable. Contents are the pager's business: pages must
 * have been emptied (farpage_advise(DISCARD), or MADV_DONTNEED before a pager runs) before they are freed.
 *
 * Any thread; a lock inside, held for bitmap work and mprotect(2) only.
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
	uint64_t next;                /* the lowest free page: where searches begin */
	_Atomic uint64_t high;        /* first page never allocated so far; read without the lock */
	uint64_t allocated;           /* pages allocated now */
	bool adopted;                 /* the mapping was handed in and stays */
	bool mediated;                /* its owner promises to change protections by window_protect() alone */
	pthread_mutex_t protect_lock; /* held while protections change, or somebody relies on them */
	pthread_mutex_t lock;
};

/* Reserves @length bytes (rounded up to pages). -ENOMEM, -EINVAL. Calls mmap(2) as a system call, not the libc symbol.
 */
int window_reserve(struct window *window, size_t length);
/* Takes an existing private anonymous mapping of @length bytes at @base as wholly allocated. -ENOMEM, -EINVAL. */
int window_adopt(struct window *window, void *base, size_t length);
/* Unmaps the reservation (not an adopted one) and the bitmap. */
void window_release(struct window *window);

static inline bool window_contains(const struct window *window, const void *address)
{
	return (uintptr_t)address - (uintptr_t)window->base < window->length;
}

/*
 * @length: bytes, rounded up to pages; @alignment: power of two, at least a page. New allocations keep close
 * together at the low end (first fit), so that bookkeeping stays dense. -ENOMEM: no such run.
 */
int window_allocate(struct window *window, size_t length, size_t alignment, void **ret_address);
/* The same at a fixed place: -EEXIST when any page of it is taken, -EINVAL outside the window. */
int window_allocate_at(struct window *window, void *address, size_t length);
/* All pages of the range are allocated afterwards, whatever they were. -EINVAL outside the window, -ENOMEM. */
int window_take(struct window *window, void *address, size_t length);
/* Pages of [@address, +@length) that are allocated become free and PROT_NONE. */
void window_free(struct window *window, void *address, size_t length);
/* True when every page of the range is allocated. */
bool window_allocated(struct window *window, const void *address, size_t length);

/*
 * mprotect(2) of a range, all of it in the window or not. Waits while the evictor has the protection of pages changed
 * (take.c). -1 and errno.
 */
int window_protect(struct window *window, void *address, size_t length, int protection);
/* The same with pkey_mprotect(2). */
int window_protect_by_key(struct window *window, void *address, size_t length, int protection, int key);

/* How many of the @max pages from @page on are allocated, up to the first that is not. No lock: the answer may be old.
 */
unsigned window_run(const struct window *window, uint64_t page, unsigned max);

/* A fork in between must not copy a held lock: before in the parent, after in both. */
void window_fork_prepare(struct window *window);
void window_fork_done(struct window *window);

#endif

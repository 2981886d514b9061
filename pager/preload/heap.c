/*
 * heap: the malloc family. Far threads allocate from libmimalloc, whose memory comes from the window (mapping.c); near
 * threads, and all of a process that was told nothing, from the C library's own heap. A block goes back to the heap its
 * address belongs to, whoever frees it.
 *
 * Where mimalloc and glibc differ in what they accept, a program sees what glibc does: realloc(p, 0) frees, memalign
 * rounds an odd alignment up, aligned_alloc takes any size.
 */
#include "pager/preload/preload.h"
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <mimalloc.h>
#include <stdint.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static inline bool in_window(const void *block)
{
	return window_contains(&preload.window, block);
}

/* What every allocation from the far heap ends with. */
static inline void *far_block(void *block)
{
	if (__builtin_expect(!block, false))
		errno = ENOMEM;
	preload_start_if_due();
	return block;
}

PRELOAD_EXPORT void *malloc(size_t size)
{
	if (!preload_is_far())
		return __libc_malloc(size);
	return far_block(mi_malloc(size));
}

PRELOAD_EXPORT void *calloc(size_t count, size_t size)
{
	if (!preload_is_far())
		return __libc_calloc(count, size);
	return far_block(mi_calloc(count, size));
}

PRELOAD_EXPORT void free(void *block)
{
	if (in_window(block))
		mi_free(block);
	else if (block)
		__libc_free(block);
}

PRELOAD_EXPORT void *realloc(void *block, size_t size)
{
	if (!block)
		return malloc(size);
	if (!in_window(block))
		return __libc_realloc(block, size);
	if (!size) {
		mi_free(block);
		return NULL;
	}
	return far_block(mi_realloc(block, size));
}

PRELOAD_EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(block, bytes);
}

/* libmimalloc 2.0.9 takes blocks whose size is a multiple of the alignment to be aligned by nature, and up to 1 KiB
   they are not always. One byte more avoids that way. */
static void *mimalloc_aligned(size_t alignment, size_t size)
{
	void *block = mi_malloc_aligned(size, alignment);
	if (__builtin_expect(((uintptr_t)block & (alignment - 1)) == 0, true) || size == SIZE_MAX)
		return block;
	mi_free(block);
	return mi_malloc_aligned(size + 1, alignment);
}

static void *allocate_aligned(size_t alignment, size_t size)
{
	if (!preload_is_far())
		return __libc_memalign(alignment, size);
	return far_block(mimalloc_aligned(alignment, size));
}

PRELOAD_EXPORT void *memalign(size_t alignment, size_t size)
{
	size_t power = sizeof(void *);
	while (power < alignment && power <= SIZE_MAX / 4)
		power *= 2;
	if (power < alignment) {
		errno = EINVAL;
		return NULL;
	}
	return allocate_aligned(power, size);
}

PRELOAD_EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

PRELOAD_EXPORT int posix_memalign(void **ret_block, size_t alignment, size_t size)
{
	if (!alignment || alignment % sizeof(void *) || alignment & (alignment - 1))
		return EINVAL;
	int error = errno;
	void *block = allocate_aligned(alignment, size);
	errno = error;
	if (!block)
		return ENOMEM;
	*ret_block = block;
	return 0;
}

PRELOAD_EXPORT void *valloc(size_t size)
{
	return allocate_aligned(WINDOW_PAGE, size);
}

PRELOAD_EXPORT void *pvalloc(size_t size)
{
	if (size > SIZE_MAX - WINDOW_PAGE) {
		errno = ENOMEM;
		return NULL;
	}
	return allocate_aligned(WINDOW_PAGE, (size + WINDOW_PAGE - 1) / WINDOW_PAGE * WINDOW_PAGE);
}

/* The C library's, for blocks of its heap. */
static size_t near_usable_size(void *block)
{
	static size_t (*usable_size)(void *);
	if (!usable_size)
		usable_size = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
	return usable_size ? usable_size(block) : 0;
}

PRELOAD_EXPORT size_t malloc_usable_size(void *block)
{
	if (!block)
		return 0;
	return in_window(block) ? mi_usable_size(block) : near_usable_size(block);
}

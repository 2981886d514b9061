/*
 * heap: the malloc family. Which heap serves a call depends on the thread:
 * - A far thread (preload.h) allocates from libmimalloc, whose memory is in the window (mapping.c).
 * - A near thread allocates from near_heap.h.
 * - If the library is not configured, the C library's heap serves all threads.
 *
 * Any thread can free any block, because a block's address shows its heap.
 *
 * If the program has its own malloc, in its executable or by LD_PRELOAD, only farpage's own code uses this file. The
 * linker (--wrap, in meson.build) binds the calls of farpage's code to the functions at the end of this file.
 *
 * A library of the program may also have a malloc that is behind this library's malloc in the search order. Such a
 * library allocates by functions of its own, but may call free(), as libjemalloc's operator delete does. So this file
 * passes a block that is in the window, but not mimalloc's, to the next library's function.
 *
 * If mimalloc and glibc differ, the program sees glibc's behaviour:
 * - realloc(p, 0) frees.
 * - memalign rounds an odd alignment up.
 * - aligned_alloc takes any size.
 */
#include "pager/preload/near_heap.h"
#include "pager/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <mimalloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BLOCK ((size_t)128 << 10) /* from here on, the C library's realloc moves a block by mremap */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static inline bool in_window(const void *block)
{
	return window_contains(&preload.window, block);
}

static inline bool is_heap_block(const void *block)
{
	return in_window(block) && mapping_is_heap(block);
}

static inline bool near_heap_serves(void)
{
	return preload.far_heap;
}

static void *near_malloc(size_t size)
{
	return near_heap_serves() ? near_heap_allocate(size, 0) : __libc_malloc(size);
}

static void *near_calloc(size_t count, size_t size)
{
	return near_heap_serves() ? near_heap_zeroed(count, size) : __libc_calloc(count, size);
}

static void *near_memalign(size_t alignment, size_t size)
{
	return near_heap_serves() ? near_heap_allocate(size, alignment) : __libc_memalign(alignment, size);
}

static void near_free(void *block)
{
	if (near_heap_contains(block))
		near_heap_free(block);
	else if (block)
		__libc_free(block);
}

/* Called at the end of every allocation from libmimalloc. Sets errno if there was no memory, and starts the pager if
   its start is due. If the loader is the caller, a later allocation does this: during dlopen() the loader holds a lock
   that pthread_create() needs, so the starter could not be created. */
static inline void *far_block(void *block, const void *caller)
{
	if (__builtin_expect(!block, false))
		errno = ENOMEM;
	if (__builtin_expect(preload.start_due, false) && !preload_is_loader_code(caller))
		preload_start_if_due();
	return block;
}

/* The code that called the exported function in which this stands. */
#define CALLER() __builtin_return_address(0)

PRELOAD_EXPORT void *malloc(size_t size)
{
	if (!preload_is_far())
		return near_malloc(size);
	return far_block(mi_malloc(size), CALLER());
}

PRELOAD_EXPORT void *calloc(size_t count, size_t size)
{
	if (!preload_is_far())
		return near_calloc(count, size);
	return far_block(mi_calloc(count, size), CALLER());
}

/* Frees a block of a library that is behind this library in the search order. */
static void next_free(void *block)
{
	static void (*next)(void *);

	if (!next)
		next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	next(block);
}

static void *next_realloc(void *block, size_t size)
{
	static void *(*next)(void *, size_t);

	if (!next)
		next = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
	return next(block, size);
}

PRELOAD_EXPORT void free(void *block)
{
	if (is_heap_block(block))
		mi_free(block);
	else if (in_window(block))
		next_free(block);
	else
		near_free(block);
}

static void *near_realloc(void *block, size_t size)
{
	if (size)
		return near_heap_resize(block, size);
	near_heap_free(block);
	return NULL;
}

/* Grows a block of libmimalloc. A large block gets room at its end: it often grows again, and each move copies the
   block, which touches all its pages. The room costs no memory, because nobody touches it. Returns NULL if there is no
   memory. */
static void *grow(void *block, size_t size)
{
	void *grown = NULL;

	if (size >= LARGE_BLOCK && size < PTRDIFF_MAX / 2)
		grown = mi_realloc(block, size + size / 2);
	return grown ? grown : mi_realloc(block, size);
}

PRELOAD_EXPORT void *realloc(void *block, size_t size)
{
	if (!block)
		return malloc(size);
	if (!in_window(block))
		return near_heap_contains(block) ? near_realloc(block, size) : __libc_realloc(block, size);
	if (!mapping_is_heap(block))
		return next_realloc(block, size);
	if (!size) {
		mi_free(block);
		return NULL;
	}
	return far_block(size > mi_usable_size(block) ? grow(block, size) : mi_realloc(block, size), CALLER());
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

/* libmimalloc 2.0.9 assumes that a block is aligned if its size is a multiple of the alignment. For blocks up to 1 KiB
   the assumption can be false. This function then asks for one byte more, so that the size is no such multiple. */
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
		return near_memalign(alignment, size);
	return far_block(mimalloc_aligned(alignment, size), NULL); /* the loader aligns its blocks itself */
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
	return allocate_aligned(WINDOW_PAGE, window_round(size));
}

/* Returns the usable size of a block that is not mimalloc's. */
static size_t near_usable_size(void *block)
{
	if (near_heap_contains(block))
		return near_heap_usable(block);
	static size_t (*usable_size)(void *);
	if (!usable_size)
		usable_size = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
	return usable_size ? usable_size(block) : 0;
}

PRELOAD_EXPORT size_t malloc_usable_size(void *block)
{
	if (!block)
		return 0;
	return is_heap_block(block) ? mi_usable_size(block) : near_usable_size(block);
}

/* --- Calls of farpage's own code, whatever malloc the program has ------------------------------------------------- */

void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	return near_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	return near_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size)
{
	if (!block)
		return near_malloc(size);
	return near_heap_contains(block) ? near_realloc(block, size) : __libc_realloc(block, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return near_memalign(alignment, size);
}

void __wrap_free(void *block);
void __wrap_free(void *block)
{
	near_free(block);
}

char *__wrap_strndup(const char *text, size_t most);
char *__wrap_strndup(const char *text, size_t most)
{
	size_t length = strnlen(text, most);
	char *copy = near_malloc(length + 1);

	if (copy) {
		memcpy(copy, text, length);
		copy[length] = '\0';
	}
	return copy;
}

char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
	return __wrap_strndup(text, SIZE_MAX);
}

bool heap_is_ours(void)
{
	/* If the program has its own malloc, this call makes that malloc register its fork handlers
	   (process_begin()). */
	free(malloc(1));
	return preload_has_name("malloc");
}

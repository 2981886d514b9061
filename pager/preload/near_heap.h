/*
 * near_heap: farpage's own heap, in memory that is never far. Threads of farpage allocate here whatever malloc the
 * program brings: no name that a program can define (malloc, __libc_malloc) is called, and no lock of its heap taken.
 *
 * Theory of operation. A reservation of address space; blocks of a size class (powers of two) are cut from its front
 * and, once freed, kept in a list of their class. Freed blocks of many pages give their memory back to the kernel. What
 * farpage allocates is little, and mostly when it starts: the data path allocates nothing.
 *
 * Threads: any, with one lock for all.
 */
#ifndef PAGER_PRELOAD_NEAR_HEAP_H
#define PAGER_PRELOAD_NEAR_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* Reserves the heap's addresses, before its first use. -errno. */
int near_heap_reserve(void);
bool near_heap_contains(const void *block);

/* As malloc(3) and its family; NULL and errno ENOMEM when there is no room. @alignment: a power of two. */
void *near_heap_allocate(size_t size, size_t alignment);
void *near_heap_zeroed(size_t count, size_t size);
void *near_heap_resize(void *block, size_t size);
void near_heap_free(void *block);
size_t near_heap_usable(const void *block);

/* A fork in between must not copy a held lock: before in the parent, after in both. */
void near_heap_fork_prepare(void);
void near_heap_fork_done(void);

#endif

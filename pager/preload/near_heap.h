/*
 * near_heap: farpage's own heap, in memory that is never far. Threads of farpage allocate here, even if the program
 * brings its own malloc. The heap calls no function that a program can define (malloc, __libc_malloc), and takes no
 * lock of the program's heap.
 *
 * Theory of operation. The heap is a reservation of address space. Blocks of a size class (powers of two) are cut from
 * its front. A freed block goes to the list of its class. Freed blocks of many pages give their memory back to the
 * kernel. farpage allocates little, and mostly when it starts. The data path allocates nothing.
 *
 * Threads: any, with one lock for all.
 */
#ifndef PAGER_PRELOAD_NEAR_HEAP_H
#define PAGER_PRELOAD_NEAR_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* Reserves the heap's addresses, before its first use. Returns 0 or -errno. */
int near_heap_reserve(void);
bool near_heap_contains(const void *block);

/* Do the same as malloc(3) and its family. Return NULL with errno ENOMEM if there is no room. @alignment is a power of
   two, or 0 for that of malloc. */
void *near_heap_allocate(size_t size, size_t alignment);
void *near_heap_zeroed(size_t count, size_t size);
void *near_heap_resize(void *block, size_t size);
void near_heap_free(void *block);
size_t near_heap_usable(const void *block);

/* Keep a fork from copying a held lock. Call prepare before the fork, and done after it in parent and child. */
void near_heap_fork_prepare(void);
void near_heap_fork_done(void);

#endif

/*
 * near_heap: farpage's own heap, whose memory is never far. Near threads allocate here (preload.h). The heap calls
 * no function that the program could replace, such as malloc or __libc_malloc, and needs no lock of the program's
 * heap.
 *
 * Theory of operation. The heap is one reservation of address space. A block's size is a power of two, its class.
 * New blocks are cut from the front of the reservation. A freed block goes to the list of its class, for reuse; from
 * 64 KiB on, its memory is first returned to the kernel. The heap is simple and not fast, because farpage allocates
 * little, mostly when it starts, and never on the data path.
 *
 * Threads: any. One lock guards the heap.
 */
#ifndef PAGER_PRELOAD_NEAR_HEAP_H
#define PAGER_PRELOAD_NEAR_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* Reserves the heap's address space. Must be called before the heap is used. Returns 0 or -errno. */
int near_heap_reserve(void);
bool near_heap_contains(const void *block);

/* Do the same as malloc(3) and its family. @alignment is a power of two, or 0 for malloc's alignment. Return NULL
   with errno ENOMEM if there is no memory. */
void *near_heap_allocate(size_t size, size_t alignment);
void *near_heap_zeroed(size_t count, size_t size);
void *near_heap_resize(void *block, size_t size);
void near_heap_free(void *block);
size_t near_heap_usable(const void *block);

/* Hold the heap's lock during a fork. Otherwise the child could inherit the lock while another thread held it, and
   nobody would release it there. near_heap_fork_prepare() must be called before the fork, and near_heap_fork_done()
   after it, in parent and child. */
void near_heap_fork_prepare(void);
void near_heap_fork_done(void);

#endif

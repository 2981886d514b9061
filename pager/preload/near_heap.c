#include "pager/preload/near_heap.h"

#include "pager/preload/preload.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define RESERVATION ((size_t)64 << 30)
#define CLASS_MIN 5u /* 32 bytes, of which the header has 16 */
#define CLASSES 36u
#define CLASS_GIVEN_BACK 16u /* 64 KiB: from this class on, freed memory returns to the kernel */
#define COMMIT_STEP ((size_t)1 << 20)

/* The header before each block. A free block uses `next`, the next free block of its class. */
struct header {
	union {
		struct header *next;
		struct header *whole; /* the header at the start of the cut; an aligned block has a second header */
	};
	uint64_t class;
};
_Static_assert(sizeof(struct header) == 16, "blocks are aligned like malloc's");

static struct {
	pthread_mutex_t lock;
	char *base, *next, *committed, *end; /* memory from `next` on was never cut; below `committed` it is writable */
	struct header *free[CLASSES];
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

int near_heap_reserve(void)
{
	char *base = kernel_mmap(NULL, RESERVATION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return -errno;
	kernel_madvise(base, RESERVATION, MADV_NOHUGEPAGE);
	heap.base = heap.next = heap.committed = base;
	heap.end = base + RESERVATION;
	return 0;
}

bool near_heap_contains(const void *block)
{
	return (uintptr_t)block - (uintptr_t)heap.base < RESERVATION && heap.base;
}

static unsigned class_of(size_t bytes)
{
	unsigned class = CLASS_MIN;

	while (class < CLASSES && (size_t)1 << class < bytes)
		class ++;
	return class;
}

/* Cuts a new block. The lock is held. Returns NULL if there is no memory. */
static struct header *cut_new(size_t bytes)
{
	if ((size_t)(heap.committed - heap.next) < bytes) {
		size_t step = (bytes + COMMIT_STEP - 1) / COMMIT_STEP * COMMIT_STEP;

		if (step > (size_t)(heap.end - heap.committed) ||
		    kernel_mprotect(heap.committed, step, PROT_READ | PROT_WRITE))
			return NULL;
		heap.committed += step;
	}
	struct header *header = (struct header *)heap.next;
	heap.next += bytes;
	return header;
}

/* Returns the header of a free block of the class, or NULL if there is no memory. If *@ret_fresh is true, the block
   reads as zeroes. */
static struct header *cut(unsigned class, bool *ret_fresh)
{
	pthread_mutex_lock(&heap.lock);
	struct header *header = heap.free[class];
	*ret_fresh = !header || class >= CLASS_GIVEN_BACK;
	if (header)
		heap.free[class] = header->next;
	else
		header = cut_new((size_t)1 << class);
	pthread_mutex_unlock(&heap.lock);
	if (header)
		*header = (struct header){.whole = header, .class = class};
	return header;
}

static void *allocate(size_t size, size_t alignment, bool *ret_fresh)
{
	size_t room = alignment > sizeof(struct header) ? alignment : 0;
	unsigned class =
	    size < RESERVATION && room < RESERVATION ? class_of(size + room + sizeof(struct header)) : CLASSES;
	struct header *whole = class < CLASSES ? cut(class, ret_fresh) : NULL;

	if (!whole) {
		errno = ENOMEM;
		return NULL;
	}
	uintptr_t block = (uintptr_t)(whole + 1);
	if (room && block % alignment) {
		block += alignment - block % alignment;
		((struct header *)block)[-1] = *whole;
	}
	return (void *)block;
}

void *near_heap_allocate(size_t size, size_t alignment)
{
	bool fresh;

	return allocate(size, alignment, &fresh);
}

void *near_heap_zeroed(size_t count, size_t size)
{
	size_t bytes;
	bool fresh;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	void *block = allocate(bytes, 0, &fresh);
	if (block && !fresh)
		memset(block, 0, bytes);
	return block;
}

size_t near_heap_usable(const void *block)
{
	const struct header *header = (const struct header *)block - 1;

	return (size_t)((const char *)header->whole + ((size_t)1 << header->class) - (const char *)block);
}

void near_heap_free(void *block)
{
	if (!block)
		return;
	struct header *whole = ((struct header *)block)[-1].whole;
	unsigned class = (unsigned)whole->class;
	if (class >= CLASS_GIVEN_BACK) {
		int error = errno;

		if (kernel_madvise(whole, (size_t)1 << class, MADV_DONTNEED))
			memset(whole, 0, (size_t)1 << class); /* madvise() fails for locked memory */
		errno = error;
	}
	pthread_mutex_lock(&heap.lock);
	whole->next = heap.free[class];
	heap.free[class] = whole;
	pthread_mutex_unlock(&heap.lock);
}

void *near_heap_resize(void *block, size_t size)
{
	if (!block)
		return near_heap_allocate(size, 0);
	size_t usable = near_heap_usable(block);
	if (size <= usable)
		return block;
	void *longer = near_heap_allocate(size, 0);
	if (longer) {
		memcpy(longer, block, usable);
		near_heap_free(block);
	}
	return longer;
}

void near_heap_fork_prepare(void)
{
	pthread_mutex_lock(&heap.lock);
}

void near_heap_fork_done(void)
{
	pthread_mutex_unlock(&heap.lock);
}

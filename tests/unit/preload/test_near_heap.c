/* near_heap: blocks do not overlap. They are aligned, zeroed on request, and used again. Threads share the heap. */
#include "pager/preload/near_heap.h"
#include "tests/lib/mix.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>

#define BLOCKS 4000u
#define THREADS 4u

static bool is_zero(const char *block, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (block[i])
			return false;
	return true;
}

static void blocks_are_aligned_and_known(void)
{
	bool right = true;

	for (size_t alignment = 16; alignment <= 1u << 16; alignment *= 2) {
		char *block = near_heap_allocate(100, alignment);

		right &= block && (uintptr_t)block % alignment == 0 && near_heap_contains(block) &&
			 near_heap_usable(block) >= 100;
		memset(block, 1, near_heap_usable(block));
		near_heap_free(block);
	}
	ok(right, "blocks have the requested alignment and belong to the heap");
	int local;
	ok(!near_heap_contains(&local) && !near_heap_contains(NULL),
	   "a local variable and NULL do not belong to the heap");
}

static void freed_blocks_are_used_again(void)
{
	static const size_t sizes[] = {1, 100, 5000, 1 << 20};

	for (unsigned i = 0; i < 4; i++) {
		char *block = near_heap_allocate(sizes[i], 0);

		memset(block, 0xff, sizes[i]);
		near_heap_free(block);
		char *again = near_heap_zeroed(sizes[i], 1);
		ok(again == block && is_zero(again, sizes[i]), "a freed block of %zu bytes is used again, zeroed",
		   sizes[i]);
		near_heap_free(again);
	}
}

static void blocks_grow_with_their_contents(void)
{
	char *block = near_heap_resize(NULL, 10);

	memcpy(block, "contents", 9);
	for (size_t size = 20; size <= 4u << 20; size *= 3)
		block = near_heap_resize(block, size);
	ok(!strcmp(block, "contents"), "a block that grows keeps its contents");
	char *before = block;
	ok(near_heap_resize(block, 10) == before, "a block that shrinks stays at its address");
	near_heap_free(block);
	near_heap_free(NULL);
}

static void too_much_is_refused(void)
{
	errno = 0;
	ok(!near_heap_allocate(SIZE_MAX, 0) && errno == ENOMEM, "allocating SIZE_MAX bytes fails with ENOMEM");
	ok(!near_heap_allocate((size_t)1 << 40, 0), "allocating more than the reservation fails");
	ok(!near_heap_zeroed(SIZE_MAX / 2, 3), "a zeroed allocation whose product overflows fails");
}

static void *churn(void *argument)
{
	uint64_t seed = (uintptr_t)argument;
	static __thread uint64_t *blocks[BLOCKS];
	size_t bad = 0;

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < BLOCKS; i++) {
			if (blocks[i])
				bad += blocks[i][0] != mix(seed + i) || blocks[i][1] != ~mix(seed + i);
			near_heap_free(blocks[i]);
			blocks[i] = near_heap_allocate(16 + mix(seed + round + i) % 300, 0);
			blocks[i][0] = mix(seed + i);
			blocks[i][1] = ~blocks[i][0];
		}
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		near_heap_free(blocks[i]);
	return (void *)bad;
}

static void threads_share_the_heap(void)
{
	pthread_t threads[THREADS];
	size_t bad = 0;
	void *result;

	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, churn, (void *)((i + 1) << 32)))
			abort();
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		bad += (size_t)result;
	}
	ok(bad == 0, "blocks of several threads do not overlap (%zu do)", bad);
}

int main(void)
{
	if (near_heap_reserve())
		return tap_skip_all("no room for the reservation");
	blocks_are_aligned_and_known();
	freed_blocks_are_used_again();
	blocks_grow_with_their_contents();
	too_much_is_refused();
	threads_share_the_heap();
	return tap_done();
}

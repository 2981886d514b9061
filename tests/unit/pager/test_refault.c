/* refault: the depth of a fetched page is its place among the far pages. */
#include "common/random.h"
#include "pager/pages.h"
#include "pager/refault.h"
#include "tests/lib/tap.h"

enum { BUDGET = 1024, UNIT = 64, FAR = 5000 };

static struct refault refault;
static struct histogram depths;

static void begin(uint64_t departed)
{
	refault_open(&refault, &depths, BUDGET);
	refault.departed = departed;
}

/* Lets @count pages become far. Returns the stamp of the first one. */
static uint32_t leave(unsigned count)
{
	uint32_t stamp = refault_stamp(&refault);

	for (unsigned i = 0; i < count; i++)
		refault_count(&refault);
	return stamp;
}

/* Fetches a page, and returns the depth that is recorded. It is exact below 32, otherwise the end of a bucket. */
static uint64_t fetch(uint32_t stamp)
{
	memset(&depths, 0, sizeof depths);
	refault_record(&refault, stamp);
	for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
		if (depths.buckets[bucket])
			return histogram_bucket_end(bucket);
	return UINT64_MAX;
}

/* Returns true if @depth is right within @units generations and the width of a bucket. */
static bool is_about(uint64_t depth, uint64_t expected, unsigned units)
{
	bool good = depth + units * UNIT >= expected && depth <= expected + expected / 32 + units * UNIT;

	if (!good)
		printf("# depth %llu, expected %llu\n", (unsigned long long)depth, (unsigned long long)expected);
	return good;
}

static void a_depth_is_the_place_among_the_far_pages(void)
{
	begin(0);
	ok(1u << refault.shift == UNIT, "a generation is a sixteenth of a budget that is a power of two");
	ok(fetch(leave(1)) == 1, "a page that is fetched at once has depth 1");
	ok(fetch(leave(20)) == 20, "a page after which 19 others become far has depth 20");
	uint32_t stamp = leave(3000);
	leave(FAR);
	ok(is_about(fetch(stamp), 3000 + FAR, 2), "the depth of a page in a circle is the size of the circle");
	refault_open(&refault, &depths, UINT64_C(1) << 20);
	ok(refault.shift == 16, "a generation is a sixteenth of a budget of 4 GiB");
	refault_open(&refault, &depths, 31);
	ok(refault.shift == 0, "a generation of the smallest budget is a page");
}

static void pages_that_are_not_far_do_not_count(void)
{
	begin(0);
	uint32_t stamp = leave(1);
	for (unsigned i = 0; i < 1000; i++)
		fetch(leave(1));
	ok(fetch(stamp) == 1, "a page that becomes far a thousand times, and is fetched each time, counts for nothing");
	stamp = leave(1);
	for (unsigned i = 0; i < 100; i++)
		refault_forget(&refault, leave(1));
	ok(fetch(stamp) == 1, "pages that are discarded while they are far count for nothing");
}

static void generations_are_reused(void)
{
	begin(0);
	uint32_t old = leave(UNIT);
	leave((REFAULT_GENERATIONS - 1) * UNIT + 1);
	ok(refault.oldest == UNIT && is_about(fetch(old), REFAULT_GENERATIONS * UNIT, 1),
	   "a page that is older than all generations has all far pages before it");
	ok(refault.oldest == UNIT - 1, "a fetched page of an old generation is forgotten");
	ok(fetch(leave(1)) == 2, "a page is young after the generations were used again");
	int64_t sum = 0, sums = 0;
	for (unsigned i = 0; i < REFAULT_GENERATIONS; i++)
		sum += refault.far[i];
	for (unsigned i = 0; i < REFAULT_BLOCKS; i++)
		sums += refault.sums[i];
	ok(sum == sums && sum + refault.oldest == (int64_t)REFAULT_GENERATIONS * UNIT,
	   "the counters add up to the pages that are far");
}

static void stamps_wrap_around(void)
{
	begin((uint64_t)PAGE_FRAME_MAX * UNIT); /* the first page of the last stamp's generation */
	uint32_t stamp = leave(10 * UNIT);
	ok(stamp == PAGE_FRAME_MAX && refault_stamp(&refault) == 9, "stamps begin at 0 again after 2^24 generations");
	ok(is_about(fetch(stamp), 10 * UNIT, 1), "a depth is right when the stamps have begun again");
	begin(UINT64_MAX - UNIT + 1);
	stamp = leave(10 * UNIT);
	ok(is_about(fetch(stamp), 10 * UNIT, 1), "a depth is right when the counter of 64 bits has begun again");
}

/* Fetches random far pages, each of which becomes far again. Compares each depth with the place in a real list. */
static void depths_are_those_of_a_list(void)
{
	static uint32_t stamp[FAR], list[FAR];
	struct random_state random;
	bool good = true;

	begin(0);
	random_seed(&random, 1);
	for (uint32_t page = 0; page < FAR; page++) {
		list[FAR - 1 - page] = page;
		stamp[page] = leave(1);
	}
	for (unsigned round = 0; round < 20000 && good; round++) {
		uint32_t place = (uint32_t)(random_next(&random) % FAR), page = list[place];

		good = is_about(fetch(stamp[page]), place + 1, 1);
		memmove(list + 1, list, place * sizeof list[0]);
		list[0] = page;
		stamp[page] = leave(1);
	}
	ok(good, "the depths of pages fetched at random are their places in a list of the far pages");
}

int main(void)
{
	a_depth_is_the_place_among_the_far_pages();
	pages_that_are_not_far_do_not_count();
	generations_are_reused();
	stamps_wrap_around();
	depths_are_those_of_a_list();
	return tap_done();
}

/* streams: how far to read ahead if faults come in order. Other faults cause no read-ahead. */
#include "common/random.h"
#include "pager/streams.h"
#include "tests/lib/tap.h"

#define LIMIT 64u

static struct streams streams;

/* Faults on @page, and reads all that is advised. Returns the page of the stream's next fault. */
static uint64_t fault(uint64_t page)
{
	unsigned count = streams_note(&streams, page);

	if (count)
		streams_extend(&streams, page, count);
	return page + count + 1;
}

/* Faults @times times in order, from @page on. Returns the next page. */
static uint64_t faults(uint64_t page, unsigned times)
{
	while (times--)
		page = fault(page);
	return page;
}

static void faults_in_order_double_the_read_ahead(void)
{
	streams_init(&streams, LIMIT);
	ok(fault(1000) == 1001, "a first fault gets no read-ahead");
	uint64_t page = fault(1001);
	unsigned last = (unsigned)(page - 1002);
	ok(last > 0 && last < LIMIT, "a fault next to a recent one starts a read-ahead (%u pages)", last);
	bool doubled = true;
	for (unsigned i = 0; i < 10; i++) {
		uint64_t next = fault(page);
		unsigned length = (unsigned)(next - page - 1);

		doubled &= length == (2 * last < LIMIT ? 2 * last : LIMIT);
		last = length;
		page = next;
	}
	ok(doubled, "each fault where a stream continues doubles the read-ahead up to the limit");
	ok(last == LIMIT, "a long stream reads as far ahead as the limit (%u pages)", last);
	ok(fault(page + 1000) == page + 1001, "a fault far from a stream gets no read-ahead");
	ok(fault(page) == page + LIMIT + 1, "a stream goes on after a fault elsewhere");
}

static void a_stream_continues_behind_what_was_read(void)
{
	streams_init(&streams, LIMIT);
	uint64_t page = faults(500, 5);
	ok(streams_note(&streams, page) > 3, "a stream wants more than three pages");
	streams_extend(&streams, page, 3);
	ok(streams_note(&streams, page + 4) > 0,
	   "a stream continues behind the pages that were read if they were fewer than wanted");
	streams_init(&streams, LIMIT);
	page = faults(500, 5);
	streams_note(&streams, page);
	ok(streams_note(&streams, page + 1) > 0, "a stream continues at the next page if nothing was read ahead");
}

static void other_faults_get_no_read_ahead(void)
{
	struct random_state random;
	unsigned ahead = 0;

	random_seed(&random, 1);
	streams_init(&streams, LIMIT);
	for (unsigned i = 0; i < 1000; i++)
		ahead += streams_note(&streams, random_below(&random, UINT64_C(1) << 40));
	ok(!ahead, "faults at random get no read-ahead (%u pages)", ahead);
	for (uint64_t page = 10000; page > 9000; page--)
		ahead += streams_note(&streams, page);
	ok(!ahead, "descending faults get no read-ahead (%u pages)", ahead);
	for (uint64_t page = 20000; page < 30000; page += 100)
		ahead += streams_note(&streams, page);
	ok(!ahead, "faults with large gaps get no read-ahead (%u pages)", ahead);
	streams_init(&streams, 0);
	for (uint64_t page = 0; page < 100; page++)
		ahead += streams_note(&streams, page);
	ok(!ahead, "no fault gets a read-ahead under a limit of 0 (%u pages)", ahead);
}

static void several_streams_go_on_side_by_side(void)
{
	enum { MANY = STREAMS_MAX };
	uint64_t next[MANY];
	streams_init(&streams, LIMIT);
	for (unsigned i = 0; i < MANY; i++)
		next[i] = i * UINT64_C(100000);
	for (unsigned round = 0; round < 9; round++)
		for (unsigned i = 0; i < MANY; i++)
			next[i] = fault(next[i]);
	bool good = true;
	for (unsigned i = 0; i < MANY; i++)
		good &= fault(next[i]) == next[i] + LIMIT + 1;
	ok(good, "as many streams as can be remembered reach the limit side by side");
	uint64_t first = fault(UINT64_C(1) << 40), second = fault(first);
	ok(second > first + 1 && second < first + 1 + LIMIT,
	   "a stream that replaces an older one starts anew (%u pages)", (unsigned)(second - first - 1));

	/* One stream in use among faults that lead nowhere. */
	struct random_state random;
	random_seed(&random, 2);
	streams_init(&streams, LIMIT);
	uint64_t page = faults(700, 9);
	good = true;
	for (unsigned i = 0; i < 20; i++) {
		for (unsigned k = 0; k < STREAMS_MAX - 1; k++)
			fault((UINT64_C(1) << 32) + random_below(&random, UINT64_C(1) << 40));
		good &= fault(page) == page + LIMIT + 1;
		page += LIMIT + 1;
	}
	ok(good, "a stream in use outlives random faults between its own");
}

int main(void)
{
	faults_in_order_double_the_read_ahead();
	a_stream_continues_behind_what_was_read();
	other_faults_get_no_read_ahead();
	several_streams_go_on_side_by_side();
	return tap_done();
}

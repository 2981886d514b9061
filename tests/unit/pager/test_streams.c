/* streams: how far to read ahead if faults come in order, up or down. Other faults cause no read-ahead. */
#include "common/random.h"
#include "pager/streams.h"
#include "tests/lib/tap.h"

#define LIMIT 64u
#define MIDDLE (UINT64_C(1) << 39)

static struct streams streams;

/* Faults on @page, and reads all that is advised. Returns the number of pages read. */
static unsigned fault(uint64_t page)
{
	struct ahead ahead = streams_note(&streams, page);

	streams_extend(&streams, ahead.count);
	return ahead.count;
}

/* Faults on @page, reads all that is advised, and moves @page to where the stream continues in the direction of @step.
   Returns the number of pages read. */
static unsigned go_on(uint64_t *page, int step)
{
	unsigned count = fault(*page);

	*page += (uint64_t)(step * (int)(count + 1));
	return count;
}

/* Goes on @times times. Returns the number of pages that were read last. */
static unsigned go_on_often(uint64_t *page, int step, unsigned times)
{
	unsigned count = 0;

	while (times--)
		count = go_on(page, step);
	return count;
}

static const char *name_of(int step)
{
	return step > 0 ? "ascending" : "descending";
}

static void faults_in_order_double_the_read_ahead(int step)
{
	uint64_t page = MIDDLE;

	streams_init(&streams, LIMIT);
	ok(go_on(&page, step) == 0, "a first fault gets no read-ahead");
	struct ahead ahead = streams_note(&streams, page);
	unsigned last = ahead.count;
	ok(last > 0 && last < LIMIT && ahead.step == step,
	   "a fault next to a recent one starts an %s read-ahead (%u pages)", name_of(step), last);
	ok(ahead_page(ahead, page, 0) == page + (uint64_t)step &&
	       ahead_page(ahead, page, last - 1) == page + (uint64_t)(step * (int)last),
	   "the pages of an %s read-ahead begin beside the faulted page", name_of(step));
	streams_extend(&streams, last);
	page += (uint64_t)(step * (int)(last + 1));
	bool doubled = true;
	for (unsigned i = 0; i < 10; i++) {
		unsigned count = go_on(&page, step);

		doubled &= count == (2 * last < LIMIT ? 2 * last : LIMIT);
		last = count;
	}
	ok(doubled && last == LIMIT, "each %s fault where a stream continues doubles the read-ahead up to the limit",
	   name_of(step));
	ok(fault(page + 1000) == 0 && fault(page - 1000) == 0, "a fault far from a stream gets no read-ahead");
	ok(fault(page) == LIMIT, "an %s stream goes on after faults elsewhere", name_of(step));
}

static void a_stream_continues_behind_what_was_read(int step)
{
	uint64_t page = MIDDLE;

	streams_init(&streams, LIMIT);
	go_on_often(&page, step, 5);
	ok(streams_note(&streams, page).count > 3, "an %s stream wants more than three pages", name_of(step));
	streams_extend(&streams, 3);
	ok(fault(page + (uint64_t)(step * 4)) > 0,
	   "an %s stream continues behind the pages that were read if they were fewer than wanted", name_of(step));
	page = MIDDLE;
	streams_init(&streams, LIMIT);
	go_on_often(&page, step, 5);
	streams_note(&streams, page);
	ok(fault(page + (uint64_t)step) > 0, "an %s stream continues at the next page if nothing was read ahead",
	   name_of(step));
}

static void only_existing_pages_are_within(void)
{
	const struct ahead up = {10, 1}, down = {10, -1};

	ok(ahead_within(up, 80, 100) == 10 && ahead_within(up, 95, 100) == 4 && ahead_within(up, 99, 100) == 0,
	   "an ascending read-ahead ends at the last page");
	ok(ahead_within(down, 80, 100) == 10 && ahead_within(down, 4, 100) == 4 && ahead_within(down, 0, 100) == 0,
	   "a descending read-ahead ends at page 0");
	streams_init(&streams, LIMIT);
	ok(fault(1) == 0 && fault(0) > 0 && fault(UINT64_MAX >> 1) == 0, "a stream may end at page 0");
}

static void other_faults_get_no_read_ahead(void)
{
	struct random_state random;
	unsigned ahead = 0;

	random_seed(&random, 1);
	streams_init(&streams, LIMIT);
	for (unsigned i = 0; i < 1000; i++)
		ahead += fault(random_below(&random, UINT64_C(1) << 40));
	ok(!ahead, "faults at random get no read-ahead (%u pages)", ahead);
	for (uint64_t page = 20000; page < 30000; page += 100)
		ahead += fault(page);
	for (uint64_t page = 20001; page > 10000; page -= 100)
		ahead += fault(page - 50);
	ok(!ahead, "faults with large gaps get no read-ahead (%u pages)", ahead);
	streams_init(&streams, 0);
	for (uint64_t page = 0; page < 100; page++)
		ahead += fault(page);
	ok(!ahead, "no fault gets a read-ahead under a limit of 0 (%u pages)", ahead);
}

static void a_stream_keeps_its_direction(void)
{
	uint64_t page = MIDDLE;

	streams_init(&streams, LIMIT);
	go_on_often(&page, 1, 5);
	uint64_t last = page - 1;
	ok(fault(last - 1) == 0, "a fault before the last page of an ascending stream is not part of it");
	ok(go_on(&page, 1) == LIMIT, "an ascending stream goes on after a fault behind it");
	/* A single fault beyond the next page is adjacent to that page, too. */
	fault(page + 1);
	ok(streams_note(&streams, page).step == 1, "a page between a stream and a single fault belongs to the stream");
}

static void several_streams_go_on_side_by_side(void)
{
	enum { MANY = STREAMS_MAX };
	uint64_t next[MANY];
	streams_init(&streams, LIMIT);
	for (unsigned i = 0; i < MANY; i++)
		next[i] = MIDDLE + i * UINT64_C(100000);
	for (unsigned round = 0; round < 9; round++)
		for (unsigned i = 0; i < MANY; i++)
			go_on(&next[i], i % 2 ? 1 : -1);
	bool good = true;
	for (unsigned i = 0; i < MANY; i++)
		good &= fault(next[i]) == LIMIT;
	ok(good, "as many streams as can be remembered reach the limit side by side, in both directions");
	uint64_t page = UINT64_C(1) << 40;
	unsigned first = go_on(&page, 1), second = go_on(&page, 1);
	ok(first == 0 && second > 0 && second < LIMIT, "a stream that replaces an older one starts anew (%u pages)",
	   second);

	/* One stream in use among faults that lead nowhere. */
	struct random_state random;
	random_seed(&random, 2);
	streams_init(&streams, LIMIT);
	page = 700;
	go_on_often(&page, 1, 9);
	good = true;
	for (unsigned i = 0; i < 20; i++) {
		for (unsigned k = 0; k < STREAMS_MAX - 1; k++)
			fault((UINT64_C(1) << 32) + random_below(&random, UINT64_C(1) << 40));
		good &= go_on(&page, 1) == LIMIT;
	}
	ok(good, "a stream in use outlives random faults between its own");
}

int main(void)
{
	for (int step = -1; step <= 1; step += 2) {
		faults_in_order_double_the_read_ahead(step);
		a_stream_continues_behind_what_was_read(step);
	}
	only_existing_pages_are_within();
	other_faults_get_no_read_ahead();
	a_stream_keeps_its_direction();
	several_streams_go_on_side_by_side();
	return tap_done();
}

/* faults and fetch: how the handler answers a fault on a page in each state. The test plays the other threads. */
#include "core_over.h"
#include "pager/faults.h"
#include "pager/fetch.h"
#include "tests/lib/store_faulty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 512, LIMIT = 200, AHEAD = 32 };

static struct core_over over;
static struct core *const core = &over.core;
static struct handler handler;
static struct store *inner;

/* Opens a handler, whose thread is this one. @faults is NULL for a store that never fails. */
static void open_all(const struct store_faults *faults)
{
	if (core_over_open(&over, PAGES, LIMIT))
		tap_bail("no userfaultfd");
	inner = core->store;
	if (faults && store_open_faulty(inner, faults, &core->store))
		tap_bail("no memory");
	if (handler_open(&handler, core, 50 * LIMIT, AHEAD) || store_queue_open(core->store, &handler.queue))
		tap_bail("no handler opens");
}

/* Gives all frames their memory. Only the program's pages take room then. */
static void use_all_frames(void)
{
	int64_t rest = handler.frame_count - core->frames;

	handler.demands_used = handler.demands;
	handler.groups_used = HANDLER_RUNS;
	core->frames += rest;
	core->resident += rest;
	core->limit += core->frames;
}

static void begin(const struct store_faults *faults)
{
	open_all(faults);
	use_all_frames();
}

/* Returns how many of the program's pages take room. */
static int64_t taken(void)
{
	return core->resident - core->frames;
}

static void end(void)
{
	handler_close(&handler);
	if (core->store != inner)
		store_close(core->store);
	core->store = inner;
	core_over_close(&over);
}

static void fault(uint64_t page)
{
	faults_answer(&handler, &(struct fault){.page = page, .thread = gettid(), .started = 1});
}

static void poll_all(void)
{
	while (handler.in_flight)
		fetch_poll(&handler);
}

/* Returns true if @page is resident and is full of @byte. */
static bool holds(uint64_t page, char byte)
{
	const char *data = core_address(core, page);

	return state_of(&core->pages, page) == PAGE_RESIDENT && core_has(&over, page) && data[0] == byte &&
	       data[STORE_PAGE - 1] == byte;
}

static bool can_be_read(uint64_t page)
{
	int file = memfd_create("sink", MFD_CLOEXEC);
	bool can = write(file, core_address(core, page), 1) == 1;

	close(file);
	return can;
}

static uint64_t reads(void)
{
	struct store_stats stats;

	store_stats(inner, &stats);
	return stats.reads;
}

static void a_fault_brings_in_what_the_page_has(void)
{
	uint64_t popped[4];

	begin(NULL);
	fault(10);
	ok(holds(10, 0) && taken() == 1, "a fault on an untouched page brings in zeroes and takes room");
	core_make(&over, 20, PAGE_FAR, 'f');
	fault(20);
	ok(state_of(&core->pages, 20) == PAGE_FETCHING && taken() == 2,
	   "a fault on a far page begins a fetch and takes room");
	fault(20);
	poll_all();
	ok(holds(20, 'f') && taken() == 2 && reads() == 1,
	   "a far page comes in with its contents, by one read for two faults");
	ok(over.counters.depths.count == 1 && core_far(&over) == 0,
	   "the depth of a page that has come in is recorded, and the page no longer counts as far");
	ok(residents_pop(&core->residents, popped, NULL, 4) == 2 && popped[0] == 20 && popped[1] == 10,
	   "pages that have come in may leave, the proven one first while few are young");

	uint32_t before = core->residents.proven.count;
	core_make(&over, 30, PAGE_BUFFERED, 'b');
	core_store(&over, 30, 'X'); /* the store's contents must not be asked for */
	fault(30);
	ok(holds(30, 'b') && taken() == 3, "a buffered page comes back with the contents of its frame");
	ok(core->residents.proven.count == before + 1, "a page that comes back from the buffer is proven");
	fault(30);
	ok(holds(30, 'b') && over.counters.dropped == 0, "a second fault on a page that is here changes nothing");
	end();
}

static void a_page_that_is_fetched_soon_is_proven(void)
{
	const uint64_t long_ago = 1, lately = 2;

	begin(NULL);
	core_make(&over, long_ago, PAGE_FAR, 'l');
	for (uint64_t i = 0; i < (uint64_t)core->limit / 3; i++)
		core_make(&over, 100 + i, PAGE_FAR, 'x');
	core_make(&over, lately, PAGE_FAR, 's');
	fault(lately);
	poll_all();
	ok(holds(lately, 's') && core->residents.proven.count == 1 && core->residents.young.count == 0,
	   "a page that a little more memory would have kept is proven when it has come back");
	fault(long_ago);
	poll_all();
	ok(holds(long_ago, 'l') && core->residents.proven.count == 1 && core->residents.young.count == 1,
	   "a page that a third more memory would not have kept is young when it has come back");
	end();
}

static void a_page_that_was_dropped_unseen_reads_as_zeroes(void)
{
	begin(NULL);
	core_make(&over, 5, PAGE_RESIDENT, 'r');
	madvise(core_address(core, 5), STORE_PAGE, MADV_DONTNEED);
	fault(5);
	ok(holds(5, 0) && over.counters.dropped == 1 && taken() == 1,
	   "a resident page that is absent reads as zeroes, and is counted");
	end();
}

static void a_fault_waits_for_another_thread(void)
{
	static const struct {
		enum page_state state, next;
		char byte;
	} waits[] = {{PAGE_EVICTING, PAGE_FAR, 'e'},
		     {PAGE_EVICTING, PAGE_RESIDENT, 'e'},
		     {PAGE_EVICTING, PAGE_UNTOUCHED, 0},
		     {PAGE_DISCARDING, PAGE_UNTOUCHED, 0}};
	for (unsigned i = 0; i < sizeof waits / sizeof *waits; i++) {
		begin(NULL);
		core_make(&over, 7, waits[i].state, 'e');
		if (waits[i].next != PAGE_RESIDENT)
			madvise(core_address(core, 7), STORE_PAGE, MADV_DONTNEED);
		core_store(&over, 7, 'e');
		fault(7);
		ok(handler.parked_count == 1 && core->waiting == 1 && state_of(&core->pages, 7) == waits[i].state,
		   "a fault on a page that is %s is parked", pages_state_name(waits[i].state));
		kick_prepare(&core->handler_kick);
		pages_move(&core->pages, 7, waits[i].state, waits[i].next, 0);
		core_settled(core);
		ok(!core->handler_kick.asleep, "settling a page that is %s wakes the handler",
		   pages_state_name(waits[i].next));
		faults_retry(&handler);
		poll_all();
		ok(holds(7, waits[i].byte) && !handler.parked_count && !core->waiting,
		   "a page that was %s and is %s comes in when its fault is retried", pages_state_name(waits[i].state),
		   pages_state_name(waits[i].next));
		end();
	}
}

static void a_fault_waits_for_room(void)
{
	begin(NULL);
	core_make(&over, 1, PAGE_FAR, 'a');
	core_make(&over, 2, PAGE_BUFFERED, 'b');
	core_claim(core, LIMIT, 0);
	kick_prepare(&core->evictor_kick);
	for (uint64_t page = 1; page <= 3; page++)
		fault(page);
	ok(handler.parked_count == 3 && over.counters.stalls == 3 && !core->evictor_kick.asleep,
	   "faults without room are parked, counted as stalls, and wake the evictor");
	ok(taken() == LIMIT && state_of(&core->pages, 1) == PAGE_FAR && state_of(&core->pages, 2) == PAGE_BUFFERED &&
	       state_of(&core->pages, 3) == PAGE_UNTOUCHED,
	   "faults without room leave their pages as they were");
	core_release(core, 2);
	core_settled(core);
	faults_retry(&handler);
	poll_all();
	ok(taken() == LIMIT && handler.parked_count == 1 && holds(1, 'a') && holds(2, 'b'),
	   "parked faults are answered in their order while there is room");
	core_release(core, 1);
	faults_retry(&handler);
	ok(holds(3, 0) && !handler.parked_count && over.counters.stalls == 3,
	   "the last fault is answered with the next room, and counted as one stall");
	end();
}

static void faults_in_order_read_ahead(void)
{
	enum { FIRST = 100, COUNT = 150, HOLE = FIRST + 90 };
	begin(NULL);
	for (uint64_t page = FIRST; page < FIRST + COUNT; page++)
		if (page != HOLE)
			core_make(&over, page, PAGE_FAR, (char)page);
	unsigned faults = 0, wrong = 0;
	int64_t most = 0;
	for (uint64_t page = FIRST; page < FIRST + COUNT; page++) {
		if (state_of(&core->pages, page) != PAGE_RESIDENT) {
			fault(page);
			faults++;
		}
		most = taken() > most ? taken() : most;
		poll_all();
		wrong += !holds(page, page == HOLE ? 0 : (char)page);
		if (page == HOLE - 1)
			ok(state_of(&core->pages, HOLE) == PAGE_UNTOUCHED, "only far pages are read ahead");
	}
	ok(!wrong, "pages that are read ahead have their contents (%u do not)", wrong);
	ok(faults < COUNT / 4 && over.counters.prefetched > COUNT / 2,
	   "faults in order read most pages ahead (%u faults)", faults);
	ok(taken() == COUNT && most <= LIMIT, "each page that came in takes room once (%d)", (int)taken());
	ok(over.counters.depths.count == COUNT - 1, "the depths of pages that are read ahead are recorded, too");
	end();

	begin(NULL);
	for (uint64_t page = FIRST; page < FIRST + COUNT; page++)
		core_make(&over, page, PAGE_FAR, (char)page);
	core_claim(core, LIMIT - CORE_LOW - 6, 0);
	for (uint64_t page = FIRST; page < FIRST + 8 && taken() < LIMIT; page++)
		if (state_of(&core->pages, page) == PAGE_FAR)
			fault(page);
	poll_all();
	uint64_t ahead = over.counters.prefetched;
	ok(taken() <= LIMIT && ahead <= 6, "pages are read ahead only into free room (%u)", (unsigned)ahead);
	unsigned astray = 0;
	for (uint64_t page = FIRST; page < FIRST + COUNT; page++)
		astray += state_of(&core->pages, page) != PAGE_FAR && !holds(page, (char)page);
	ok(!astray, "pages for which there is no room stay far (%u astray)", astray);
	end();
}

static void descending_faults_read_and_fill_ahead(void)
{
	enum { FIRST = 100, COUNT = 150, HOLE = FIRST + 60, OTHER = FIRST + 20 };
	begin(NULL);
	for (uint64_t page = FIRST; page < FIRST + COUNT; page++)
		core_make(&over, page, page == HOLE ? PAGE_RESIDENT : PAGE_FAR, (char)page);
	unsigned faults = 0, wrong = 0;
	for (uint64_t page = FIRST + COUNT; page-- > FIRST;) {
		if (state_of(&core->pages, page) != PAGE_RESIDENT) {
			fault(page);
			faults++;
		}
		poll_all();
		wrong += !holds(page, (char)page);
	}
	ok(!wrong && taken() == COUNT,
	   "pages that are read ahead in descending order have their contents, and each takes room once");
	ok(faults < COUNT / 4 && over.counters.prefetched > COUNT / 2,
	   "descending faults read most pages ahead (%u faults)", faults);
	end();

	/* The pages below OTHER are another mapping, so one UFFDIO_COPY cannot fill both. */
	begin(NULL);
	if (mprotect(core_address(core, FIRST), (OTHER - FIRST) * STORE_PAGE, PROT_READ))
		tap_bail("mprotect");
	faults = wrong = 0;
	for (uint64_t page = FIRST + COUNT; page-- > FIRST;) {
		if (state_of(&core->pages, page) != PAGE_RESIDENT) {
			fault(page);
			faults++;
		}
		wrong += !holds(page, 0);
	}
	ok(!wrong && taken() >= COUNT && taken() <= COUNT + AHEAD,
	   "pages that are filled in descending order are zeroes, over the border of a mapping, too");
	ok(faults < COUNT / 4, "descending faults fill most untouched pages ahead (%u faults)", faults);
	end();
	begin(NULL);
	unsigned astray = 0;
	for (uint64_t page = 6; page-- > 0;)
		fault(page);
	for (uint64_t page = 6; page < PAGES; page++)
		astray += state_of(&core->pages, page) != PAGE_UNTOUCHED;
	ok(taken() == 6 && !astray, "descending faults down to page 0 fill no page beyond it");
	end();
}

static void faults_in_order_fill_ahead(void)
{
	enum { COUNT = 64, FAR = 40 };
	unsigned faults = 0, wrong = 0;
	begin(NULL);
	core_make(&over, FAR, PAGE_FAR, 'f');
	window_free(&over.window, core_address(core, COUNT), (PAGES - COUNT) * STORE_PAGE);
	for (uint64_t page = 0; page < COUNT; page++) {
		if (state_of(&core->pages, page) != PAGE_RESIDENT) {
			fault(page);
			faults++;
		}
		poll_all();
		wrong += !holds(page, page == FAR ? 'f' : 0);
	}
	ok(!wrong && faults < COUNT, "untouched pages are filled ahead of faults in order (%u faults)", faults);
	ok(taken() == COUNT && state_of(&core->pages, COUNT) == PAGE_UNTOUCHED && !core_has(&over, COUNT),
	   "only allocated pages are filled ahead, and each takes room once (%d)", (int)taken());
	end();
}

static void a_page_that_cannot_be_read_is_lost(void)
{
	const struct store_faults faults = {.seed = 1, .read_error = UINT16_MAX};

	begin(&faults);
	core_make(&over, 40, PAGE_FAR, 'l');
	core_make(&over, 41, PAGE_RESIDENT, 'n');
	fault(40);
	poll_all();
	ok(state_of(&core->pages, 40) == PAGE_LOST && taken() == 1,
	   "a page that the store cannot read is lost, and takes no room");
	if (core->uffd.can_poison)
		ok(!can_be_read(40) && can_be_read(41), "a lost page cannot be read, and its neighbour can");
	else
		tap_skip("a lost page cannot be read, and its neighbour can", "this kernel cannot poison pages");
	for (uint64_t page = 60; page < 100; page++)
		core_make(&over, page, PAGE_FAR, 'l');
	fault(60);
	fault(61);
	unsigned far = 0;
	uint64_t ahead = over.counters.prefetched;
	poll_all();
	for (uint64_t page = 62; page < 100; page++)
		far += state_of(&core->pages, page) == PAGE_FAR;
	ok(ahead > 0 && far == 38 && taken() == 1, "pages that cannot be read ahead stay far (%u of 38)", far);
	ok(over.counters.lost == 3, "lost pages are counted (%u)", (unsigned)over.counters.lost);
	ok(over.counters.depths.count == 0 && core_far(&over) == 38,
	   "pages that cannot be read have no depth, and only those that are not lost count as far");
	end();
}

static void a_delayed_answer_meets_its_page(void)
{
	const struct store_faults faults = {.seed = 3, .delay = UINT16_MAX / 2, .delay_polls = 5};

	enum { COUNT = 60 };
	unsigned right = 0;
	begin(&faults);
	for (uint64_t page = 0; page < 2 * COUNT; page += 2) {
		core_make(&over, page, PAGE_FAR, (char)page);
		fault(page);
	}
	poll_all();
	for (uint64_t page = 0; page < 2 * COUNT; page += 2)
		right += holds(page, (char)page) && state_of(&core->pages, page + 1) == PAGE_UNTOUCHED;
	ok(right == COUNT, "answers that overtake each other come to their own pages (%u of %u)", right, COUNT);
	end();
}

/* A store that counts the calls of submit(), and takes at most `most` requests a call. */
static struct {
	const struct store_ops *ops;
	unsigned most, calls, requests;
} counting;

static int count_submit(struct store_queue *queue, const struct store_io *ios, unsigned count)
{
	int taken = counting.ops->submit(queue, ios, count < counting.most ? count : counting.most);

	counting.calls++;
	counting.requests += (unsigned)taken;
	return taken;
}

static void reads_of_several_faults_are_sent_together(void)
{
	struct store_ops ops;

	begin(NULL);
	for (uint64_t page = 10; page < 90; page++)
		core_make(&over, page, PAGE_FAR, (char)page);
	counting.calls = counting.requests = 0;
	counting.ops = inner->ops;
	counting.most = UINT32_MAX;
	ops = *inner->ops;
	ops.submit = count_submit;
	inner->ops = &ops;
	for (uint64_t page = 10; page < 16; page += 2)
		fault(page);
	ok(counting.calls == 0 && handler.in_flight == 3, "the reads of faults wait until all faults have been seen");
	fault(100);
	ok(counting.calls == 1 && counting.requests == 3,
	   "the reads of three faults are sent by one call, before a page is placed for the next fault");
	poll_all();
	ok(holds(10, 10) && holds(12, 12) && holds(14, 14), "pages whose reads were sent together come in");
	fault(20);
	fault(21);
	ok(counting.calls == 2 && counting.requests == 5 && handler.in_flight == 3,
	   "pages that faulted are sent before a read-ahead");
	poll_all();

	counting.most = 2;
	counting.calls = counting.requests = 0;
	for (uint64_t page = 80; page < 90; page += 2)
		fault(page);
	poll_all();
	unsigned right = 0;
	for (uint64_t page = 80; page < 90; page += 2)
		right += holds(page, (char)page);
	ok(right == 5 && counting.requests == 5 && counting.calls >= 3,
	   "reads that the store does not take at once are sent later, each once");
	inner->ops = counting.ops;
	end();
}

static void frames_take_room_when_first_used(void)
{
	open_all(NULL);
	for (uint64_t page = 10; page < 100; page++)
		core_make(&over, page, PAGE_FAR, (char)page);
	fault(10);
	poll_all();
	ok(holds(10, 10) && core->frames == 1, "one fault at a time needs one frame");
	for (unsigned i = 0; i < 2; i++) {
		fault(12 + 4 * i);
		fault(14 + 4 * i);
		poll_all();
	}
	ok(core->frames == 2 && core->resident == 7, "two faults at a time need two frames, which stay");
	core_claim(core, LIMIT - core->resident - 3, 0);
	for (unsigned i = 0; i < 3; i++)
		fault(20 + 2 * i);
	poll_all();
	ok(core->frames == 2 && core->resident == LIMIT && holds(20, 20) && holds(22, 22) && holds(24, 24),
	   "a fault waits for a frame in use if no room is left for another frame");
	core_release(core, AHEAD);
	fault(40);
	fault(41);
	poll_all();
	ok(core->frames == 2 && over.counters.prefetched == 0, "without room for the frames no page is read ahead");
	core_release(core, 2 * AHEAD + CORE_LOW);
	fault(42);
	poll_all();
	ok(core->frames == 2 + AHEAD && over.counters.prefetched > 0, "frames for pages read ahead take room together");
	end();
}

int main(void)
{
	if (userfaultfd_is_denied(core_over_open(&over, PAGES, LIMIT)))
		return tap_skip_all("no right to userfaultfd");
	core_over_close(&over);
	a_fault_brings_in_what_the_page_has();
	a_page_that_is_fetched_soon_is_proven();
	a_page_that_was_dropped_unseen_reads_as_zeroes();
	a_fault_waits_for_another_thread();
	a_fault_waits_for_room();
	faults_in_order_read_ahead();
	faults_in_order_fill_ahead();
	descending_faults_read_and_fill_ahead();
	a_page_that_cannot_be_read_is_lost();
	a_delayed_answer_meets_its_page();
	reads_of_several_faults_are_sent_together();
	frames_take_room_when_first_used();
	return tap_done();
}

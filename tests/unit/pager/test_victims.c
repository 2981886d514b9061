/* victims: the frames that pages leave through. A frame is reused only when nobody needs its contents. */
#include "common/random.h"
#include "page_states.h"
#include "pager/victims.h"
#include "tests/lib/sanitizers.h"
#include "tests/lib/tap.h"

#include <pthread.h>
#include <sched.h>

enum { FRAMES = 8, PAGES = 64 };

static struct pages pages;
static struct victims victims;
static struct histogram depths;
static struct refault refault;

static void begin(void)
{
	refault_open(&refault, &depths, FRAMES);
	if (pages_open(&pages, PAGES) || victims_open(&victims, &pages, &refault, FRAMES))
		tap_bail("no memory");
}

static void end(void)
{
	victims_close(&victims);
	pages_close(&pages);
}

/* Takes the next frame for @page, which is resident, as the evictor does. Returns the frame. */
static uint32_t send_out(uint64_t page)
{
	uint32_t frame = victims_allocate(&victims);

	if (frame == VICTIMS_NONE || !pages_move(&pages, page, PAGE_RESIDENT, PAGE_EVICTING, 0))
		return VICTIMS_NONE;
	memset(victims_frame(&victims, frame), (int)page, STORE_PAGE);
	victims.page_of[frame] = (uint32_t)page;
	pages_move(&pages, page, PAGE_EVICTING, PAGE_BUFFERED, frame);
	return frame;
}

static void make_and_send_out(uint64_t first, uint64_t count, uint32_t *ret_frames)
{
	for (uint64_t i = 0; i < count; i++) {
		page_make(&pages, first + i, PAGE_RESIDENT, 0);
		ret_frames[i] = send_out(first + i);
	}
}

static void frames_are_used_in_turn(void)
{
	uint32_t frames[FRAMES], used = 0;

	begin();
	for (unsigned i = 0; i < FRAMES; i++) {
		frames[i] = victims_allocate(&victims);
		if (frames[i] < FRAMES)
			used |= 1u << frames[i];
	}
	ok(used == (1u << FRAMES) - 1, "an empty buffer gives each of its frames once");
	bool good = true;
	for (unsigned i = 0; i < 3 * FRAMES; i++)
		good &= victims_allocate(&victims) == frames[i % FRAMES];
	ok(good, "the frames are given again in the same order");
	ok(victims_memory(&victims) >= FRAMES * STORE_PAGE, "the frames count as memory of the buffer");
	memset(victims_frame(&victims, 0), 1, FRAMES * STORE_PAGE);
	ok(victims_frame(&victims, FRAMES - 1)[STORE_PAGE - 1] == 1, "every frame has a page of memory");
	end();
}

static void pages_that_return_are_counted(void)
{
	enum { RETURNED = 5, PROVEN = 2, DISCARDED = 7 };
	uint32_t frames[FRAMES];

	begin();
	make_and_send_out(0, FRAMES, frames);
	for (unsigned i = 0; i < FRAMES; i++)
		victims.proven[frames[i]] = i < PROVEN;
	for (unsigned i = 0; i < RETURNED; i++) {
		pages_move(&pages, i, PAGE_BUFFERED, PAGE_RETURNING, frames[i]);
		pages_move(&pages, i, PAGE_RETURNING, PAGE_RESIDENT, 0);
	}
	pages_move(&pages, DISCARDED, PAGE_BUFFERED, PAGE_DISCARDING, 0);
	pages_move(&pages, DISCARDED, PAGE_DISCARDING, PAGE_UNTOUCHED, 0);
	ok(victims.young_returned == 0 && victims.proven_returned == 0, "no page counts before its frame is reused");
	for (unsigned i = 0; i < FRAMES; i++)
		victims_allocate(&victims);
	ok(victims.proven_returned == PROVEN && victims.young_returned == RETURNED - PROVEN,
	   "pages in the program when their frames are reused count as returned, by their queue (%u and %u)",
	   victims.proven_returned, victims.young_returned);
	for (unsigned i = 0; i < FRAMES; i++)
		victims_allocate(&victims);
	ok(victims.proven_returned + victims.young_returned == RETURNED, "a page counts once");
	end();
}

static void a_buffered_page_is_far_when_its_frame_is_reused(void)
{
	uint32_t frames[FRAMES];

	begin();
	make_and_send_out(0, FRAMES, frames);
	ok(state_of(&pages, 0) == PAGE_BUFFERED && state_of(&pages, FRAMES - 1) == PAGE_BUFFERED,
	   "pages stay buffered until the ring comes round");
	pages_mark(&pages, 0, PAGE_SNAPSHOT);
	ok(victims_allocate(&victims) == frames[0] && state_of(&pages, 0) == PAGE_FAR,
	   "a page is far after its frame was reused");
	ok(pages_load(&pages, 0) & PAGE_SNAPSHOT, "a page keeps its marks when its frame is reused");
	ok(refault.departed == 1 && page_frame(pages_load(&pages, 0)) == 0, "the first far page has the first stamp");
	ok(state_of(&pages, 1) == PAGE_BUFFERED, "the page in the next frame stays buffered");

	page_bring_in(&pages, 1, PAGE_BUFFERED);
	ok(victims_allocate(&victims) == frames[1] && state_of(&pages, 1) == PAGE_RESIDENT,
	   "a page that has come back stays resident when its frame is reused");
	ok(refault.departed == 1, "a page that has come back does not count as far");
	victims_allocate(&victims);
	ok(refault.departed == 2 && page_frame(pages_load(&pages, 2)) == 1, "the next far page has the next stamp");
	end();
}

static void a_page_in_a_newer_frame_stays_buffered(void)
{
	uint32_t frames[FRAMES];

	begin();
	make_and_send_out(0, FRAMES, frames);
	page_bring_in(&pages, 2, PAGE_BUFFERED);
	uint32_t newer = send_out(2);
	ok(newer == frames[0] && newer != frames[2], "a page that leaves again gets the next frame");
	victims_allocate(&victims);
	ok(victims_allocate(&victims) == frames[2], "the older frame of a page is reused");
	uint32_t word = pages_load(&pages, 2);
	ok(page_state(word) == PAGE_BUFFERED && page_frame(word) == newer,
	   "a page stays buffered in its newer frame when its older frame is reused");
	ok(victims_empty(&victims, frames[2]) && state_of(&pages, 2) == PAGE_BUFFERED,
	   "emptying the older frame of a page leaves the page in its newer frame");
	end();
}

static void a_frame_in_use_is_not_reused(void)
{
	uint32_t frames[FRAMES];

	begin();
	make_and_send_out(0, FRAMES, frames);
	victims.writing[frames[0]] = 1;
	victims.in_flight = 1;
	pages_mark(&pages, 0, PAGE_WRITING);
	ok(victims_allocate(&victims) == VICTIMS_NONE && victims_allocate(&victims) == VICTIMS_NONE,
	   "no frame is given while the next frame is being written");
	ok(!victims_empty(&victims, frames[0]) && state_of(&pages, 0) == PAGE_BUFFERED,
	   "a frame that is being written is not emptied");
	ok(victims_empty(&victims, frames[3]) && state_of(&pages, 3) == PAGE_FAR,
	   "another frame is emptied, and its page is far");
	page_bring_in(&pages, 0, PAGE_BUFFERED);
	ok(victims_allocate(&victims) == VICTIMS_NONE && !victims_empty(&victims, frames[0]),
	   "a frame that is being written is not reused although its page has come back");
	victims.writing[frames[0]] = 0;
	victims.in_flight = 0;
	pages_unmark(&pages, 0, PAGE_WRITING);
	ok(victims_allocate(&victims) == frames[0], "a frame is given after its write has ended");

	pages_move(&pages, 1, PAGE_BUFFERED, PAGE_RETURNING, frames[1]);
	ok(!victims_empty(&victims, frames[1]) && state_of(&pages, 1) == PAGE_RETURNING,
	   "a frame whose page is being copied back is not emptied");
	ok(victims_allocate(&victims) == frames[2] && state_of(&pages, 1) == PAGE_RETURNING,
	   "a frame whose page is being copied back is skipped");
	pages_move(&pages, 1, PAGE_RETURNING, PAGE_RESIDENT, 0);
	bool good = true;
	for (unsigned i = 3; i < FRAMES + 2; i++)
		good &= victims_allocate(&victims) == frames[i % FRAMES];
	ok(good, "a frame that was skipped is given in the next round");
	end();
}

/* A page may be copied back from a newer frame than the one that is emptied. */
static void a_page_that_returns_elsewhere_holds_no_frame(void)
{
	uint32_t frames[FRAMES];

	begin();
	make_and_send_out(0, FRAMES, frames);
	page_bring_in(&pages, 2, PAGE_BUFFERED);
	uint32_t newer = send_out(2);
	pages_move(&pages, 2, PAGE_BUFFERED, PAGE_RETURNING, newer);
	ok(victims_empty(&victims, frames[2]) && state_of(&pages, 2) == PAGE_RETURNING,
	   "an older frame is emptied while its page is copied back from a newer one");
	end();
}

/* --- Threads ----------------------------------------------------------------------------------------------------- */

static _Atomic bool over;
static _Atomic unsigned returned, wrong;

/* Brings pages back like the handler, and compares what their frames have. */
static void *bring_back(void *unused)
{
	struct random_state random;

	(void)unused;
	random_seed(&random, 1);
	while (!over) {
		uint64_t page = random_below(&random, PAGES);
		uint32_t word = pages_load(&pages, page), frame = page_frame(word);

		if (page_state(word) == PAGE_BUFFERED && pages_move_from(&pages, page, word, PAGE_RETURNING, frame)) {
			const char *data = victims_frame(&victims, frame);

			wrong += data[0] != (char)page || data[STORE_PAGE - 1] != (char)page;
			pages_move(&pages, page, PAGE_RETURNING, PAGE_RESIDENT, 0);
			returned++;
		} else if (page_state(word) == PAGE_FAR) {
			page_bring_in(&pages, page, PAGE_FAR);
		} else {
			sched_yield();
		}
	}
	return NULL;
}

static void a_frame_keeps_its_contents_while_they_are_read(void)
{
	const unsigned enough = UNDER_TSAN ? 300 : 1000;
	struct random_state random;
	pthread_t thread;

	begin();
	random_seed(&random, 2);
	for (uint64_t page = 0; page < PAGES; page++)
		page_make(&pages, page, PAGE_RESIDENT, 0);
	pthread_create(&thread, NULL, bring_back, NULL);
	while (returned < enough && !wrong) {
		uint64_t page = random_below(&random, PAGES);

		if (state_of(&pages, page) == PAGE_RESIDENT)
			send_out(page); /* may find no free frame; then the loop tries another page */
		else
			sched_yield();
	}
	over = true;
	pthread_join(thread, NULL);
	ok(!wrong, "a frame has the contents of its page whenever the page is copied back (%u of %u)", wrong, returned);
	end();
}

int main(void)
{
	frames_are_used_in_turn();
	a_buffered_page_is_far_when_its_frame_is_reused();
	pages_that_return_are_counted();
	a_page_in_a_newer_frame_stays_buffered();
	a_frame_in_use_is_not_reused();
	a_page_that_returns_elsewhere_holds_no_frame();
	a_frame_keeps_its_contents_while_they_are_read();
	return tap_done();
}

/* pages: only one of several threads moves a page, and no mark of the page gets lost. */
#include "common/random.h"
#include "page_states.h"
#include "tests/lib/sanitizers.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_page_moves_only_from_what_was_seen(void)
{
	struct pages pages;

	pages_open(&pages, 8);
	ok(pages_move(&pages, 1, PAGE_UNTOUCHED, PAGE_FILLING, 0), "a page moves from its present state");
	ok(!pages_move(&pages, 1, PAGE_UNTOUCHED, PAGE_FILLING, 0),
	   "a page does not move from a state that the page has left");

	pages_move(&pages, 1, PAGE_FILLING, PAGE_RESIDENT, 0);
	pages_move(&pages, 1, PAGE_RESIDENT, PAGE_EVICTING, 0);
	pages_move(&pages, 1, PAGE_EVICTING, PAGE_BUFFERED, 7);
	uint32_t seen = pages_load(&pages, 1);
	pages_move(&pages, 1, PAGE_BUFFERED, PAGE_RETURNING, 7);
	pages_move(&pages, 1, PAGE_RETURNING, PAGE_RESIDENT, 0);
	pages_move(&pages, 1, PAGE_RESIDENT, PAGE_EVICTING, 0);
	pages_move(&pages, 1, PAGE_EVICTING, PAGE_BUFFERED, 9);
	ok(!pages_move_from(&pages, 1, seen, PAGE_FAR, 0),
	   "a move fails if the page has come back in another frame since its word was read");
	seen = pages_load(&pages, 1);
	pages_mark(&pages, 1, PAGE_WRITING);
	ok(!pages_move_from(&pages, 1, seen, PAGE_DISCARDING, 0),
	   "a move fails if a write of the page has begun since its word was read");
	seen = pages_load(&pages, 1);
	ok(pages_move_from(&pages, 1, seen, PAGE_FAR, 0),
	   "a move succeeds if the page is unchanged since its word was read");
	ok(pages_load(&pages, 1) & PAGE_WRITING, "a page keeps its marks when the page moves");
	pages_close(&pages);
}

static void a_page_has_its_frame_and_its_marks(void)
{
	struct pages pages;

	pages_open(&pages, 8);
	page_make(&pages, 2, PAGE_BUFFERED, PAGE_FRAME_MAX);
	ok(page_frame(pages_load(&pages, 2)) == PAGE_FRAME_MAX && state_of(&pages, 2) == PAGE_BUFFERED,
	   "a page has the largest frame there is");
	uint32_t before = pages_mark(&pages, 2, PAGE_MARKS);
	ok(!(before & PAGE_MARKS) && page_frame(pages_load(&pages, 2)) == PAGE_FRAME_MAX,
	   "marking a page returns the word without the marks and leaves the frame as it was");
	before = pages_unmark(&pages, 2, PAGE_WRITING | PAGE_KEPT);
	ok((before & PAGE_MARKS) == PAGE_MARKS && (pages_load(&pages, 2) & PAGE_MARKS) == (PAGE_QUEUED | PAGE_SNAPSHOT),
	   "unmarking a page returns the word with the marks and clears those marks alone");
	ok(pages_move(&pages, 2, PAGE_BUFFERED, PAGE_FAR, 0) && page_frame(pages_load(&pages, 2)) == 0,
	   "a page that moves gets the frame of the move");
	ok(pages_load(&pages, 1) == 0 && pages_load(&pages, 3) == 0,
	   "the neighbours of a page that moves stay untouched");
	pages_close(&pages);
}

static void a_kept_page_does_not_leave(void)
{
	struct pages pages;

	pages_open(&pages, 2);
	page_make(&pages, 0, PAGE_RESIDENT, 0);
	pages_mark(&pages, 0, PAGE_KEPT);
	uint32_t word = pages_load(&pages, 0);
	ok(!pages_move(&pages, 0, PAGE_RESIDENT, PAGE_EVICTING, 0) && pages_load(&pages, 0) == word,
	   "a kept page stays resident when the evictor asks for the page");
	ok(!pages_move_from(&pages, 0, word, PAGE_EVICTING, 0) && pages_load(&pages, 0) == word,
	   "a kept page stays resident when the evictor asks for the page by its word");
	ok(pages_move(&pages, 0, PAGE_RESIDENT, PAGE_DISCARDING, 0), "a kept page is discarded like others");
	pages_close(&pages);
}

/* Returns true if moving a page from @from to @to ends the process by SIGABRT. */
static bool move_aborts(struct pages *pages, uint64_t page, enum page_state from, enum page_state to)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		const struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		dup2(null, STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		pages_move(pages, page, from, to, 0);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* Contents move between the program, the frames and the donors only in the hands of one thread. */
static void contents_move_only_through_an_owner(void)
{
	static const enum page_state settled[] = {PAGE_UNTOUCHED, PAGE_RESIDENT, PAGE_BUFFERED, PAGE_FAR, PAGE_LOST};
	static const enum page_state wrong[][2] = {{PAGE_FETCHING, PAGE_UNTOUCHED}, {PAGE_FETCHING, PAGE_BUFFERED},
						   {PAGE_FILLING, PAGE_FAR},        {PAGE_RESIDENT, PAGE_FETCHING},
						   {PAGE_RESIDENT, PAGE_RETURNING}, {PAGE_FAR, PAGE_EVICTING},
						   {PAGE_FAR, PAGE_RETURNING},      {PAGE_BUFFERED, PAGE_EVICTING},
						   {PAGE_DISCARDING, PAGE_FAR},     {PAGE_DISCARDING, PAGE_EVICTING}};
	const unsigned count = sizeof settled / sizeof *settled;
	struct pages pages;

	pages_open(&pages, PAGE_STATES);
	for (unsigned state = 0; state < PAGE_STATES; state++)
		page_make(&pages, state, state, 1);
	for (unsigned i = 0; i < count * count; i++) {
		enum page_state from = settled[i / count], to = settled[i % count];
		/* A frame's contents may be on the donors or lost, and memory may be in use when the pager starts. */
		bool legal = from == PAGE_BUFFERED ? to == PAGE_FAR || to == PAGE_LOST
						   : from == PAGE_UNTOUCHED && to == PAGE_RESIDENT;

		if (from != to && !legal)
			ok(move_aborts(&pages, from, from, to), "a page that is %s does not become %s at once",
			   pages_state_name(from), pages_state_name(to));
	}
	for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
		ok(move_aborts(&pages, wrong[i][0], wrong[i][0], wrong[i][1]), "a page that is %s does not become %s",
		   pages_state_name(wrong[i][0]), pages_state_name(wrong[i][1]));
	pages_close(&pages);
}

static void known_pages_are_found_without_touching_others(void)
{
	const uint64_t count = 4 << 20, far = 3 << 20;
	struct pages pages;

	pages_open(&pages, count);
	ok(pages_next_known(&pages, 0, count) == count, "a fresh table has no known page");
	ok(pages_memory(&pages, count) == 0, "the words of pages that nobody has accessed take no memory");
	pages_mark(&pages, 7, PAGE_SNAPSHOT);
	page_make(&pages, far + 1023, PAGE_RESIDENT, 0);
	page_make(&pages, far + 1024, PAGE_RESIDENT, 0);
	ok(pages_next_known(&pages, 0, count) == 7 && pages_next_known(&pages, 7, count) == 7,
	   "an untouched page with a mark is known");
	ok(pages_next_known(&pages, 8, count) == far + 1023,
	   "the next known page is found behind a long unknown stretch");
	ok(pages_next_known(&pages, far + 1024, count) == far + 1024, "a known page is found from itself on");
	ok(pages_next_known(&pages, far + 1025, count) == count, "no page is known behind the last known page");
	ok(pages_next_known(&pages, 8, far + 1023) == far + 1023 && pages_next_known(&pages, 8, far + 5) == far + 5,
	   "a search for known pages ends at its end");
	uint64_t memory = pages_memory(&pages, count);
	ok(memory > 0 && memory < count / 8, "a search brings no words into memory (%llu bytes)",
	   (unsigned long long)memory);
	pages_close(&pages);
}

/* --- Threads ----------------------------------------------------------------------------------------------------- */

enum { SHARED = 8, MOVERS = 3, ROUNDS = UNDER_TSAN ? 4000 : 30000 };

static struct {
	struct pages pages;
	uint64_t moved[SHARED]; /* written by the owner of the page alone */
	_Atomic uint64_t all;
	_Atomic unsigned wrong;
} shared;

static void *take_pages_over(void *argument)
{
	struct random_state random;
	struct pages *pages = &shared.pages;

	random_seed(&random, (uintptr_t)argument);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t page = random_below(&random, SHARED);
		uint32_t frame = (uint32_t)(uintptr_t)argument;
		bool good = true;

		if (pages_move(pages, page, PAGE_RESIDENT, PAGE_EVICTING, 0)) {
			shared.moved[page]++;
			good = pages_move(pages, page, PAGE_EVICTING, PAGE_BUFFERED, frame);
			atomic_fetch_add(&shared.all, 1);
		} else if (pages_move(pages, page, PAGE_BUFFERED, PAGE_RETURNING, frame)) {
			shared.moved[page]++;
			good = pages_move(pages, page, PAGE_RETURNING, PAGE_RESIDENT, 0);
			atomic_fetch_add(&shared.all, 1);
		}
		shared.wrong += !good;
	}
	return NULL;
}

/* Sets and clears one mark of all pages. Nobody else has this mark. */
static void *mark_pages(void *argument)
{
	uint32_t mark = (uint32_t)(uintptr_t)argument;

	for (unsigned i = 0; i < ROUNDS; i++) {
		shared.wrong += (pages_mark(&shared.pages, i % SHARED, mark) & mark) != 0;
		shared.wrong += !(pages_unmark(&shared.pages, i % SHARED, mark) & mark);
	}
	return NULL;
}

static void one_thread_at_a_time_owns_a_page(void)
{
	pthread_t threads[MOVERS + 2];
	uint64_t moved = 0;

	pages_open(&shared.pages, SHARED);
	for (unsigned page = 0; page < SHARED; page++)
		page_make(&shared.pages, page, PAGE_RESIDENT, 0);
	for (uintptr_t i = 0; i < MOVERS; i++)
		pthread_create(&threads[i], NULL, take_pages_over, (void *)(i + 1));
	pthread_create(&threads[MOVERS], NULL, mark_pages, (void *)(uintptr_t)PAGE_WRITING);
	pthread_create(&threads[MOVERS + 1], NULL, mark_pages, (void *)(uintptr_t)PAGE_SNAPSHOT);
	for (unsigned i = 0; i < MOVERS + 2; i++)
		pthread_join(threads[i], NULL);
	for (unsigned page = 0; page < SHARED; page++)
		moved += shared.moved[page];
	ok(moved == shared.all && moved > ROUNDS / 10, "each page has one owner at a time (%llu of %llu)",
	   (unsigned long long)moved, (unsigned long long)shared.all);
	ok(!shared.wrong, "an owner moves its page on, and every mark lasts until its thread clears it (%u are wrong)",
	   shared.wrong);
	pages_close(&shared.pages);
}

int main(void)
{
	a_page_moves_only_from_what_was_seen();
	a_page_has_its_frame_and_its_marks();
	a_kept_page_does_not_leave();
	contents_move_only_through_an_owner();
	known_pages_are_found_without_touching_others();
	one_thread_at_a_time_owns_a_page();
	return tap_done();
}

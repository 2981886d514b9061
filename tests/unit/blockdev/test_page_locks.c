/* page_locks: which locks exclude each other, which queues are woken, and threads that sleep until others unlock. */
#include "common/random.h"
#include "tests/lib/tap.h"
#include "tests/unit/blockdev/racing_atomics.h"

/* Included here, so that it uses the racing atomics. */
#include "blockdev/page_locks.c"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>

static bool readable(const struct page_locks *locks, unsigned slot)
{
	struct pollfd fd = {.fd = page_locks_fd(locks, slot), .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static void runs_exclude_each_other(struct page_locks *locks)
{
	bool good = true;

	ok(page_locks_try(locks, 0, 10, 5, false) && page_locks_try(locks, 0, 12, 1, false),
	   "two readers lock the same page");
	ok(!page_locks_try(locks, 0, 8, 3, true), "a run with a read page at its end is not locked exclusively");
	ok(page_locks_try(locks, 0, 8, 2, true), "a run that was not locked leaves its other pages free");
	ok(!page_locks_try(locks, 0, 14, 2, true) && page_locks_try(locks, 0, 15, 1, true),
	   "a run with a read page at its beginning is not locked exclusively");
	page_locks_unlock(locks, 10, 5, false);
	ok(!page_locks_try(locks, 0, 12, 1, true) && page_locks_try(locks, 0, 13, 1, true),
	   "a page with one of two readers left is not locked exclusively, its free neighbour is");
	page_locks_unlock(locks, 12, 1, false);
	ok(page_locks_try(locks, 0, 12, 1, true), "a page whose readers have all gone is locked exclusively");
	ok(!page_locks_try(locks, 0, 12, 1, false) && !page_locks_try(locks, 0, 12, 1, true),
	   "nobody else can lock an exclusively locked page");
	page_locks_unlock(locks, 8, 2, true);
	page_locks_unlock(locks, 12, 2, true);
	page_locks_unlock(locks, 15, 1, true);
	ok(page_locks_are_free(locks), "all pages are free after each run is unlocked");
	/* Runs around each multiple of the table's length, in the first TiBs of a disk. */
	for (uint64_t end = PAGE_LOCKS; end < UINT64_C(1) << 30; end += 7ul * PAGE_LOCKS) {
		for (uint64_t page = end - 2; page > end - STORE_RUN_MAX - 2; page -= 125) {
			good &= page_locks_try(locks, 0, page, STORE_RUN_MAX, true);
			page_locks_unlock(locks, page, STORE_RUN_MAX, true);
		}
	}
	ok(good && page_locks_are_free(locks), "no two pages of a run share a word");
	for (uint64_t place = 0; place < 64; place++)
		good &= page_locks_try(locks, 0, 1000 + place * PAGE_LOCKS, STORE_RUN_MAX, true);
	ok(good, "runs at the same place of 64 parts of 256 MiB share no word");
	for (uint64_t place = 0; place < 64; place++)
		page_locks_unlock(locks, 1000 + place * PAGE_LOCKS, STORE_RUN_MAX, true);
}

static void a_discard_excludes_the_locks_of_its_group(struct page_locks *locks)
{
	const uint64_t base = 7 * (uint64_t)PAGE_LOCKS_SPAN;

	ok(page_locks_try(locks, 0, base + 100, 1, false), "a reader locks a page in the range of a later discard");
	ok(page_locks_span(locks, 0, base, PAGE_LOCKS_SPAN) == 100, "a discard gets the pages before a locked page");
	ok(!page_locks_try(locks, 0, base + 50, 1, false) && !page_locks_try(locks, 0, base + 50, 1, true),
	   "nobody can lock a page that is being discarded");
	ok(!page_locks_try(locks, 0, base - 255, 256, false),
	   "a run that begins before a discard and ends in it is not locked");
	ok(!page_locks_try(locks, 0, base + PAGE_LOCKS_SPAN - 1, 256, true),
	   "a run that begins in a discarded group and ends behind it is not locked");
	ok(page_locks_try(locks, 0, base - 256, 256, true) &&
	       page_locks_try(locks, 0, base + PAGE_LOCKS_SPAN, 256, true),
	   "runs next to a discarded group are locked");
	ok(page_locks_span(locks, 1, base + 2 * PAGE_LOCKS_SPAN, 5) == 0,
	   "a second discard gets no pages during the first");
	page_locks_span_end(locks);
	ok(page_locks_span(locks, 1, base + 3 * PAGE_LOCKS_SPAN, 5) == 5,
	   "a second discard gets its pages after the first");
	page_locks_span_end(locks);
	ok(page_locks_span(locks, 0, base + 100, 2) == 0, "a discard that begins at a read page gets no pages");
	ok(page_locks_span(locks, 0, base - 1, 1) == 0, "a discard of a page that is being written gets no pages");
	ok(page_locks_try(locks, 0, base + 50, 1, true), "a page is locked again after its discard has ended");
	page_locks_unlock(locks, base + 50, 1, true);
	page_locks_unlock(locks, base + 100, 1, false);
	page_locks_unlock(locks, base - 256, 256, true);
	page_locks_unlock(locks, base + PAGE_LOCKS_SPAN, 256, true);
	ok(page_locks_are_free(locks), "all pages are free after discards and runs have ended");
}

static void a_waiting_queue_is_woken_once(struct page_locks *locks)
{
	unsigned one = 0, two = 0;

	ok(page_locks_join(locks, &one) == 0 && page_locks_join(locks, &two) == 0 && one != two,
	   "two queues join with different slots");
	page_locks_try(locks, one, 5, 1, true);
	page_locks_unlock(locks, 5, 1, true);
	page_locks_wake(locks, one);
	ok(!readable(locks, two), "a queue that does not wait is not woken");
	page_locks_arm(locks, two);
	page_locks_wake(locks, two);
	ok(!readable(locks, two), "a queue does not wake itself");
	page_locks_arm(locks, one);
	page_locks_wake(locks, two);
	page_locks_wake(locks, two);
	ok(readable(locks, one) && !readable(locks, two), "a queue that waits is woken by another queue");
	page_locks_arm(locks, one);
	ok(readable(locks, one), "arming again keeps the descriptor of a woken queue readable");
	page_locks_disarm(locks, one);
	page_locks_wake(locks, two);
	ok(!readable(locks, one), "a queue that disarmed itself is not woken again");
	page_locks_disarm(locks, two);
	page_locks_wake(locks, one);
	ok(!readable(locks, two), "a queue that disarmed itself before any unlock is not woken");
	page_locks_arm(locks, one);
	page_locks_wake(locks, two);
	page_locks_leave(locks, one);
	ok(page_locks_join(locks, &one) == 0 && !readable(locks, one),
	   "a queue that takes a used slot does not see the old wake-up");
	page_locks_leave(locks, one);
	page_locks_leave(locks, two);
}

/* --- One queue interrupted by two others, at each step -------------------------------------------------------- */

enum kind { DISCARDS, WRITES, READS, KINDS };

static struct {
	struct page_locks *locks;
	unsigned step, foreign_step, waiter_step;
	uint64_t foreign_page, waiter_page;
	enum kind waiter;
	bool foreign_has, waiter_waits, waiter_has;
} scene;

static bool take(enum kind kind, unsigned slot, uint64_t page, uint32_t count)
{
	if (kind == DISCARDS)
		return page_locks_span(scene.locks, slot, page, count) > 0;
	return page_locks_try(scene.locks, slot, page, count, kind == WRITES);
}

static void let_go(enum kind kind, unsigned slot, uint64_t page, uint32_t count)
{
	if (kind == DISCARDS)
		page_locks_span_end(scene.locks);
	else
		page_locks_unlock(scene.locks, page, count, kind == WRITES);
	page_locks_wake(scene.locks, slot);
}

static void interrupt(void)
{
	unsigned step = scene.step++;

	racing_hook = NULL;
	if (step == scene.foreign_step)
		scene.foreign_has = page_locks_try(scene.locks, 2, scene.foreign_page, 1, true);
	if (step == scene.waiter_step) {
		page_locks_arm(scene.locks, 1);
		scene.waiter_has = take(scene.waiter, 1, scene.waiter_page, 1);
		scene.waiter_waits = !scene.waiter_has;
	}
	racing_hook = interrupt;
}

/* Queue 0 wants pages 5 and 6. Meanwhile queue 2 takes one of them, and queue 1 wants the other. Returns true if
   queue 1 got its page or was woken, and no word stays locked. */
static bool scene_is_right(enum kind kind)
{
	bool has, good;

	scene.step = 0;
	scene.foreign_has = scene.waiter_waits = scene.waiter_has = false;
	racing_hook = interrupt;
	has = take(kind, 0, 5, 2);
	if (has)
		let_go(kind, 0, 5, 2);
	racing_hook = NULL;
	good = !scene.waiter_waits || readable(scene.locks, 1);
	if (scene.waiter_has)
		let_go(scene.waiter, 1, scene.waiter_page, 1);
	if (scene.foreign_has)
		let_go(WRITES, 2, scene.foreign_page, 1);
	page_locks_disarm(scene.locks, 1);
	return good && !scene.locks->words[word_of(5)] && !scene.locks->words[word_of(6)];
}

static void no_wake_up_is_lost_at_any_step(struct page_locks *locks)
{
	unsigned slot, wrong = 0, waited = 0;

	scene.locks = locks;
	for (unsigned i = 0; i < 3; i++)
		page_locks_join(locks, &slot);
	for (unsigned i = 0; i < KINDS * KINDS * 2; i++) {
		scene.waiter = i % KINDS;
		scene.foreign_page = 5 + i / KINDS % 2;
		scene.waiter_page = 11 - scene.foreign_page;
		for (scene.foreign_step = 0; scene.foreign_step < 20; scene.foreign_step++) {
			for (scene.waiter_step = 0; scene.waiter_step < 20; scene.waiter_step++) {
				wrong += !scene_is_right((enum kind)(i / KINDS / 2));
				waited += scene.waiter_waits;
			}
		}
	}
	ok(!wrong, "a queue that waits while another is interrupted at any step (%u times) is woken (%u wrong)", waited,
	   wrong);
	ok(page_locks_are_free(locks), "all pages are free after interruptions at each step");
	for (slot = 0; slot < 3; slot++)
		page_locks_leave(locks, slot);
}

/* --- Threads --------------------------------------------------------------------------------------------------- */

#define THREADS 3u
#define ROUNDS 6000u
#define PAGES 48u

struct worker {
	pthread_t thread;
	pthread_barrier_t *all_there;
	struct page_locks *locks;
	unsigned number, wrong, slept;
};

static unsigned contents[PAGES]; /* not atomic; the locks protect it */

static uint32_t attempt(const struct worker *worker, unsigned slot, uint64_t page, uint32_t count, unsigned kind)
{
	if (kind == 0)
		return page_locks_span(worker->locks, slot, page, count);
	return page_locks_try(worker->locks, slot, page, count, kind == 1) ? count : 0;
}

static uint32_t lock_or_sleep(struct worker *worker, unsigned slot, uint64_t page, uint32_t count, unsigned kind)
{
	for (;;) {
		struct pollfd fd = {.fd = page_locks_fd(worker->locks, slot), .events = POLLIN};
		uint32_t got;

		page_locks_disarm(worker->locks, slot);
		got = attempt(worker, slot, page, count, kind);
		if (got)
			return got;
		page_locks_arm(worker->locks, slot);
		got = attempt(worker, slot, page, count, kind);
		if (got)
			return got;
		worker->slept++;
		poll(&fd, 1, -1);
	}
}

static void use_pages(struct worker *worker, struct random_state *random, unsigned slot)
{
	unsigned kind = (unsigned)random_below(random, 4); /* 0 to discard, 1 to write, otherwise to read */
	uint64_t page = random_below(random, PAGES);
	uint32_t count = 1 + (uint32_t)random_below(random, PAGES - page), got;

	got = lock_or_sleep(worker, slot, page, count, kind);
	for (uint32_t i = 0; i < got && kind < 2; i++)
		contents[page + i] = worker->number;
	if (!random_below(random, 8))
		sched_yield();
	for (uint32_t i = 0; i < got; i++)
		worker->wrong += kind < 2 ? contents[page + i] != worker->number : contents[page + i] > THREADS;
	if (kind == 0)
		page_locks_span_end(worker->locks);
	else
		page_locks_unlock(worker->locks, page, count, kind == 1);
	page_locks_wake(worker->locks, slot);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct random_state random;
	unsigned slot;

	random_seed(&random, worker->number);
	page_locks_join(worker->locks, &slot);
	pthread_barrier_wait(worker->all_there); /* so that no thread is done before the last has begun */
	for (unsigned i = 0; i < ROUNDS; i++)
		use_pages(worker, &random, slot);
	page_locks_leave(worker->locks, slot);
	return NULL;
}

static void threads_share_pages_and_wake_each_other(struct page_locks *locks)
{
	struct worker workers[THREADS] = {0};
	unsigned wrong = 0, slept = 0;
	pthread_barrier_t all_there;

	pthread_barrier_init(&all_there, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].locks = locks;
		workers[i].all_there = &all_there;
		workers[i].number = i + 1;
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		wrong += workers[i].wrong;
		slept += workers[i].slept;
	}
	pthread_barrier_destroy(&all_there);
	ok(!wrong, "%u threads that each lock some pages %u times (of %u) do not disturb each other", THREADS, ROUNDS,
	   PAGES);
	ok(slept > 0, "threads that sleep (%u times) are woken", slept);
	ok(page_locks_are_free(locks), "all pages are free after the threads have ended");
}

int main(void)
{
	struct page_locks *locks;

	ok(page_locks_open(&locks) == 0 && page_locks_are_free(locks), "a table of locks opens with all pages free");
	runs_exclude_each_other(locks);
	a_discard_excludes_the_locks_of_its_group(locks);
	a_waiting_queue_is_woken_once(locks);
	no_wake_up_is_lost_at_any_step(locks);
	threads_share_pages_and_wake_each_other(locks);
	page_locks_close(locks);
	page_locks_close(NULL);
	return tap_done();
}

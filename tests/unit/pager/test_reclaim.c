/* How the memory of forked children is taken back. The test answers for the children. */
#include "pager/children.h"
#include "pager/forks.h"
#include "tests/lib/tap.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define WINDOW 1024u
#define GIVEN 100 /* pages that each child counts */

static struct store *store;
static char addresses[1]; /* where the window begins; nobody touches it */
static struct window window;
static struct pager_counters counters;
static struct core core;
static struct children children;
static int ends[CHILDREN_MAX]; /* the children's ends of their sockets */

static void set_up(unsigned count)
{
	memset(&core, 0, sizeof core);
	window = (struct window){.base = addresses, .high = WINDOW, .length = (size_t)2 * WINDOW * STORE_PAGE};
	core.window = &window;
	core.counters = &counters;
	core.children = &children;
	core.limit = 1000;
	if (store_open_memory(WINDOW + 2 * RECLAIM_SHADOWS, &store) || pages_open(&core.pages, store->pages) ||
	    kick_open(&core.handler_kick) || kick_open(&core.evictor_kick) ||
	    shadows_open(&core.shadows, store, &core.pages, WINDOW))
		tap_bail("children cannot be set up");
	core.store = store;
	children_open(&children, &core);
	children.epoll = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned i = 0; i < count; i++) {
		int sockets[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
			abort();
		forks_add(&children, NULL, eventfd(0, EFD_CLOEXEC));
		children.entries[i].socket = sockets[1];
		children.entries[i].given = GIVEN;
		ends[i] = sockets[0];
	}
}

static void tear_down(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close(ends[i]);
	close(children.epoll);
	children_close(&children);
	shadows_close(&core.shadows);
	kick_close(&core.handler_kick);
	kick_close(&core.evictor_kick);
	pages_close(&core.pages);
	store_close(store);
}

static void is_far(unsigned number, uint64_t page)
{
	snapshot_add(&children.entries[number].snapshot, page);
}

/* Makes @page a clean copy of a far page, or an own page, in the memory of child @number. */
static void has_clean(unsigned number, uint64_t page)
{
	is_far(number, page);
	reclaim_add_clean(&children.entries[number], page);
}

static void has_own(unsigned number, uint64_t page)
{
	reclaim_add_own(&children.entries[number], page);
}

/* Returns how many pages child @number is asked to remove. */
static unsigned asked(unsigned number)
{
	struct pass_message message;

	return pass_receive(ends[number], &message) == PASS_REMOVE ? message.count : 0;
}

/* Child @number answers, and sends the contents of as many pages as it says it has moved. */
static void answer(unsigned number, struct pass_removed removed)
{
	struct pass_message contents = {.fd = -1, .count = PASS_WORDS, .words = {7}}, message = {.fd = -1, .count = 4};

	asked(number);
	for (int i = 0; i < __builtin_popcountll(removed.moved); i++)
		pass_send(ends[number], PASS_CONTENTS, &contents);
	memcpy(message.words, &removed, sizeof removed);
	pass_send(ends[number], PASS_REMOVED, &message);
	children_hear(&children, &children.entries[number]);
}

/* Does what the evictor does with an answer of child @number. Returns the first shadow. */
static uint64_t store_moved(unsigned number)
{
	struct child *child = &children.entries[number];
	uint64_t shadows[RECLAIM_MOVES] = {0};

	if (reclaim_next(&children) != child)
		return 0;
	for (unsigned i = 0; i < child->reclaim.content_count; i++)
		shadows[i] = shadows_allocate(&core.shadows, 0);
	reclaim_finish(&children, child, shadows);
	return shadows[0];
}

static enum child_fault look(unsigned number, uint64_t page, uint64_t *ret_home)
{
	enum child_fault fault = children_look(&children, &children.entries[number], page, ret_home);

	if (fault == CHILD_FAR)
		shadows_drop(&core.shadows, *ret_home);
	return fault;
}

static bool is_at(unsigned number, uint64_t page, uint64_t home)
{
	uint64_t at = 0;

	return look(number, page, &at) == CHILD_FAR && at == home;
}

static bool reads_as(unsigned number, uint64_t page, enum child_fault fault)
{
	uint64_t home;

	return look(number, page, &home) == fault;
}

static bool ask(unsigned number)
{
	return reclaim_ask(&children, &children.entries[number]);
}

static void a_child_is_asked_for_its_own_pages(void)
{
	set_up(3);
	has_own(0, 1);
	has_own(1, 1);
	has_clean(1, 2);
	ok(ask(1) && asked(0) == 0 && asked(1) == 2, "a child is asked for its pages, and no other child");
	ok(ask(1) && asked(1) == 0, "a child is not asked again before it has answered");
	ok(ask(0) && asked(0) == 1, "another child can be asked meanwhile");
	ok(!reclaim_is_asked(&children.entries[0], 2) && reclaim_is_asked(&children.entries[1], 2),
	   "each child is asked for its own pages");
	ok(!ask(2) && asked(2) == 0, "a child without pages is not asked");
	close(ends[2]);
	has_own(2, 1);
	ok(!ask(2) && children.entries[2].reclaim.mute, "a child that cannot be reached gives no pages back");
	ends[2] = eventfd(0, EFD_CLOEXEC);
	tear_down(3);
}

static void many_children_are_asked_in_turn(void)
{
	enum { MANY = RECLAIM_ASKED + 1 };
	unsigned reached = 0;

	set_up(MANY);
	for (unsigned i = 0; i < MANY; i++)
		has_clean(i, 7);
	for (unsigned i = 0; i < MANY; i++)
		ask(i);
	for (unsigned i = 0; i < MANY; i++)
		reached += asked(i);
	ok(reached == RECLAIM_ASKED, "only so many children are asked at a time (%u)", reached);
	ok(ask(MANY - 1) && asked(MANY - 1) == 0, "the next child is to wait until another has answered");
	answer(0, (struct pass_removed){.dropped = 1});
	ok(ask(MANY - 1) && asked(MANY - 1) == 1, "when another child has answered, the next child is asked");
	tear_down(MANY);
}

static void each_page_has_its_turn(void)
{
	unsigned turns[3 * RECLAIM_MAX] = {0}, most = 0, moves = 0;

	set_up(1);
	for (uint64_t page = 0; page < RECLAIM_MAX; page++) {
		has_own(0, 3 * page);
		has_clean(0, 3 * page + 1);
		has_clean(0, 3 * page + 2);
	}
	for (unsigned round = 0; round < 4; round++) {
		const struct reclaim *reclaim = &children.entries[0].reclaim;
		unsigned own = 0;

		ask(0);
		unsigned count = asked(0);
		for (unsigned i = 0; i < count; i++) {
			turns[reclaim->asked[i]]++;
			own += reclaim->asked[i] % 3 == 0;
		}
		most = count > most ? count : most;
		moves = own > moves ? own : moves;
		answer(0, (struct pass_removed){.busy = UINT64_MAX});
	}
	unsigned without = 0;
	for (unsigned i = 0; i < 3 * RECLAIM_MAX; i++)
		without += turns[i] == 0;
	ok(without == 0, "each page is asked for in turn (%u are not)", without);
	ok(most <= RECLAIM_MAX && moves == RECLAIM_MOVES, "a request has few own pages (%u of %u)", moves, most);
	ok(children.entries[0].given == GIVEN, "pages that are busy still count");
	tear_down(1);
}

static void what_is_dropped_stays_far(void)
{
	set_up(1);
	has_clean(0, 5);
	ask(0);
	ok(reads_as(0, 5, CHILD_ASKED) && !children_may_write(&children, &children.entries[0], 5),
	   "faults on a page wait while a child is asked for it");
	answer(0, (struct pass_removed){.dropped = 1});
	ok(is_at(0, 5, 5) && children.entries[0].given == GIVEN - 1,
	   "a dropped page is far, and does not count any more");
	ok(!ask(0), "a child without pages is not asked");
	tear_down(1);
}

static void what_is_moved_is_at_a_shadow(void)
{
	set_up(1);
	has_own(0, 3);
	has_own(0, 4);
	has_own(0, 6);
	has_own(0, 9);
	ask(0);
	answer(0, (struct pass_removed){.moved = 1, .gone = 2, .busy = 4});
	ok(reads_as(0, 3, CHILD_ASKED) && children.entries[0].given == GIVEN,
	   "an answer with contents waits for the evictor");
	uint64_t shadow = store_moved(0);
	ok(shadow && is_at(0, 3, shadow), "a moved page is far, at a shadow");
	ok(reads_as(0, 4, CHILD_ZEROES), "a page that the child has replaced is not served any more");
	ok(children.entries[0].given == GIVEN - 2, "moved and replaced pages do not count any more");
	ok(ask(0) && asked(0) == 1 && reclaim_is_asked(&children.entries[0], 6),
	   "a busy page is asked for again, and a page that must stay is not");
	answer(0, (struct pass_removed){.dropped = 0});
	ok(!ask(0) && children.entries[0].reclaim.mute, "a child that removes nothing is not asked again");
	snapshot_remove(&children.entries[0].snapshot, 3);
	ok(shadows_left(&core.shadows) == 2 * RECLAIM_SHADOWS, "a page that is not far any more needs no shadow");
	tear_down(1);
}

static void a_written_page_is_the_childs_own(void)
{
	set_up(1);
	has_clean(0, 5);
	ok(children_may_write(&children, &children.entries[0], 5) && snapshot_is_far(&children.entries[0].snapshot, 5),
	   "a clean copy stays far until its protection has ended");
	children_written(&children, &children.entries[0], 5);
	ok(!snapshot_is_far(&children.entries[0].snapshot, 5),
	   "a clean copy that the child writes to is not far any more");
	ask(0);
	ok(asked(0) == 1, "it can leave as the child's own page");
	answer(0, (struct pass_removed){.moved = 1});
	uint64_t shadow = store_moved(0);
	children_written(&children, &children.entries[0], 5);
	ok(is_at(0, 5, shadow), "a late fault for another thread's write changes nothing");
	tear_down(1);
}

static void contents_move_for_all_children(void)
{
	set_up(3);
	for (unsigned i = 0; i < 2; i++)
		is_far(i, 8);
	has_clean(2, 8);
	ok(children_need(&children, 8) && !children_need(&children, 7), "children need the page that is far for them");
	uint64_t shadow = shadows_allocate(&core.shadows, 0);
	children_rehome(&children, 8, shadow);
	ok(is_at(0, 8, shadow) && is_at(1, 8, shadow) && !children_need(&children, 8),
	   "the old contents of a page are at one shadow for all children");
	ask(2);
	answer(2, (struct pass_removed){.dropped = 1});
	ok(is_at(2, 8, shadow), "a clean copy of the old contents can be dropped, too");
	is_far(0, 9);
	has_clean(2, 9);
	children_rehome(&children, 9, SNAPSHOT_LOST);
	ok(reads_as(0, 9, CHILD_LOST) && !snapshot_is_far(&children.entries[2].snapshot, 9),
	   "contents that cannot be read are lost, except for a child that has a copy");
	tear_down(3);
}

/* A child that forks while it is asked. Entry 1 is the new child. */
static void forks_while_it_is_asked(void)
{
	set_up(1);
	has_own(0, 3);
	has_clean(0, 5);
	ask(0);
	forks_add(&children, &children.entries[0], eventfd(0, EFD_CLOEXEC));
}

static void a_new_child_waits_for_its_parents_answer(void)
{
	forks_while_it_is_asked();
	ok(reads_as(1, 3, CHILD_ASKED) && reads_as(1, 5, CHILD_ASKED),
	   "faults of a child's child wait for the answer, too");
	answer(0, (struct pass_removed){.moved = 1, .dropped = 2});
	uint64_t shadow = store_moved(0);
	ok(is_at(1, 3, shadow) && is_at(1, 5, 5), "it has the pages that its parent has moved or dropped");
	snapshot_remove(&children.entries[0].snapshot, 3);
	ok(is_at(1, 3, shadow), "it keeps them when its parent has other contents");
	tear_down(1);

	forks_while_it_is_asked();
	pthread_mutex_lock(&children.lock);
	reclaim_abandon(&children, &children.entries[0]);
	pthread_mutex_unlock(&children.lock);
	ok(reads_as(1, 3, CHILD_LOST) && is_at(1, 5, 5),
	   "without an answer, pages are lost that its parent may have moved");
	tear_down(1);
}

/* Child @number has new memory at these pages. Returns true if the pager answers. */
static bool renews(unsigned number, uint64_t page, uint64_t count)
{
	const struct pass_forget forget = {
	    .address = (uintptr_t)core_address(&core, page), .bytes = count * STORE_PAGE, .is_new = 1};
	struct pass_message message = {.fd = -1, .count = 3};

	asked(number);
	memcpy(message.words, &forget, sizeof forget);
	pass_send(ends[number], PASS_FORGET, &message);
	children_hear(&children, &children.entries[number]);
	return pass_receive(ends[number], &message) == PASS_FORGOTTEN;
}

static void new_memory_reads_as_zeroes(void)
{
	set_up(1);
	has_own(0, 4);
	has_clean(0, 5);
	has_own(0, 6);
	is_far(0, 7);
	is_far(0, 200);
	uint64_t shadow = shadows_allocate(&core.shadows, 0);
	snapshot_set_home(&children.entries[0].snapshot, 70, shadow);
	ok(renews(0, 5, 70), "the pager answers when it has forgotten what pages were");
	ok(reads_as(0, 5, CHILD_ZEROES) && reads_as(0, 6, CHILD_ZEROES) && reads_as(0, 7, CHILD_ZEROES) &&
	       reads_as(0, 70, CHILD_ZEROES),
	   "new memory reads as zeroes");
	ok(is_at(0, 200, 200) && reclaim_has(&children.entries[0], 4), "other pages are what they were");
	ok(children.entries[0].given == GIVEN - 2, "replaced pages do not count any more");
	ok(shadows_left(&core.shadows) == 2 * RECLAIM_SHADOWS, "replaced pages need no shadow");
	ok(renews(0, 2 * WINDOW - 1, 2) && renews(0, 2 * WINDOW + 7, 1) && is_at(0, 200, 200),
	   "a range that is not all in the window changes nothing");
	tear_down(1);
}

static void new_memory_can_leave(void)
{
	set_up(1);
	renews(0, WINDOW + 10, 4);
	has_own(0, WINDOW + 12);
	ask(0);
	ok(asked(0) == 1 && reclaim_is_asked(&children.entries[0], WINDOW + 12),
	   "a child is asked for pages beyond those of its parent");
	answer(0, (struct pass_removed){.moved = 1});
	uint64_t shadow = store_moved(0);
	ok(shadow && is_at(0, WINDOW + 12, shadow), "such a page is far, at a shadow");
	forks_add(&children, &children.entries[0], eventfd(0, EFD_CLOEXEC));
	ok(is_at(1, WINDOW + 12, shadow), "the child's own child has it, too");
	tear_down(1);
}

static void memory_is_replaced_after_the_answer(void)
{
	forks_while_it_is_asked();
	answer(0, (struct pass_removed){.moved = 1, .dropped = 2});
	renews(0, 3, 3);
	ok(reads_as(0, 3, CHILD_ASKED), "faults on new memory wait until the evictor has handled the answer");
	uint64_t shadow = store_moved(0);
	ok(reads_as(0, 3, CHILD_ZEROES) && reads_as(0, 5, CHILD_ZEROES),
	   "new memory reads as zeroes once the evictor has handled the answer");
	ok(is_at(1, 3, shadow) && is_at(1, 5, 5), "a child's child has what was there when it was forked");
	ok(children.entries[0].given == GIVEN - 2, "each page is taken back once");
	snapshot_remove(&children.entries[1].snapshot, 3);
	ok(shadows_left(&core.shadows) == 2 * RECLAIM_SHADOWS, "no shadow is left when nobody needs it");
	tear_down(1);

	forks_while_it_is_asked();
	reclaim_forget_asked(&children.entries[1], 3, 1);
	answer(0, (struct pass_removed){.moved = 1, .dropped = 2});
	shadow = store_moved(0);
	ok(is_at(0, 3, shadow) && reads_as(1, 3, CHILD_ZEROES), "a child's child can replace its memory meanwhile");
	tear_down(1);
}

int main(void)
{
	new_memory_reads_as_zeroes();
	new_memory_can_leave();
	memory_is_replaced_after_the_answer();
	a_child_is_asked_for_its_own_pages();
	many_children_are_asked_in_turn();
	each_page_has_its_turn();
	what_is_dropped_stays_far();
	what_is_moved_is_at_a_shadow();
	a_written_page_is_the_childs_own();
	contents_move_for_all_children();
	a_new_child_waits_for_its_parents_answer();
	return tap_done();
}

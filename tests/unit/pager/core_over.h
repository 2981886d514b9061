/* core_over: a core over a memory store, without the pager's threads. A test does the work of these threads. */
#ifndef TESTS_CORE_OVER_H
#define TESTS_CORE_OVER_H

#include "page_states.h"
#include "pager/children.h"
#include "pager/core.h"
#include "pager/follow.h"
#include "pager/pagemap.h"
#include "pager/take.h"
#include "tests/lib/tap.h"
#include "userfaultfd.h"

#include <sys/mman.h>

enum { CORE_FRAMES = 8, CORE_LOW = 4, CORE_HIGH = 8 };

struct core_over {
	struct core core;
	struct window window;
	struct pager_counters counters;
	struct children children;
	struct follow follow;
	struct store_queue *queue; /* the calling thread's queue */
	void *landing;
	int pagemap;
};

/* Opens a core with @pages untouched pages, all allocated, and a budget of @limit pages. Returns 0 or -errno of
   uffd_open(). */
__attribute__((unused)) static int core_over_open(struct core_over *over, uint64_t pages, int64_t limit)
{
	struct core *core = &over->core;
	size_t landing = (size_t)TAKE_LANDING * STORE_PAGE;
	void *address;

	memset(over, 0, sizeof *over);
	core->counters = &over->counters;
	refault_open(&core->refault, &core->counters->depths, (uint64_t)limit);
	loop_open(&core->loop, (uint64_t)limit);
	over->landing = take_landing();
	over->pagemap = pagemap_open();
	if (!over->landing || window_reserve(&over->window, pages * STORE_PAGE, 0) ||
	    window_allocate(&over->window, pages * STORE_PAGE, STORE_PAGE, &address) ||
	    store_open_memory(pages, &core->store) || store_queue_open(core->store, &over->queue) ||
	    pages_open(&core->pages, pages) || residents_open(&core->residents, &core->pages, (uint32_t)limit) ||
	    victims_open(&core->victims, &core->pages, &core->refault, CORE_FRAMES) || kick_open(&core->handler_kick) ||
	    kick_open(&core->evictor_kick) ||
	    store_register(core->store, core->victims.frames, (size_t)CORE_FRAMES * STORE_PAGE, &core->buffer))
		tap_bail("a core cannot be set up");
	core->window = &over->window;
	core->children = &over->children;
	core->follow = &over->follow;
	core->limit = limit;
	core->low = CORE_LOW;
	core->high = CORE_HIGH;
	pthread_mutex_init(&core->evict_lock, NULL);
	follow_init(&over->follow);
	children_open(&over->children, core);
	over->children.epoll = -1;
	return uffd_open(over->window.base, over->window.length, over->landing, landing, &core->uffd);
}

__attribute__((unused)) static void core_over_close(struct core_over *over)
{
	struct core *core = &over->core;

	uffd_close(&core->uffd);
	children_close(&over->children);
	kick_close(&core->handler_kick);
	kick_close(&core->evictor_kick);
	store_deregister(core->store, core->buffer);
	victims_close(&core->victims);
	residents_close(&core->residents);
	pages_close(&core->pages);
	store_queue_close(over->queue);
	store_close(core->store);
	window_release(&over->window);
	munmap(over->landing, (size_t)TAKE_LANDING * STORE_PAGE);
	close(over->pagemap);
	pthread_mutex_destroy(&core->evict_lock);
}

/* Returns true if @page is in the program's memory. */
__attribute__((unused)) static bool core_has(const struct core_over *over, uint64_t page)
{
	bool here = false;

	if (pagemap_present(over->pagemap, core_address(&over->core, page), 1, &here))
		tap_bail("/proc/self/pagemap cannot be read");
	return here;
}

/* Places @page, full of @byte, in the program's memory. */
__attribute__((unused)) static void core_place(struct core_over *over, uint64_t page, char byte)
{
	char data[STORE_PAGE];

	memset(data, byte, sizeof data);
	if (uffd_copy(over->core.uffd.fd, core_address(&over->core, page), data, sizeof data, NULL))
		tap_bail("page %u cannot be placed", (unsigned)page);
}

/* Writes @page, full of @byte, to the store. */
__attribute__((unused)) static void core_store(struct core_over *over, uint64_t page, char byte)
{
	char data[STORE_PAGE];
	struct store_io io = {.op = STORE_WRITE, .count = 1, .page = page, .data = data, .buffer = over->core.buffer};
	struct store_done done;

	memset(data, byte, sizeof data);
	if (store_submit(over->queue, &io, 1) != 1 || store_poll(over->queue, &done, 1) != 1 || done.status)
		tap_bail("page %u cannot be stored", (unsigned)page);
}

/* Moves an untouched page to @state. If a page in that state has contents, they are @byte. */
__attribute__((unused)) static void core_make(struct core_over *over, uint64_t page, enum page_state state, char byte)
{
	struct core *core = &over->core;
	uint32_t frame = 0;

	if (state == PAGE_RESIDENT || state == PAGE_EVICTING) {
		core_place(over, page, byte);
		core_claim(core, 1, 0);
	} else if (state == PAGE_BUFFERED || state == PAGE_RETURNING) {
		frame = victims_allocate(&core->victims);
		core->victims.page_of[frame] = (uint32_t)page;
		memset(victims_frame(&core->victims, frame), byte, STORE_PAGE);
	} else if (state == PAGE_FAR) {
		frame = refault_stamp(&core->refault);
		refault_count(&core->refault);
	}
	if (state == PAGE_BUFFERED || state == PAGE_RETURNING || state == PAGE_FAR || state == PAGE_FETCHING)
		core_store(over, page, byte);
	page_make(&core->pages, page, state, frame);
	if (state == PAGE_RESIDENT)
		residents_push(&core->residents, page, false);
}

/* Returns the number of pages that count as far (refault.h). */
__attribute__((unused)) static int64_t core_far(const struct core_over *over)
{
	int64_t far = over->core.refault.oldest;

	for (unsigned i = 0; i < REFAULT_BLOCKS; i++)
		far += over->core.refault.sums[i];
	return far;
}

/* Returns the number of pages that the store has. */
__attribute__((unused)) static uint64_t core_stored(const struct core_over *over)
{
	struct store_stats stats;

	store_stats(over->core.store, &stats);
	return stats.pages_live;
}

#endif

/* Shadows: who keeps one, when it is free again, and when the store forgets its contents. */
#include "pager/shadows.h"
#include "tests/lib/tap.h"

#define WINDOW 4u
#define SHADOWS 6u

static struct store *store;
static struct store_queue *queue;
static struct store_buffer *buffer;
static struct pages pages;
static struct shadows shadows;
static char data[STORE_PAGE] = "contents";

static void set_up(void)
{
	if (store_open_memory(WINDOW + SHADOWS, &store) || store_queue_open(store, &queue) ||
	    store_register(store, data, sizeof data, &buffer) || pages_open(&pages, WINDOW + SHADOWS) ||
	    shadows_open(&shadows, store, &pages, WINDOW))
		tap_bail("shadows cannot be set up");
}

static void tear_down(void)
{
	shadows_close(&shadows);
	pages_close(&pages);
	store_deregister(store, buffer);
	store_queue_close(queue);
	store_close(store);
}

/* Writes @page to the store, as the evictor does. */
static void write_page(uint64_t page)
{
	struct store_io io = {.op = STORE_WRITE, .count = 1, .page = page, .data = data, .buffer = buffer};
	struct store_done done;

	if (store_submit(queue, &io, 1) != 1 || store_poll(queue, &done, 1) != 1 || done.status)
		tap_bail("page %u cannot be written", (unsigned)page);
}

static uint64_t stored(void)
{
	struct store_stats stats;

	store_stats(store, &stats);
	return stats.pages_live;
}

static bool is_wanted(uint64_t page)
{
	return pages_load(&pages, page) & PAGE_SNAPSHOT;
}

static void the_last_user_frees_a_shadow(void)
{
	set_up();
	uint64_t page = shadows_allocate(&shadows, 0);
	ok(shadows_has(&shadows, page) && shadows_left(&shadows) == SHADOWS - 1,
	   "a shadow is a page beyond the window");
	ok(is_wanted(page), "a failed write of a shadow in use is repeated");
	write_page(page);
	shadows_share(&shadows, page);
	shadows_drop(&shadows, page);
	ok(stored() == 1 && shadows_left(&shadows) == SHADOWS - 1 && is_wanted(page),
	   "a shadow with another user stays");
	shadows_drop(&shadows, page);
	ok(stored() == 0 && shadows_left(&shadows) == SHADOWS && !is_wanted(page),
	   "the last user frees the shadow and its contents on the donors");
	ok(shadows_allocate(&shadows, 0) == page, "a free shadow is used again");
	tear_down();
}

static void a_shadow_stays_while_it_is_written(void)
{
	set_up();
	uint64_t page = shadows_allocate(&shadows, 0);
	pages_mark(&pages, page, PAGE_WRITING);
	write_page(page);
	shadows_drop(&shadows, page);
	ok(stored() == 1 && shadows_left(&shadows) == SHADOWS - 1 && shadows_allocate(&shadows, 0) != page,
	   "a shadow without users stays while a write is in flight");
	ok(!is_wanted(page), "a failed write of a shadow without users is not repeated");
	shadows_written(&shadows, page);
	ok(stored() == 0 && shadows_left(&shadows) == SHADOWS - 1, "it is freed when the write is complete");

	page = shadows_allocate(&shadows, 0);
	pages_mark(&pages, page, PAGE_WRITING);
	write_page(page);
	shadows_written(&shadows, page);
	ok(stored() == 1 && !(pages_load(&pages, page) & PAGE_WRITING), "a shadow with a user stays after its write");
	shadows_drop(&shadows, page);
	tear_down();
}

static void some_shadows_are_kept(void)
{
	uint64_t got[SHADOWS];
	bool differ = true;

	set_up();
	for (unsigned i = 0; i < SHADOWS - 2; i++)
		got[i] = shadows_allocate(&shadows, 2);
	ok(got[SHADOWS - 3] && !shadows_allocate(&shadows, 2), "a caller leaves as many shadows as it is told to");
	got[SHADOWS - 2] = shadows_allocate(&shadows, 0);
	got[SHADOWS - 1] = shadows_allocate(&shadows, 0);
	for (unsigned i = 0; i < SHADOWS; i++)
		for (unsigned k = 0; k < i; k++)
			differ = differ && got[i] != got[k];
	ok(differ && got[SHADOWS - 1] && !shadows_allocate(&shadows, 0) && shadows_left(&shadows) == 0,
	   "all shadows can be in use, and each only once");
	tear_down();
}

static void a_store_as_large_as_the_window_has_none(void)
{
	struct shadows none;

	set_up();
	ok(shadows_open(&none, store, &pages, WINDOW + SHADOWS) == 0 && !shadows_allocate(&none, 0) &&
	       !shadows_has(&none, 0) && shadows_left(&none) == 0,
	   "a store without pages beyond the window has no shadow");
	shadows_close(&none);
	tear_down();
}

int main(void)
{
	the_last_user_frees_a_shadow();
	a_shadow_stays_while_it_is_written();
	some_shadows_are_kept();
	a_store_as_large_as_the_window_has_none();
	return tap_done();
}

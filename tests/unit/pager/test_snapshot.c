/* The far pages of one forked child, and the home of each. */
#include "pager/snapshot.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

#define WINDOW 100u /* not a multiple of a bitmap's word */
#define SHADOWS 8u

static struct store *store;
static struct pages pages;
static struct shadows shadows;

static void open_snapshot(struct snapshot *snapshot)
{
	void *tables = calloc(1, snapshot_bytes(WINDOW));

	if (!tables)
		tap_bail("no memory");
	snapshot_open(snapshot, &shadows, WINDOW, tables);
	snapshot->pages = WINDOW;
}

static void close_snapshot(struct snapshot *snapshot)
{
	snapshot_close(snapshot);
	free(snapshot->far);
}

static void pages_are_far_until_removed(void)
{
	struct snapshot snapshot;

	open_snapshot(&snapshot);
	ok(!snapshot_is_far(&snapshot, 0) && !snapshot_is_far(&snapshot, WINDOW - 1),
	   "no page of a new snapshot is far");
	snapshot_add(&snapshot, WINDOW - 1);
	ok(snapshot_is_far(&snapshot, WINDOW - 1) && snapshot_home(&snapshot, WINDOW - 1) == WINDOW - 1,
	   "the home of a page that is made far is the program's page");
	ok(snapshot_needs(&snapshot, WINDOW - 1) && !snapshot_needs(&snapshot, 0),
	   "the snapshot needs the program's page only if the page is far");
	ok(!snapshot_is_far(&snapshot, WINDOW) && !snapshot_is_far(&snapshot, UINT64_MAX),
	   "a page that the window got after the fork is not far");
	snapshot_remove(&snapshot, WINDOW - 1);
	ok(!snapshot_is_far(&snapshot, WINDOW - 1), "a removed page is not far");
	snapshot_remove(&snapshot, WINDOW);
	ok(!snapshot_is_far(&snapshot, WINDOW), "a page beyond the snapshot can be removed");
	close_snapshot(&snapshot);
}

static void homes_are_used_until_the_page_leaves(void)
{
	struct snapshot snapshot;
	uint64_t first = shadows_allocate(&shadows, 0), second = shadows_allocate(&shadows, 0);

	open_snapshot(&snapshot);
	snapshot_add(&snapshot, 1);
	snapshot_set_home(&snapshot, 1, first);
	ok(snapshot_home(&snapshot, 1) == first && !snapshot_needs(&snapshot, 1),
	   "a far page with a shadow does not need the program's page");
	snapshot_set_home(&snapshot, 2, second);
	ok(snapshot_is_far(&snapshot, 2), "a page that gets a shadow is far");
	snapshot_set_home(&snapshot, 1, SNAPSHOT_LOST);
	ok(snapshot_home(&snapshot, 1) == SNAPSHOT_LOST && shadows_left(&shadows) == SHADOWS - 1,
	   "a page whose contents are lost leaves its shadow");
	snapshot_remove(&snapshot, 2);
	ok(shadows_left(&shadows) == SHADOWS, "a removed page leaves its shadow");
	snapshot_add(&snapshot, 2);
	ok(snapshot_home(&snapshot, 2) == 2, "a page that is far again is at the program's page");
	close_snapshot(&snapshot);
}

static void inherited_homes_are_shared(void)
{
	struct snapshot old, new;
	uint64_t shadow = shadows_allocate(&shadows, 0);

	open_snapshot(&old);
	open_snapshot(&new);
	snapshot_add(&old, 1);
	snapshot_set_home(&old, 63, shadow);
	snapshot_set_home(&old, 64, SNAPSHOT_LOST);
	snapshot_inherit(&new, &old);
	ok(snapshot_home(&new, 1) == 1 && snapshot_home(&new, 63) == shadow &&
	       snapshot_home(&new, 64) == SNAPSHOT_LOST && !snapshot_is_far(&new, 2),
	   "a snapshot inherits far pages and homes");
	close_snapshot(&old);
	ok(shadows_left(&shadows) == SHADOWS - 1, "a shadow stays while one snapshot uses it");
	close_snapshot(&new);
	ok(shadows_left(&shadows) == SHADOWS, "the last snapshot frees the shadow");
}

int main(void)
{
	if (store_open_memory(WINDOW + SHADOWS, &store) || pages_open(&pages, WINDOW + SHADOWS) ||
	    shadows_open(&shadows, store, &pages, WINDOW))
		tap_bail("the shadows cannot be set up");
	pages_are_far_until_removed();
	homes_are_used_until_the_page_leaves();
	inherited_homes_are_shared();
	shadows_close(&shadows);
	pages_close(&pages);
	store_close(store);
	return tap_done();
}

/* pager_over: a pager over a memory store, for tests. There are no donors and no network. Everything else is real. */
#ifndef TESTS_PAGER_OVER_H
#define TESTS_PAGER_OVER_H

#include "farpage/farpage.h"
#include "pager/pager.h"
#include "tests/lib/sanitizers.h"
#include "tests/lib/store_faulty.h"
#include "userfaultfd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ThreadSanitizer does not follow a program with threads through fork. */
#define CAN_FORK (!UNDER_TSAN)
#define CANNOT_FORK "ThreadSanitizer does not follow a program with threads through fork"

struct over {
	struct store *store, *inner;
	struct window window;
	struct farpage *farpage;
	unsigned timeout_ms; /* of over_start(); over_store() sets 1000 */
};

/* Opens the store alone. A test may change its operations before over_start(). */
static int over_store(struct over *over, size_t window, const struct store_faults *faults)
{
	memset(over, 0, sizeof *over);
	over->timeout_ms = 1000;
	int result = store_open_memory(2 * (window / STORE_PAGE), &over->inner); /* half of them: shadows */
	if (result == 0 && faults)
		result = store_open_faulty(over->inner, faults, &over->store);
	else
		over->store = over->inner;
	return result;
}

static int over_start(struct over *over, size_t local, size_t window)
{
	int result = window_reserve(&over->window, window, 0);

	over->window.mediated = true; /* the tests change protections while no other thread touches those pages */
	/* FARPAGE_NO_MOVE stands for a kernel without UFFDIO_MOVE, where pages leave only with unsafe_dio. */
	bool copies = getenv("FARPAGE_NO_MOVE");
	struct farpage_options options = {.local = local, .timeout_ms = over->timeout_ms, .unsafe_dio = copies};
	if (result == 0)
		result = pager_open_store(&options, over->store, &over->window, NULL, &over->farpage);
	return result;
}

__attribute__((unused)) static int over_open(struct over *over, size_t local, size_t window,
					     const struct store_faults *faults)
{
	int result = over_store(over, window, faults);

	return result ? result : over_start(over, local, window);
}

__attribute__((unused)) static void over_close(struct over *over)
{
	farpage_close(over->farpage);
	window_release(&over->window);
	if (over->store != over->inner)
		store_close(over->store);
	store_close(over->inner);
}

__attribute__((unused)) static char *over_map(struct over *over, size_t length)
{
	void *address = NULL;

	return farpage_map(over->farpage, length, &address) == 0 ? address : NULL;
}

#endif

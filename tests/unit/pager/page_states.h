/* page_states: puts a page into any state by legal moves, for tests of the pager. */
#ifndef TESTS_PAGE_STATES_H
#define TESTS_PAGE_STATES_H

#include "pager/pages.h"

#include <stdlib.h>

/* Moves an untouched @page to @state by the shortest way. A buffered or returning page has @frame. A page that is far
   or being fetched has the stamp @frame. */
__attribute__((unused)) static void page_make(struct pages *pages, uint64_t page, enum page_state state, uint32_t frame)
{
	static const enum page_state before[PAGE_STATES] = {
	    [PAGE_FILLING] = PAGE_UNTOUCHED, [PAGE_RESIDENT] = PAGE_FILLING,   [PAGE_EVICTING] = PAGE_RESIDENT,
	    [PAGE_BUFFERED] = PAGE_EVICTING, [PAGE_RETURNING] = PAGE_BUFFERED, [PAGE_FAR] = PAGE_BUFFERED,
	    [PAGE_FETCHING] = PAGE_FAR,      [PAGE_LOST] = PAGE_FETCHING,      [PAGE_DISCARDING] = PAGE_RESIDENT,
	};

	if (state == PAGE_UNTOUCHED)
		return;
	page_make(pages, page, before[state], frame);
	bool keeps_frame =
	    state == PAGE_BUFFERED || state == PAGE_RETURNING || state == PAGE_FAR || state == PAGE_FETCHING;
	if (!pages_move(pages, page, before[state], state, keeps_frame ? frame : 0))
		abort();
}

/* Moves a page on which no other thread works from @state to resident. */
__attribute__((unused)) static void page_bring_in(struct pages *pages, uint64_t page, enum page_state state)
{
	enum page_state between = state == PAGE_UNTOUCHED  ? PAGE_FILLING
				  : state == PAGE_BUFFERED ? PAGE_RETURNING
							   : PAGE_FETCHING;

	if (!pages_move(pages, page, state, between, page_frame(pages_load(pages, page))) ||
	    !pages_move(pages, page, between, PAGE_RESIDENT, 0))
		abort();
}

/* Returns the state of @page. */
__attribute__((unused)) static enum page_state state_of(const struct pages *pages, uint64_t page)
{
	return page_state(pages_load(pages, page));
}

#endif

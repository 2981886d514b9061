/*
 * repair: rewrites pages that one donor has changed, with the bytes of a donor that has them intact.
 *
 * Theory of operation. A queue asks for a repair (mailbox.h) when one donor has returned changed pages and another
 * donor has returned the pages intact. The scrub asks for a repair whenever a donor has returned changed pages. The
 * chore then handles the pages one by one, each in a window (copier.h) of its own. Meanwhile it raises the count of
 * the page's chunk, so that the slabs are not released. It first reads the page from the suspect donor again. If the
 * page is still changed, the chore reads it from another donor and writes it to the suspect donor. If a write in
 * flight in the window does not end, no repair is needed: this write also rewrites the page on the suspect donor.
 *
 * Counting and logging. A changed page that the scrub has found is counted and logged here, if it is still changed.
 * If no replica has a page intact, the page is spoilt, and this is logged. While some write that was cut off is not
 * repeated yet, nothing is counted or logged: the copies of its pages may still differ. After an adoption, the writes
 * of the earlier process count as cut off for 10 s plus twice timeout_ms. A spoilt page is logged only once until it
 * is written again. For this, the chore remembers the last REPAIR_SPOILT spoilt pages. Each kind of line is logged at
 * most once a second.
 *
 * Threads: the rebuild thread.
 */
#ifndef CLIENT_REPAIR_H
#define CLIENT_REPAIR_H

#include "client/rebuild/copier.h"

#define REPAIR_SPOILT 64u

struct repair {
	struct chore chore;
	uint64_t page, end;            /* next page to look at, and the end of the pages to look at */
	unsigned donor;                /* the donor that may have changed them */
	bool counted;                  /* a queue has found the changed page and has counted it */
	_Atomic uint64_t told_changed; /* when a changed page was last logged */
	_Atomic uint64_t told_spoilt;
	struct {
		uint64_t page;
		uint16_t generation; /* the generation of its last write; never INTEGRITY_NONE */
	} spoilt[REPAIR_SPOILT];     /* spoilt pages that were logged */
	unsigned spoilt_next;
};

extern const struct chore_kind repair_kind;
/* Asks for a repair of these pages, which @donor may have changed. @counted is as in struct repair. The chore must
   have no pages left. */
void repair_ask(struct repair *repair, uint64_t page, uint64_t end, unsigned donor, bool counted);
/* Reports a spoilt page: no replica that can be reached has it intact, and no write is in flight in its window.
   @counted means that the page has been counted already. */
void repair_page_spoilt(struct repair *repair, uint64_t page, bool counted);

#endif

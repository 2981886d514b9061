/*
 * repair: rewrites pages that one donor has changed and another still has intact.
 *
 * Theory of operation. Queues ask for a repair (mailbox.h) when one donor sends pages back changed and another has them
 * intact. So does the scrub. The chore goes page by page, each in a window (copier.h) of its own. Its chunk is held
 * meanwhile, so that its slabs are not given back. The chore reads the page from the suspect donor again. If the page is
 * still changed, the chore reads it from another donor and writes it to the suspect donor. If writers do not leave the
 * window, the page is not repaired: they write it to the suspect donor, too.
 *
 * A page that the scrub has found is counted and logged if it is still wrong. If no replica has a page intact, this is
 * logged as well: the page is spoilt. Pages are neither counted nor logged while a write that was cut off has not been
 * repeated yet. Writes of an earlier process count as cut off for 10 s and twice timeout_ms after the adoption. A page
 * that was logged as spoilt is not counted or logged again until it is written. Only the last REPAIR_SPOILT such pages
 * are remembered. Each kind of line is logged at most once a second.
 *
 * Threads. The rebuild thread.
 */
#ifndef CLIENT_REPAIR_H
#define CLIENT_REPAIR_H

#include "client/rebuild/copier.h"

#define REPAIR_SPOILT 64u

struct repair {
	struct chore chore;
	uint64_t page, end;            /* the next page to look at, and the end of the pages in doubt */
	unsigned donor;                /* the suspect */
	bool counted;                  /* a queue has found and counted the bad page */
	_Atomic uint64_t told_changed; /* when a changed page was last logged */
	_Atomic uint64_t told_spoilt;
	struct {
		uint64_t page;
		uint16_t generation; /* the generation of its last write; never INTEGRITY_NONE */
	} spoilt[REPAIR_SPOILT];     /* spoilt pages that were logged */
	unsigned spoilt_next;
};

extern const struct chore_kind repair_kind;
/* Gives the chore these pages, which @donor may have changed. @counted is as in struct repair. The chore must have no
   pages. */
void repair_ask(struct repair *repair, uint64_t page, uint64_t end, unsigned donor, bool counted);
/* Reports a spoilt page: no replica that can be reached has it intact, and no writer is in its window. @counted means
   that the page has been counted already. */
void repair_page_spoilt(struct repair *repair, uint64_t page, bool counted);

#endif

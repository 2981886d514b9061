/*
 * repair: rewrites pages that one donor has changed and another still has intact.
 *
 * Theory of operation. Queues ask for a repair (mailbox.h) when one donor sends pages back changed and another has them
 * intact. So does the scrub. The chore goes page by page, each in a window (copier.h) of its own. Its chunk is held
 * meanwhile, so that its slabs are not given back. The chore reads the page from the suspect donor again. If the page is
 * still changed, the chore reads it from another donor and writes it to the suspect donor. A page whose writers do not
 * leave the window is left to them: they write it to the suspect donor, too.
 *
 * A page that the scrub has found is counted and logged if it is still wrong. If no replica has a page intact, this is
 * logged as well: the page is spoilt. Neither is done while a write may have been cut off and is still to be repeated.
 * For 10 s and twice timeout_ms after an adoption, this includes writes of the earlier process. A page that was logged
 * as spoilt is not counted or logged again until it is written. Only the last REPAIR_SPOILT such pages are remembered.
 * Each kind of line is logged at most once a second.
 *
 * Threads. The rebuild thread.
 */
#ifndef CLIENT_REPAIR_H
#define CLIENT_REPAIR_H

#include "client/rebuild/copier.h"

#define REPAIR_SPOILT 64u

struct repair {
	struct chore chore;
	uint64_t page, end;            /* next page to look at, and the end of those in doubt */
	unsigned donor;                /* the suspect */
	bool counted;                  /* a queue has found this, and has counted it */
	_Atomic uint64_t told_changed; /* when that was last logged */
	_Atomic uint64_t told_spoilt;
	struct {
		uint64_t page;
		uint16_t generation; /* of its last write; never INTEGRITY_NONE */
	} spoilt[REPAIR_SPOILT];     /* spoilt pages that were logged */
	unsigned spoilt_next;
};

extern const struct chore_kind repair_kind;
/* Gives the chore these pages, which @donor may have changed. @counted as above. It has none. */
void repair_ask(struct repair *repair, uint64_t page, uint64_t end, unsigned donor, bool counted);
/* Reports that no replica that can be reached has the page intact, while no writer is in its window. @counted means
   that the page has been counted already. */
void repair_page_spoilt(struct repair *repair, uint64_t page, bool counted);

#endif

/* repair: see repair.h. */
#include "client/rebuild/repair.h"

#include "client/io/far_queue.h"
#include "common/events.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>

/* Each kind of line is logged at most once in this time. */
#define COMPLAIN_NS UINT64_C(1000000000)
/* For this long after an adoption, writes of the earlier process may not have been repeated yet. Twice last_timeout_ms
   is added, because these writes may wait for donors. */
#define QUIET_NS UINT64_C(10000000000)

/* --- Findings -------------------------------------------------------------------------------------------------- */

/* Returns true if a write may have been cut off and not repeated yet. In this case the page's copies on donors may be
   wrong without a donor's fault. While pages in a window are copied, `redone` counts each cut-off write of these
   pages. Writes of an earlier process are repeated after the adoption. */
static bool writes_are_redone(const struct repair *repair)
{
	const struct copier *copier = repair->chore.copier;
	struct far *far = copier->far;
	uint64_t quiet_ns = QUIET_NS + 2 * far->config.last_timeout_ms * UINT64_C(1000000);
	unsigned redone = far->adopted && copier->now < copier->opened + quiet_ns;
	const struct far_queue *queue;

	pthread_mutex_lock(&far->lock);
	LIST_FOREACH(queue, &far->queues, link)
		redone += atomic_load(&queue->redone);
	pthread_mutex_unlock(&far->lock);
	return redone;
}

static uint16_t generation_of(const struct repair *repair, uint64_t page)
{
	return atomic_load(&repair->chore.copier->far->integrity.generations[page]);
}

static bool is_known(const struct repair *repair, uint64_t page)
{
	const uint16_t generation = generation_of(repair, page);
	bool known = false;

	for (unsigned i = 0; i < REPAIR_SPOILT; i++)
		known |= repair->spoilt[i].page == page && repair->spoilt[i].generation == generation;
	return known;
}

/* Handles a page that the suspect donor has changed: counts and logs it. Returns true if the page must be
   repaired. */
static bool page_changed(struct repair *repair, uint64_t page)
{
	const struct copier *copier = repair->chore.copier;

	if (repair->counted)
		return true;
	if (writes_are_redone(repair))
		return false;
	if (is_known(repair, page))
		return true; /* a replica that was added since may have the page intact */
	far_count(&copier->counters->checksum_errors, 1);
	if (log_again(&repair->told_changed, copier->now, COMPLAIN_NS))
		log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.donor = copier->far->donors[repair->donor].uri),
			  "donor %s has page %" PRIu64 " changed: found before anybody read it",
			  copier->far->donors[repair->donor].uri, page);
	return true;
}

void repair_page_spoilt(struct repair *repair, uint64_t page, bool counted)
{
	const struct copier *copier = repair->chore.copier;

	if (writes_are_redone(repair) || is_known(repair, page))
		return;
	if (!counted)
		far_count(&copier->counters->checksum_errors, 1);
	if (!log_again(&repair->told_spoilt, copier->now, COMPLAIN_NS))
		return;
	log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_DATA_LOST),
		  "no replica has page %" PRIu64 " as it was written: reading it fails until it is written again",
		  page);
	repair->spoilt[repair->spoilt_next].page = page;
	repair->spoilt[repair->spoilt_next].generation = generation_of(repair, page);
	repair->spoilt_next = (repair->spoilt_next + 1) % REPAIR_SPOILT;
}

/* --- The chore --------------------------------------------------------------------------------------------------- */

void repair_ask(struct repair *repair, uint64_t page, uint64_t end, unsigned donor, bool counted)
{
	assert(repair->page == repair->end);
	repair->page = page;
	repair->end = end;
	repair->donor = donor;
	repair->counted = counted;
}

static uint64_t repair_begin(struct chore *chore)
{
	struct repair *repair = (struct repair *)chore;
	struct copier *copier = chore->copier;
	struct visit visit = {.chore = chore, .kind = INTEGRITY_IS_LIVE, .window = true, .doubt = true};
	struct mailbox_repair asked;

	if (repair->page == repair->end) {
		if (!mailbox_take_repair(&copier->far->mailbox, &asked))
			return COPIER_EVENT;
		repair_ask(repair, asked.page, asked.page + asked.count, asked.donor, true);
	}
	if (copier->now < copier->due)
		return copier->due;
	visit.page = repair->page++;
	if (!copier_is_live(copier, visit.page) || !copier_hold(copier, visit.page))
		return COPIER_NOW;
	visit.end = repair->page;
	visit.donor = repair->donor;
	return copier_begin(copier, &visit);
}

static void repair_answered(struct chore *chore, struct copy *copy)
{
	struct repair *repair = (struct repair *)chore;
	struct copier *copier = chore->copier;
	bool wrong = copy->status == -EBADMSG && copier_is_live(copier, copy->page);

	if (copy->state == COPY_DOUBTING && wrong && page_changed(repair, copy->page)) {
		copier_read(copier, copy);
	} else if (copy->state == COPY_READING && wrong) {
		repair_page_spoilt(repair, copy->page, true);
	} else if (copy->state == COPY_READING && copy->status == 0) {
		copier_write(copier, copy, repair->donor);
	} else if (copy->state == COPY_WRITING && copy->status == 0) {
		copier->copied++;
		far_count(&copier->counters->repaired, 1);
	}
}

static void repair_end(struct chore *chore)
{
	copier_drop(chore->copier, chore->copier->first, 1);
}

const struct chore_kind repair_kind = {"repair", true, repair_begin, repair_answered, repair_end};

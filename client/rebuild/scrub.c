/* scrub: see scrub.h. */
#include "client/rebuild/scrub.h"

#include "client/rebuild/repair.h"

#include <errno.h>

#define NS_PER_S UINT64_C(1000000000)

/* Returns how many ns reading @bytes may take at the current rate. */
static uint64_t scrub_time(const struct copier *copier, uint64_t bytes)
{
	uint64_t rate = copier_rate(copier, copier->far->config.scrub_rate);

	return (uint64_t)((double)bytes * (double)NS_PER_S / (double)rate);
}

static bool has_slabs(const struct far *far)
{
	uint64_t leased = 0;

	for (unsigned i = 0; i < far->donor_count; i++)
		leased += atomic_load_explicit(&far->leased_here[i], memory_order_relaxed);
	return leased;
}

/* Finds the next live pages, in a chunk that has a slab. Returns false at the end of the pass. */
static bool scrub_seek(struct scrub *scrub)
{
	const struct copier *copier = scrub->chore.copier;
	const struct far *far = copier->far;
	uint64_t end;

	while (scrub->page < far->integrity.pages &&
	       chunk_state(&far->table, scrub->page / far->table.pages) != CHUNK_READY)
		scrub->page = far_chunk_end(far, scrub->page);
	if (scrub->page == far->integrity.pages)
		return false;
	end = far_chunk_end(far, scrub->page);
	while (scrub->page < end && !copier_is_live(copier, scrub->page))
		scrub->page++;
	scrub->end = end - scrub->page < copier->pages ? end : scrub->page + copier->pages;
	scrub->slot = 0;
	return true;
}

/* Ends the pass. Returns when the next pass begins. */
static uint64_t scrub_pass_end(struct scrub *scrub)
{
	uint64_t next = scrub->begun + scrub_time(scrub->chore.copier, SCRUB_LEAST);

	scrub->page = scrub->end = 0;
	scrub->begun = 0;
	/* Sets `dormant` before it looks for slabs. scrub_wake() finds a slab that is leased later. */
	atomic_store(&scrub->dormant, true);
	if (!has_slabs(scrub->chore.copier->far))
		return COPIER_EVENT;
	atomic_store(&scrub->dormant, false);
	return scrub->due = next > scrub->chore.copier->now ? next : scrub->chore.copier->now;
}

static uint64_t scrub_begin(struct chore *chore)
{
	struct scrub *scrub = (struct scrub *)chore;
	struct copier *copier = chore->copier;
	struct visit visit = {.chore = chore, .kind = INTEGRITY_IS_LIVE, .doubt = true};

	if (!copier->far->config.scrub_rate || atomic_load(&scrub->dormant))
		return COPIER_EVENT;
	if (copier->now < scrub->due)
		return scrub->due;
	if (scrub->burst >= SCRUB_BURST) {
		scrub->due = copier->now + scrub_time(copier, scrub->burst * STORE_PAGE);
		scrub->burst = 0;
		return scrub->due;
	}
	if (!scrub->begun)
		scrub->begun = copier->now;
	if (scrub->page == scrub->end)
		return scrub_seek(scrub) ? COPIER_NOW : scrub_pass_end(scrub);
	visit.page = scrub->page;
	visit.end = scrub->end;
	scrub->page = scrub->end; /* changed back below if there is a slot to read from */
	if (!copier_hold(copier, visit.page))
		return COPIER_NOW;
	while (scrub->slot < FAR_SLOTS_MAX && copier->view.slots[scrub->slot].state != SLOT_FULL)
		scrub->slot++;
	if (scrub->slot == FAR_SLOTS_MAX) {
		copier_drop(copier, visit.page, 1);
		return COPIER_NOW;
	}
	scrub->page = visit.page;
	visit.donor = copier->view.slots[scrub->slot++].donor;
	scrub->wrong = false;
	return copier_begin(copier, &visit);
}

static void scrub_answered(struct chore *chore, struct copy *copy)
{
	struct scrub *scrub = (struct scrub *)chore;

	scrub->burst += copy->count;
	scrub->wrong |= copy->status == -EBADMSG;
	if (copy->status == 0)
		far_count(&chore->copier->counters->scrubbed, copy->count);
}

static void scrub_end(struct chore *chore)
{
	struct scrub *scrub = (struct scrub *)chore;

	copier_drop(chore->copier, scrub->page, 1);
	if (scrub->wrong)
		repair_ask(scrub->repair, scrub->page, scrub->end, chore->copier->visit.donor, false);
}

const struct chore_kind scrub_kind = {"scrub", false, scrub_begin, scrub_answered, scrub_end};

void scrub_wake(struct scrub *scrub, struct far *far)
{
	if (!atomic_load(&scrub->dormant) || !has_slabs(far))
		return;
	atomic_store(&scrub->dormant, false);
	mailbox_wake_rebuild(&far->mailbox);
}

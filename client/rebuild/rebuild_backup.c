/* rebuild_backup: see rebuild_backup.h. */
#include "client/rebuild/rebuild_backup.h"

#include "client/backup/backup.h"

#include <assert.h>

#define NS_PER_MS UINT64_C(1000000)
/* The pause after a pass, or after a visit in which a donor could not be reached. */
#define PAUSE_NS (1000 * NS_PER_MS)
/* How long to wait before looking if a requested slab has arrived. */
#define ASKED_NS (5 * NS_PER_MS)

static_assert(COPIER_PART <= BACKUP_IO_PAGES, "the backup takes a copy as a whole");

/* --- Catching up -------------------------------------------------------------------------------------------------- */

/* Finds the next run of pages that the backup has missed, that are live, and whose chunk has a slab. Returns its
   length, or 0 if there is none. */
static uint32_t missed_seek(const struct far *far, struct catch_up *catch_up)
{
	struct backup_ring *ring = &far->backup->ring;
	uint64_t page;

	while ((page = backup_ring_next_missed(ring, catch_up->page)) < far->integrity.pages) {
		enum integrity_kind kind = integrity_kind(&far->integrity, page);
		uint64_t end = far_chunk_end(far, page);
		uint32_t run = 1;

		catch_up->page = page;
		if (kind != INTEGRITY_IS_LIVE) {
			/* There is nothing to copy. But a KEPT page stays marked as missed until it is written or
			   given up. The mark tells far_same() that the disk does not have this page, so that the
			   only copy is not dropped. */
			if (kind != INTEGRITY_IS_KEPT)
				backup_ring_unmiss_all(ring, page, 1);
			catch_up->page++;
			continue;
		}
		if (chunk_state(&far->table, page / far->table.pages) != CHUNK_READY) {
			catch_up->page = end;
			continue;
		}
		while (run < COPIER_PAGES && page + run < end && backup_ring_is_missed(ring, page + run))
			run++;
		return run;
	}
	return 0;
}

static uint64_t catch_up_begin(struct chore *chore)
{
	struct catch_up *catch_up = (struct catch_up *)chore;
	struct copier *copier = chore->copier;
	struct backup *backup = copier->far->backup;
	struct visit visit = {.chore = chore, .kind = INTEGRITY_IS_LIVE};
	uint64_t bad_until;
	uint32_t run;

	if (!backup || !backup->ring.missed_count)
		return COPIER_EVENT;
	bad_until = atomic_load(&backup->bad_until);
	if (catch_up->due < bad_until)
		catch_up->due = bad_until;
	if (catch_up->due < copier->due)
		catch_up->due = copier->due;
	if (copier->now < catch_up->due)
		return catch_up->due;
	/* While the ring is more than half full, pages that are just being written have priority. */
	if (backup_ring_count(&backup->ring) > backup->ring.room / 2)
		return copier->now + NS_PER_MS;
	run = missed_seek(copier->far, catch_up);
	if (!run) {
		catch_up->page = 0;
		return catch_up->due = copier->now + PAUSE_NS;
	}
	visit.page = catch_up->page;
	visit.end = catch_up->page += run;
	return copier_hold(copier, visit.page) ? copier_begin(copier, &visit) : COPIER_NOW;
}

static void catch_up_answered(struct chore *chore, struct copy *copy)
{
	struct copier *copier = chore->copier;

	copier->copied += copy->count;
	for (uint32_t i = 0; i < copy->count && copy->status == 0; i++)
		backup_put_again(copier->far->backup, copy->page + i, copy->bytes + (size_t)i * STORE_PAGE);
}

static void catch_up_end(struct chore *chore)
{
	copier_drop(chore->copier, chore->copier->first, 1);
}

const struct chore_kind catch_up_kind = {"catch up", false, catch_up_begin, catch_up_answered, catch_up_end};

/* --- Bringing back ------------------------------------------------------------------------------------------------ */

/* Finds the next run of KEPT pages. Returns its length, or 0 if there is none. */
static uint32_t kept_seek(const struct far *far, struct bring_back *back)
{
	for (uint64_t end; back->page < far->integrity.pages; back->page = end) {
		uint64_t chunk = back->page / far->table.pages, most;

		end = far_chunk_end(far, back->page);
		if (chunk_is_untouched(&far->table, chunk) || chunk_is_leaving(&far->table, chunk) ||
		    (back->denied && chunk_state(&far->table, chunk) != CHUNK_READY))
			continue;
		while (back->page < end && integrity_kind(&far->integrity, back->page) != INTEGRITY_IS_KEPT)
			back->page++;
		if (back->page == end)
			continue;
		most = end - back->page < COPIER_PART ? end - back->page : COPIER_PART;
		return integrity_run(&far->integrity, back->page, (uint32_t)most);
	}
	return 0;
}

/* Counts the pages in their chunk. If the chunk has no slab, asks for one. Returns true if the pages are
   counted. */
static bool kept_hold(struct bring_back *back)
{
	struct far *far = back->chore.copier->far;
	uint64_t index = back->page / far->table.pages;
	struct chunk *chunk = &far->table.chunks[index];
	bool asked = back->asking && back->asked == index;
	enum chunk_hold hold;

	if (asked && atomic_load(&chunk->denials) != back->denials) {
		/* No donor has a free slab. In the rest of this pass, only chunks that have a slab are brought
		   back. */
		back->asking = false;
		back->denied = true;
		return false;
	}
	if (!asked)
		back->denials = atomic_load(&chunk->denials);
	hold = chunk_hold(&far->table, index, back->run, &back->chore.copier->view);
	back->asking = hold != CHUNK_HELD;
	back->asked = index;
	if (hold == CHUNK_ASKED)
		mailbox_wake_control(&far->mailbox);
	if (hold != CHUNK_HELD)
		return false;
	if (asked)
		atomic_store(&far->crowded, false);
	back->chore.copier->epoch = back->chore.copier->view.epoch;
	return true;
}

static uint64_t bring_back_begin(struct chore *chore)
{
	struct bring_back *back = (struct bring_back *)chore;
	struct copier *copier = chore->copier;
	struct visit visit = {.chore = chore, .kind = INTEGRITY_IS_KEPT, .window = true};

	if (!copier->far->backup || !copier->far->integrity.kept)
		return COPIER_EVENT;
	if (back->due < copier->due)
		back->due = copier->due;
	if (copier->now < back->due)
		return back->due;
	back->run = kept_seek(copier->far, back);
	if (!back->run) {
		back->page = 0;
		back->denied = false;
		return back->due = copier->now + PAUSE_NS;
	}
	if (!kept_hold(back))
		return back->due = copier->now + ASKED_NS;
	back->restored = 0;
	visit.page = back->page;
	visit.end = back->page += back->run;
	return copier_begin(copier, &visit);
}

/* All slots have the pages now, so makes them live again. */
static void kept_restore(struct bring_back *back, uint64_t page, uint32_t count)
{
	struct copier *copier = back->chore.copier;
	struct far *far = copier->far;
	uint32_t restored = 0;

	for (uint32_t i = 0; i < count; i++)
		restored += integrity_restore(&far->integrity, page + i);
	/* If the chunk was lost meanwhile, the control thread may have marked its pages as lost when these pages
	   were not live yet. So they are marked here, as write_commit() in far_answer.c does. */
	if (!chunk_is_current(&far->table, page / far->table.pages, copier->epoch))
		integrity_lose(&far->integrity, page, count);
	far_count(&copier->counters->returned, restored);
	back->restored += restored;
	copier->copied += count;
}

static void bring_back_answered(struct chore *chore, struct copy *copy)
{
	const struct chunk_slot *slots = chore->copier->view.slots;

	if (copy->status < 0) {
		chore->copier->failed |= copy->state == COPY_WRITING; /* a donor cannot be reached */
		return;
	}
	while (copy->slot < FAR_SLOTS_MAX && slots[copy->slot].state == SLOT_EMPTY)
		copy->slot++;
	if (copy->slot < FAR_SLOTS_MAX)
		copier_write(chore->copier, copy, slots[copy->slot++].donor);
	else
		kept_restore((struct bring_back *)chore, copy->page, copy->count);
}

/* Subtracts the pages that did not become live from the chunk's count. */
static void bring_back_end(struct chore *chore)
{
	struct bring_back *back = (struct bring_back *)chore;

	copier_drop(chore->copier, chore->copier->first, back->run - back->restored);
	if (chore->copier->failed)
		back->due = chore->copier->now + PAUSE_NS;
}

const struct chore_kind bring_back_kind = {"bring back", false, bring_back_begin, bring_back_answered, bring_back_end};

/* rebuild_backup: see rebuild_backup.h. */
#include "client/rebuild/rebuild_backup.h"

#include "client/backup/backup.h"
#include "client/rebuild/rebuild.h"

#include <errno.h>

#define NS_PER_MS UINT64_C(1000000)
/* The pause after a pass, or after nothing could be done. */
#define PAUSE_NS (1000 * NS_PER_MS)
/* The pause after a slab was asked for. */
#define ASKED_NS (5 * NS_PER_MS)

/* --- Catching up -------------------------------------------------------------------------------------------------- */

/* Finds the next run of pages that are missed, live, and in a chunk that has a slab. Returns its length, or 0 if there
   is none any more. */
static uint32_t missed_seek(const struct far *far, struct rebuild_backup *state)
{
	struct backup_ring *ring = &far->backup->ring;

	while ((state->missed = backup_ring_next_missed(ring, state->missed)) < far->integrity.pages) {
		uint64_t end = far_chunk_end(far, state->missed), page = state->missed;
		uint32_t most = page < state->singles ? 1 : BACKUP_IO_PAGES, run = 0;
		enum integrity_kind kind = integrity_kind(&far->integrity, page);

		if (kind != INTEGRITY_IS_LIVE) {
			/* There is nothing to copy. But a KEPT page stays marked until it is written or given up:
			   far_same() must know that the disk does not have it, so that nobody drops the only copy. */
			if (kind != INTEGRITY_IS_KEPT)
				backup_ring_unmiss(ring, page);
			state->missed++;
			continue;
		}
		if (chunk_state(&far->table, page / far->table.pages) != CHUNK_READY) {
			state->missed = end;
			continue;
		}
		while (run < most && page + run < end && backup_ring_is_missed(ring, page + run) &&
		       integrity_kind(&far->integrity, page + run) == INTEGRITY_IS_LIVE)
			run++;
		return run;
	}
	return 0;
}

static uint64_t missed_idle(struct rebuild *rebuild, uint64_t now)
{
	struct far *far = rebuild->far;
	struct rebuild_backup *state = &rebuild->backup;
	struct backup_ring *ring = &far->backup->ring;
	uint64_t bad_until = atomic_load(&far->backup->bad_until);
	struct chunk_view view;
	uint32_t run;

	if (!ring->missed_count)
		return UINT64_MAX;
	if (state->missed_due < bad_until)
		state->missed_due = bad_until;
	if (now < state->missed_due)
		return state->missed_due;
	/* Pages that are being written now come first. */
	if (backup_ring_count(ring) > ring->room / 2)
		return now + NS_PER_MS;
	run = missed_seek(far, state);
	if (!run) {
		state->missed = state->singles = 0;
		return state->missed_due = now + PAUSE_NS;
	}
	if (!chunk_hold_ready(&far->table, state->missed / far->table.pages, 1, &view)) {
		state->missed += run;
		return now;
	}
	state->epoch = view.epoch;
	/* Counted first. A page that is missed again from here on is marked again. */
	atomic_fetch_add(&far->backup->catching, run);
	backup_ring_unmiss_all(ring, state->missed, run);
	rebuild->page = state->missed;
	rebuild->run = run;
	rebuild_submit(rebuild, STORE_READ, -1, REBUILD_CATCHING);
	return now;
}

uint64_t rebuild_backup_caught_up(struct rebuild *rebuild, uint64_t now)
{
	struct far *far = rebuild->far;
	struct rebuild_backup *state = &rebuild->backup;
	uint32_t run = rebuild->run;

	for (uint32_t i = 0; i < run; i++)
		if (rebuild->status < 0 ||
		    !backup_put_again(far->backup, rebuild->page + i, rebuild->bytes + (size_t)i * STORE_PAGE))
			backup_ring_miss(&far->backup->ring, rebuild->page + i);
	backup_caught(far->backup, run);
	rebuild_let_go(far, rebuild->page / far->table.pages, state->epoch);
	rebuild->phase = REBUILD_IDLE;
	if (rebuild->status < 0 && run > 1)
		state->singles = rebuild->page + run;
	else
		state->missed = rebuild->page + run;
	state->missed_due = rebuild_pace(rebuild, state->missed_due, run, now);
	return now;
}

/* --- Bringing back ------------------------------------------------------------------------------------------------ */

/* Finds the next run of KEPT pages. Returns its length, or 0 if there is none any more. */
static uint32_t kept_seek(const struct far *far, struct rebuild_backup *state)
{
	for (uint64_t end; state->kept < far->integrity.pages; state->kept = end) {
		uint64_t most;

		end = far_chunk_end(far, state->kept);
		if (chunk_is_untouched(&far->table, state->kept / far->table.pages) ||
		    chunk_is_leaving(&far->table, state->kept / far->table.pages))
			continue;
		if (state->denied && chunk_state(&far->table, state->kept / far->table.pages) != CHUNK_READY)
			continue;
		while (state->kept < end && integrity_kind(&far->integrity, state->kept) != INTEGRITY_IS_KEPT)
			state->kept++;
		if (state->kept == end)
			continue;
		most = end - state->kept < BACKUP_IO_PAGES ? end - state->kept : BACKUP_IO_PAGES;
		return integrity_run(&far->integrity, state->kept,
				     state->kept < state->kept_singles ? 1 : (uint32_t)most);
	}
	return 0;
}

/* Counts the pages in their chunk. If the chunk has no slab, asks for one. Returns false if the chunk has no slab
   yet. */
static bool kept_hold(struct rebuild *rebuild, uint32_t run, uint64_t now)
{
	struct far *far = rebuild->far;
	struct rebuild_backup *state = &rebuild->backup;
	uint64_t index = state->kept / far->table.pages;
	struct chunk *chunk = &far->table.chunks[index];
	bool asked = state->asked == index + 1;
	struct chunk_view view;

	state->kept_due = now + ASKED_NS;
	if (asked && atomic_load(&chunk->denials) != state->denials) {
		/* No donor has room. From now on only chunks that have a slab are brought back. */
		state->asked = 0;
		state->denied = true;
		return false;
	}
	if (!asked)
		state->denials = atomic_load(&chunk->denials);
	switch (chunk_hold(&far->table, index, run, &view)) {
	case CHUNK_HELD:
		break;
	case CHUNK_ASKED:
		mailbox_wake_control(&far->mailbox);
		state->asked = index + 1;
		return false;
	case CHUNK_WAIT:
		state->asked = index + 1;
		return false;
	}
	state->asked = 0;
	if (asked)
		atomic_store(&far->crowded, false);
	state->epoch = view.epoch;
	state->donor_count = 0;
	for (unsigned i = 0; i < FAR_SLOTS_MAX; i++)
		if (view.slots[i].state != SLOT_EMPTY)
			state->donors[state->donor_count++] = view.slots[i].donor;
	return true;
}

static uint64_t kept_idle(struct rebuild *rebuild, uint64_t now)
{
	struct far *far = rebuild->far;
	struct rebuild_backup *state = &rebuild->backup;
	uint32_t run;

	if (!far->integrity.kept)
		return UINT64_MAX;
	if (now < state->kept_due)
		return state->kept_due;
	run = kept_seek(far, state);
	if (!run) {
		state->kept = state->kept_singles = 0;
		state->denied = false;
		return state->kept_due = now + PAUSE_NS;
	}
	if (!kept_hold(rebuild, run, now))
		return state->kept_due;
	rebuild->page = state->kept;
	rebuild->run = run;
	state->slot = 0;
	state->patience = now + WRITERS_PATIENCE_NS;
	rebuild->phase = REBUILD_BACK_ENTERING;
	rebuild_window_open(far, rebuild->page, run);
	return now;
}

/* Ends the run that was being brought back: closes the window and gives back the hold on all but @restored pages.
   @passed means that the pass goes on behind the run. */
static uint64_t kept_end(struct rebuild *rebuild, uint32_t restored, bool passed, uint64_t now)
{
	struct far *far = rebuild->far;
	struct rebuild_backup *state = &rebuild->backup;
	uint32_t rest = rebuild->run - restored;

	rebuild_window_close(far);
	if (rest && chunk_drop(&far->table, rebuild->page / far->table.pages, state->epoch, rest))
		mailbox_wake_control(&far->mailbox);
	rebuild->phase = REBUILD_IDLE;
	if (passed)
		state->kept = rebuild->page + rebuild->run;
	state->kept_due = rebuild_pace(rebuild, state->kept_due, rebuild->run, now);
	return now;
}

uint64_t rebuild_backup_entering(struct rebuild *rebuild, uint64_t now)
{
	if (!rebuild_is_written(rebuild->far, rebuild->page, rebuild->run)) {
		rebuild_submit(rebuild, STORE_READ, -1, REBUILD_BRINGING);
		return now;
	}
	if (now < rebuild->backup.patience)
		return now + WRITERS_LOOK_NS;
	return kept_end(rebuild, 0, true, now);
}

/* All slots have the pages now: makes them live again. */
static uint64_t kept_restore(struct rebuild *rebuild, uint64_t now)
{
	struct far *far = rebuild->far;
	uint64_t chunk = rebuild->page / far->table.pages;
	uint32_t restored = 0;

	for (uint32_t i = 0; i < rebuild->run; i++)
		restored += integrity_restore(&far->integrity, rebuild->page + i);
	/* If the chunk was lost meanwhile, marking its pages lost may have missed these. A completed write does the
	   same. */
	if (!chunk_is_current(&far->table, chunk, rebuild->backup.epoch))
		integrity_lose(&far->integrity, rebuild->page, rebuild->run);
	far_count(&rebuild_counters(rebuild)->returned, restored);
	return kept_end(rebuild, restored, true, now);
}

uint64_t rebuild_backup_bringing(struct rebuild *rebuild, uint64_t now)
{
	struct rebuild_backup *state = &rebuild->backup;

	if (rebuild->status < 0 && !state->slot && rebuild->run > 1) {
		/* One of the pages cannot be read. */
		state->kept_singles = rebuild->page + rebuild->run;
		return kept_end(rebuild, 0, false, now);
	}
	if (rebuild->status < 0) {
		now = kept_end(rebuild, 0, true, now);
		if (state->slot)
			state->kept_due = now + PAUSE_NS; /* a donor is away */
		return now;
	}
	if (state->slot == state->donor_count)
		return kept_restore(rebuild, now);
	rebuild_submit(rebuild, STORE_WRITE, (int)state->donors[state->slot++], REBUILD_BRINGING);
	return now;
}

uint64_t rebuild_backup_idle(struct rebuild *rebuild, uint64_t now)
{
	uint64_t missed, kept;

	if (!rebuild->far->backup)
		return UINT64_MAX;
	missed = missed_idle(rebuild, now);
	if (rebuild->phase != REBUILD_IDLE)
		return now;
	kept = kept_idle(rebuild, now);
	return missed < kept ? missed : kept;
}

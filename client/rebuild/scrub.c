#include "client/rebuild/scrub.h"

#include "client/io/far_queue.h"
#include "client/rebuild/rebuild.h"
#include "common/log.h"

#include <errno.h>
#include <inttypes.h>

#define NS_PER_S UINT64_C(1000000000)
/* Each kind of line is logged at most once in this time. */
#define COMPLAIN_NS NS_PER_S
/* After a process was killed, its successor may take this long to repeat its writes. The time to wait for donors is
   added. */
#define QUIET_NS (10 * NS_PER_S)

/* Returns how long @bytes take at the current rate, in ns. */
static uint64_t scrub_time(const struct rebuild *rebuild, uint64_t bytes)
{
	uint64_t rate = rebuild_rate_now(rebuild->far, rebuild->far->config.scrub_rate);

	return (uint64_t)((double)bytes * (double)NS_PER_S / (double)rate);
}

void scrub_open(struct scrub *scrub, const struct far *far, uint64_t now)
{
	if (far->adopted)
		scrub->quiet_until = now + QUIET_NS + 2 * far->config.timeout_ms * UINT64_C(1000000);
}

/* --- Passes ----------------------------------------------------------------------------------------------------- */

static bool scrub_has_slabs(const struct far *far)
{
	for (uint64_t i = 0; i < far->table.count; i++)
		if (chunk_state(&far->table, i) == CHUNK_READY)
			return true;
	return false;
}

/* Finds the next live pages, in at most one chunk that has a slab. Returns false at the end of the pass. */
static bool scrub_seek(const struct far *far, struct scrub *scrub)
{
	while (scrub->page < far->integrity.pages) {
		uint64_t chunk = scrub->page / far->table.pages, end = far_chunk_end(far, scrub->page);
		uint64_t page = scrub->page, most;

		scrub->page = end;
		if (chunk_state(&far->table, chunk) != CHUNK_READY)
			continue;
		scrub->seen = true;
		while (page < end && integrity_kind(&far->integrity, page) != INTEGRITY_IS_LIVE)
			page++;
		if (page == end)
			return true;
		most = end - page < far->rebuild->window ? end - page : far->rebuild->window;
		scrub->page = page;
		scrub->run = integrity_run(&far->integrity, page, (uint32_t)most);
		scrub->slot = 0;
		return true;
	}
	return false;
}

/* Ends the pass. Returns when the next one begins, or UINT64_MAX if no chunk has a slab. */
static uint64_t scrub_pass_end(struct rebuild *rebuild, uint64_t now)
{
	struct scrub *scrub = &rebuild->scrub;
	uint64_t next = scrub->begun + scrub_time(rebuild, SCRUB_LEAST);

	scrub->page = 0;
	scrub->begun = 0;
	if (!scrub->seen) {
		/* First the store, then the look: scrub_wake() sees a slab that comes after the look. */
		atomic_store(&scrub->dormant, true);
		if (!scrub_has_slabs(rebuild->far))
			return UINT64_MAX;
		atomic_store(&scrub->dormant, false);
	}
	scrub->seen = false;
	scrub->due = next > now ? next : now;
	return scrub->due;
}

/* --- Reads ------------------------------------------------------------------------------------------------------ */

/* Reads the run from the donor of its chunk's next FULL slot. Returns false if there is none any more. */
static bool scrub_read_next(struct rebuild *rebuild)
{
	struct far *far = rebuild->far;
	struct scrub *scrub = &rebuild->scrub;
	uint64_t chunk = scrub->page / far->table.pages;
	struct chunk_view view;

	if (!chunk_hold_ready(&far->table, chunk, 1, &view))
		return false;
	while (scrub->slot < FAR_SLOTS_MAX && view.slots[scrub->slot].state != SLOT_FULL)
		scrub->slot++;
	scrub->epoch = view.epoch;
	if (scrub->slot == FAR_SLOTS_MAX) {
		rebuild_let_go(far, chunk, scrub->epoch);
		return false;
	}
	scrub->donor = view.slots[scrub->slot++].donor;
	rebuild->page = scrub->page;
	rebuild->run = scrub->run;
	rebuild_submit(rebuild, STORE_READ, (int)scrub->donor, REBUILD_SCRUBBING);
	return true;
}

uint64_t scrub_idle(struct rebuild *rebuild, uint64_t now)
{
	struct scrub *scrub = &rebuild->scrub;

	if (!rebuild->far->config.scrub_rate)
		return UINT64_MAX;
	if (now < scrub->due)
		return scrub->due;
	if (scrub->burst >= SCRUB_BURST) {
		scrub->due = now + scrub_time(rebuild, scrub->burst * STORE_PAGE);
		scrub->burst = 0;
		return scrub->due;
	}
	if (!scrub->begun)
		scrub->begun = now;
	if (!scrub->run)
		return scrub_seek(rebuild->far, scrub) ? now : scrub_pass_end(rebuild, now);
	if (!scrub_read_next(rebuild)) {
		scrub->page += scrub->run;
		scrub->run = 0;
	}
	return now;
}

uint64_t scrub_read_done(struct rebuild *rebuild, uint64_t now)
{
	struct scrub *scrub = &rebuild->scrub;
	struct far *far = rebuild->far;

	rebuild_let_go(far, scrub->page / far->table.pages, scrub->epoch);
	rebuild->phase = REBUILD_IDLE;
	scrub->burst += scrub->run;
	if (rebuild->status == 0)
		far_count(&rebuild_counters(rebuild)->scrubbed, scrub->run);
	else if (rebuild->status == -EBADMSG)
		rebuild_doubt(rebuild, scrub->page, scrub->run, scrub->donor, false);
	return now;
}

/* --- What is found ---------------------------------------------------------------------------------------------- */

/* Returns true if a write may have been cut off and will be repeated. Until then the page's copies on donors may match
   nothing. A cut-off write of a page in the window was counted in `redone` before the window was entered, and stays
   counted until the window closes. Writes that were under way in an earlier process are repeated by its successor. */
static bool writes_are_redone(struct rebuild *rebuild, uint64_t now)
{
	struct far *far = rebuild->far;
	const struct far_queue *queue;
	unsigned redone = now < rebuild->scrub.quiet_until;

	pthread_mutex_lock(&far->lock);
	LIST_FOREACH(queue, &far->queues, link)
		redone += atomic_load(&queue->redone);
	pthread_mutex_unlock(&far->lock);
	return redone;
}

/* Identifies the page and its last write. Never 0, because the page is live. */
static uint64_t spoilt_word(const struct rebuild *rebuild)
{
	return rebuild->page << 16 | atomic_load(&rebuild->far->integrity.generations[rebuild->page]);
}

static bool is_known(const struct rebuild *rebuild)
{
	const uint64_t word = spoilt_word(rebuild);
	bool known = false;

	for (unsigned i = 0; i < SCRUB_SPOILT; i++)
		known |= rebuild->scrub.spoilt[i] == word;
	return known;
}

bool scrub_page_changed(struct rebuild *rebuild, unsigned donor, uint64_t now)
{
	if (writes_are_redone(rebuild, now))
		return false;
	if (is_known(rebuild))
		return true; /* there may be a new replica now that has the page intact */
	far_count(&rebuild_counters(rebuild)->checksum_errors, 1);
	if (log_again(&rebuild->scrub.told_changed, now, COMPLAIN_NS))
		log_error("donor %s has page %" PRIu64 " changed: found before anybody read it",
			  rebuild->far->donors[donor].uri, rebuild->page);
	return true;
}

bool scrub_page_spoilt(struct rebuild *rebuild, bool counted, uint64_t now)
{
	struct scrub *scrub = &rebuild->scrub;

	if (writes_are_redone(rebuild, now))
		return false;
	if (is_known(rebuild))
		return true;
	if (!counted)
		far_count(&rebuild_counters(rebuild)->checksum_errors, 1);
	if (log_again(&scrub->told_spoilt, now, COMPLAIN_NS)) {
		log_error("no replica has page %" PRIu64
			  " as it was written: reading it fails until it is written again",
			  rebuild->page);
		scrub->spoilt[scrub->spoilt_next++ % SCRUB_SPOILT] = spoilt_word(rebuild);
	}
	return true;
}

void scrub_wake(struct far *far)
{
	bool leased = false;

	if (!far->rebuild || !atomic_load(&far->rebuild->scrub.dormant))
		return;
	for (unsigned i = 0; i < far->donor_count; i++)
		leased |= atomic_load_explicit(&far->donors[i].leased_here, memory_order_relaxed) != 0;
	if (!leased)
		return;
	atomic_store(&far->rebuild->scrub.dormant, false);
	mailbox_wake_rebuild(&far->mailbox);
}

/*
 * core: the state that the handler and the evictor of one pager share.
 *
 * The budget is counted in pages. `limit` is the number of pages that the program may have in local memory.
 * `resident` counts the program's pages in local memory, and pages that are claimed but not present yet. Forked
 * children have budgets of the same size (children.h).
 *
 * The handler calls core_claim() before it places a page. A claim never raises `resident` above `limit`. If fewer
 * than `low` pages are then free, core_claim() wakes the evictor. The evictor evicts pages until `high` pages are
 * free. It calls core_release() only after the kernel has freed the memory of the evicted pages. The handler parks a
 * fault that must wait for free memory or for another thread's work on the page. core_release() and core_set_limit()
 * make memory free. A thread that finishes work on a page calls core_settled(). Then the handler retries the parked
 * faults.
 */
#ifndef PAGER_CORE_H
#define PAGER_CORE_H

#include "client/store.h"
#include "pager/counters.h"
#include "pager/kick.h"
#include "pager/loop.h"
#include "pager/pages.h"
#include "pager/refault.h"
#include "pager/residents.h"
#include "pager/shadows.h"
#include "pager/uffd.h"
#include "pager/victims.h"
#include "pager/window.h"

struct children;
struct follow;

struct core {
	struct window *window;
	struct pages pages;
	struct residents residents;
	struct victims victims;
	struct shadows shadows;
	struct uffd uffd;
	struct store *store;
	struct store_buffer *buffer; /* registration of the victim buffer's frames */
	struct pager_counters *counters;
	struct refault refault;
	struct loop loop; /* owned by the handler */
	struct children *children;
	struct follow *follow; /* owned by the handler; chooses the evictor's processor */

	/* Pages. The handler's frames that have memory count as resident (fetch.h). */
	_Atomic int64_t limit, resident, frames;
	int64_t low, high;
	_Atomic int64_t kept; /* pages with the mark PAGE_KEPT, which are never evicted (keep.h) */
	unsigned timeout_ms, spin_us;

	struct kick handler_kick, evictor_kick;
	_Atomic unsigned waiting;     /* number of faults that the handler has parked */
	_Atomic uint64_t settlements; /* number of core_settled() calls */
	_Atomic pid_t evictor_thread; /* the evictor's thread ID, so that the handler recognises the evictor's own
					 faults */
	/* Held by the evictor while pages are PAGE_EVICTING, and by the handler while it adds a child of the
	   program. */
	pthread_mutex_t evict_lock;
	/* Odd while the handler reads events and takes the snapshots for forks among these events. Discards wait
	   meanwhile. */
	_Atomic uint64_t looks;
	_Atomic bool stop;
};

static inline uint64_t core_page(const struct core *core, uintptr_t address)
{
	return (address - (uintptr_t)core->window->base) / STORE_PAGE;
}

static inline char *core_address(const struct core *core, uint64_t page)
{
	return core->window->base + page * STORE_PAGE;
}

static inline int64_t core_free(const struct core *core)
{
	return atomic_load_explicit(&core->limit, memory_order_relaxed) -
	       atomic_load_explicit(&core->resident, memory_order_relaxed);
}

static inline void core_count(uint64_t *counter, uint64_t amount)
{
	__atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

/* Records that a process has @bytes of local memory. */
static inline void core_note_local(struct core *core, uint64_t bytes)
{
	if (bytes > __atomic_load_n(&core->counters->local_peak_bytes, __ATOMIC_RELAXED))
		__atomic_store_n(&core->counters->local_peak_bytes, bytes, __ATOMIC_RELAXED);
}

/* Claims local memory for up to @wanted pages, so that at least @spare pages stay free. Wakes the evictor if fewer
   than `low` pages are then free. Returns the number of pages claimed. */
static inline int64_t core_claim(struct core *core, int64_t wanted, int64_t spare)
{
	uint64_t overhead = __atomic_load_n(&core->counters->overhead_bytes, __ATOMIC_ACQUIRE); /* before the limit */
	int64_t limit = atomic_load_explicit(&core->limit, memory_order_relaxed);
	int64_t resident = atomic_load_explicit(&core->resident, memory_order_relaxed), claimed;

	do {
		int64_t room = limit - resident - spare;

		claimed = room < 0 ? 0 : room < wanted ? room : wanted;
	} while (claimed && !atomic_compare_exchange_weak(&core->resident, &resident, resident + claimed));
	if (limit - resident - claimed < core->low)
		kick_ring(&core->evictor_kick);
	if (claimed) {
		uint64_t now = (uint64_t)(resident + claimed);

		__atomic_store_n(&core->counters->resident_pages, now, __ATOMIC_RELAXED);
		core_note_local(core, now * STORE_PAGE + overhead);
	}
	return claimed;
}

/* Reports that a page has settled or memory has become free. The handler then retries its parked faults. */
static inline void core_settled(struct core *core)
{
	atomic_fetch_add(&core->settlements, 1);
	if (atomic_load(&core->waiting))
		kick_ring(&core->handler_kick);
}

/* Releases the claim of @count pages, whose memory is free again or was never used. */
static inline void core_release(struct core *core, int64_t count)
{
	int64_t before = atomic_fetch_sub(&core->resident, count);

	__atomic_store_n(&core->counters->resident_pages, (uint64_t)(before - count), __ATOMIC_RELAXED);
	if (count)
		core_settled(core);
}

/* Sets the number of pages that the program may have in local memory. */
static inline void core_set_limit(struct core *core, int64_t limit)
{
	if (atomic_exchange(&core->limit, limit) < limit)
		core_settled(core);
}

#endif

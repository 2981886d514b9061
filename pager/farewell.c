#include "pager/farewell.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/machine.h"
#include "common/size.h"
#include "pager/children.h"
#include "pager/faults.h"
#include "pager/fetch.h"

#include <unistd.h>

#define FAREWELL_PATIENCE UINT64_C(3000000000) /* ns without progress */
#define FAREWELL_READS 32u                     /* reads in flight */
#define FAREWELL_POLL_US 500u
#define NO_PAGE UINT64_MAX

void farewell_say(struct children *children)
{
	enum farewell none = FAREWELL_NONE;

	if (atomic_load(&children->count) == 0)
		return;
	atomic_compare_exchange_strong(&children->farewell, &none, FAREWELL_WANTED);
	kick_ring(&children->core->handler_kick);
	while (atomic_load(&children->farewell) == FAREWELL_WANTED)
		usleep(FAREWELL_POLL_US);
}

bool farewell_is_due(const struct handler *handler)
{
	return atomic_load(&handler->core->children->farewell) == FAREWELL_WANTED && !handler->farewell_waits;
}

/* Returns true if farewell is to bring pages to @child, or waits for its answer. */
static bool concerns(const struct child *child)
{
	return child->uffd >= 0 && child->socket >= 0 && !child->denied && !child->local;
}

/* Returns the first page from @page on that is far for @child and not there, or NO_PAGE. */
static uint64_t next_missing(const struct child *child, uint64_t page)
{
	const uint64_t words = (child->snapshot.pages + BITMAP_WORD - 1) / BITMAP_WORD;

	for (uint64_t word = page / BITMAP_WORD; word < words; word++, page = word * BITMAP_WORD) {
		uint64_t missing = child->snapshot.far[word] & ~child->reclaim.clean[word];

		missing &= ~UINT64_C(0) << page % BITMAP_WORD;
		if (missing)
			return word * BITMAP_WORD + (unsigned)__builtin_ctzll(missing);
	}
	return NO_PAGE;
}

static uint64_t count_missing(const struct child *child)
{
	uint64_t count = 0;

	for (uint64_t page = 0; (page = next_missing(child, page)) != NO_PAGE; page++)
		count++;
	return count;
}

/* Returns true if a fault of @child on @page is parked, or the page is asked (reclaim.h). */
static bool must_wait(const struct handler *handler, const struct child *child, uint64_t page)
{
	for (unsigned i = 0; i < handler->parked_count; i++)
		if (handler->parked[i].child == child && handler->parked[i].page == page)
			return true;
	return reclaim_is_asked(child, page);
}

/* Returns the next page to bring to @child, or NO_PAGE at the end of a search through all pages. */
static uint64_t next_page(struct handler *handler, struct child *child)
{
	struct children *children = handler->core->children;

	pthread_mutex_lock(&children->lock);
	uint64_t page = next_missing(child, child->searched);
	while (page != NO_PAGE && must_wait(handler, child, page)) {
		child->missed = true;
		page = next_missing(child, page + 1);
	}
	child->searched = page == NO_PAGE ? 0 : page + 1;
	pthread_mutex_unlock(&children->lock);
	return page;
}

/* Starts reads of pages that @child misses. Returns true if it misses none. A search begins only when no read is in
   flight, because it would find the same pages again. */
static bool bring(struct handler *handler, struct child *child)
{
	struct children *children = handler->core->children;
	const unsigned born = child->born;

	if (child->searched == 0 && atomic_load(&children->reads))
		return false;
	while (children_has(child, born) && !child->denied && atomic_load(&children->reads) < FAREWELL_READS) {
		const struct fault fault = {
		    .page = next_page(handler, child), .child = child, .born = born, .thread = child->pid};

		if (fault.page == NO_PAGE) {
			bool missed = child->missed;

			child->missed = false;
			return !missed;
		}
		child->missed = true; /* until the next search has not found it */
		faults_answer_child(handler, &fault);
	}
	return false;
}

/* Tells @child that all its pages are local. children_hear() receives the answer. */
static void tell(struct child *child)
{
	if (child->told)
		return;
	child->told = true;
	pass_send(child->socket, PASS_LOCAL, &(struct pass_message){.fd = -1});
}

/* Returns false if this machine does not have the memory for all missing pages. */
static bool has_room(struct children *children)
{
	struct machine_memory machine;
	char size[SIZE_TEXT_MAX];
	uint64_t bytes = 0;

	pthread_mutex_lock(&children->lock);
	for (unsigned i = 0; i < children->top; i++)
		if (concerns(&children->entries[i]))
			bytes += count_missing(&children->entries[i]) * STORE_PAGE;
	pthread_mutex_unlock(&children->lock);
	if (bytes == 0)
		return true;
	bool has = machine_memory_read(&machine) == 0 && bytes < machine.available;
	if (has)
		log_warning("process %d ends before processes that it has forked: their far memory, %s, comes back to "
			    "this machine until they have pagers of their own",
			    getpid(), size_format(bytes, size));
	else
		log_warning("process %d ends before processes that it has forked, and this machine does not have the "
			    "%s for their far memory: they are stopped when they need it",
			    getpid(), size_format(bytes, size));
	return has;
}

void farewell_continue(struct handler *handler)
{
	struct children *children = handler->core->children;
	bool all = true, none_missing = true;

	if (atomic_load(&children->farewell) != FAREWELL_WANTED)
		return;
	if (!handler->farewell_progress) {
		handler->farewell_progress = clock_now();
		children_reap(children); /* those that have called exec need nothing */
		if (!has_room(children)) {
			atomic_store(&children->farewell, FAREWELL_DONE);
			return;
		}
	}
	for (unsigned i = 0; i < children->top; i++) {
		struct child *child = &children->entries[i];

		if (!concerns(child))
			continue;
		all = false;
		if (bring(handler, child))
			tell(child);
		else
			none_missing = false;
	}
	fetch_send(handler);
	pthread_mutex_lock(&children->lock);
	const bool asked = reclaim_count_asked(children), reads = atomic_load(&children->reads);
	pthread_mutex_unlock(&children->lock);
	if (reads || (handler->parked_count && !asked))
		handler->farewell_progress = clock_now();
	/* A read, an answer of a child, or the settlement of a parked fault wakes the handler. */
	handler->farewell_waits = none_missing || reads || asked || handler->parked_count;
	if (all || clock_now() - handler->farewell_progress > FAREWELL_PATIENCE)
		atomic_store(&children->farewell, FAREWELL_DONE);
}

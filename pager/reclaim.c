#include "pager/reclaim.h"

#include "pager/bitmap.h"
#include "pager/children.h"

#include <string.h>

static bool has(const struct child *child, const uint64_t *bits, uint64_t page)
{
	return page < child->snapshot.pages && bitmap_has(bits, page);
}

bool reclaim_is_clean(const struct child *child, uint64_t page)
{
	return has(child, child->reclaim.clean, page);
}

bool reclaim_has(const struct child *child, uint64_t page)
{
	return has(child, child->reclaim.clean, page) || has(child, child->reclaim.own, page);
}

void reclaim_add_clean(struct child *child, uint64_t page)
{
	bitmap_set(child->reclaim.clean, page, 1, true);
	child->reclaim.count++;
}

void reclaim_add_own(struct child *child, uint64_t page)
{
	if (page >= child->capacity)
		return;
	if (page >= child->snapshot.pages)
		child->snapshot.pages = page + 1;
	bitmap_set(child->reclaim.own, page, 1, true);
	child->reclaim.count++;
}

bool reclaim_forget(struct child *child, uint64_t page)
{
	struct reclaim *reclaim = &child->reclaim;

	if (!reclaim_has(child, page))
		return false;
	bitmap_set(reclaim->clean, page, 1, false);
	bitmap_set(reclaim->own, page, 1, false);
	reclaim->count--;
	return true;
}

void reclaim_forget_asked(struct child *child, uint64_t first, uint64_t count)
{
	struct reclaim *reclaim = &child->reclaim;

	for (unsigned i = 0; i < reclaim->asked_count; i++)
		if (reclaim->asked[i] - first < count)
			reclaim->forgotten |= UINT64_C(1) << i;
}

/* --- Asking ----------------------------------------------------------------------------------------------------- */

/* Adds the pages of @bits, which are those of word @word, to the request. Returns false if the request is full. */
static bool choose_from(struct reclaim *reclaim, uint64_t word, uint64_t bits, unsigned *moves)
{
	for (; bits; bits &= bits - 1) {
		uint64_t page = word * BITMAP_WORD + (unsigned)__builtin_ctzll(bits);

		if (bitmap_has(reclaim->own, page) && (*moves)++ == RECLAIM_MOVES)
			return false;
		reclaim->asked[reclaim->asked_count++] = page;
		if (reclaim->asked_count == RECLAIM_MAX)
			return false;
	}
	return true;
}

/* Finds pages to remove, beginning at the hand, so that each page has its turn. Returns their number. */
static unsigned choose(struct child *child)
{
	struct reclaim *reclaim = &child->reclaim;
	const uint64_t words = (child->snapshot.pages + BITMAP_WORD - 1) / BITMAP_WORD;
	const uint64_t from_hand = ~UINT64_C(0) << (reclaim->hand % BITMAP_WORD);
	uint64_t word = reclaim->hand / BITMAP_WORD;
	unsigned moves = 0;

	reclaim->asked_count = 0;
	for (uint64_t seen = 0; seen <= words; seen++, word = (word + 1) % words) {
		uint64_t bits = reclaim->clean[word] | reclaim->own[word];

		if (seen == 0)
			bits &= from_hand;
		else if (seen == words)
			bits &= ~from_hand;
		if (!choose_from(reclaim, word, bits, &moves))
			break;
	}
	if (reclaim->asked_count)
		reclaim->hand = (reclaim->asked[reclaim->asked_count - 1] + 1) % child->snapshot.pages;
	return reclaim->asked_count;
}

static void ask(struct children *children, struct child *child)
{
	struct reclaim *reclaim = &child->reclaim;
	struct pass_message message = {.fd = -1, .count = choose(child)};

	for (unsigned i = 0; i < message.count; i++)
		message.words[i] = (uintptr_t)core_address(children->core, reclaim->asked[i]);
	reclaim->asked_of = child->born;
	reclaim->content_count = 0;
	reclaim->forgotten = 0;
	if (pass_send(child->socket, PASS_REMOVE, &message) < 0) {
		reclaim->asked_count = 0;
		reclaim->mute = true;
	}
}

static bool can_ask(const struct child *child)
{
	return child->socket >= 0 && !child->reclaim.mute && child->reclaim.count;
}

unsigned reclaim_count_asked(const struct children *children)
{
	unsigned asked = 0;

	for (unsigned i = 0; i < children->top; i++)
		if (children->entries[i].reclaim.asked_count)
			asked++;
	return asked;
}

bool reclaim_ask(struct children *children, struct child *child)
{
	if (child->reclaim.asked_count)
		return true;
	if (!can_ask(child) || shadows_left(&children->core->shadows) < RECLAIM_SHADOWS)
		return false;
	if (reclaim_count_asked(children) < RECLAIM_ASKED)
		ask(children, child);
	return !child->reclaim.mute;
}

bool reclaim_is_asked(const struct child *child, uint64_t page)
{
	for (unsigned i = 0; i < child->reclaim.asked_count; i++)
		if (child->reclaim.asked[i] == page)
			return true;
	return false;
}

void reclaim_inherit(struct child *child, const struct child *parent)
{
	const struct reclaim *from = &parent->reclaim;

	memcpy(child->reclaim.asked, from->asked, sizeof child->reclaim.asked);
	child->reclaim.asked_count = from->asked_count;
	child->reclaim.asked_of = from->asked_of;
	child->reclaim.forgotten = from->forgotten;
}

/* --- Answers ---------------------------------------------------------------------------------------------------- */

void reclaim_hear(struct children *children, struct child *child, enum pass what, const struct pass_message *message)
{
	struct reclaim *reclaim = &child->reclaim;

	if (reclaim->asked_count == 0 || reclaim->asked_of != child->born || reclaim->answered)
		return;
	if (what == PASS_CONTENTS && reclaim->content_count < RECLAIM_MOVES) {
		memcpy(reclaim->contents + (size_t)reclaim->content_count++ * STORE_PAGE, message->words, STORE_PAGE);
	} else if (what == PASS_REMOVED && message->count == 0) {
		reclaim_abandon(children, child);
	} else if (what == PASS_REMOVED) {
		memcpy(&reclaim->answer, message->words, sizeof reclaim->answer);
		reclaim->answered = reclaim->content_count;
		if (reclaim->answered) {
			atomic_fetch_add(&children->answered, 1);
			kick_ring(&children->core->evictor_kick);
		} else {
			reclaim_finish(children, child, NULL);
		}
	}
}

struct child *reclaim_next(struct children *children)
{
	for (unsigned i = 0; i < children->top; i++)
		if (children->entries[i].uffd >= 0 && children->entries[i].reclaim.answered)
			return &children->entries[i];
	return NULL;
}

/* Ends the wait of the processes that @child has forked meanwhile. For them, too, the pages that @child has moved are
   at @homes, in the order of the request. If @homes is NULL, all pages are lost that @child may have moved. */
static void finish_inherited(struct children *children, const struct child *child, const uint64_t *homes)
{
	for (unsigned i = 0; i < children->top; i++) {
		struct child *heir = &children->entries[i];
		struct reclaim *reclaim = &heir->reclaim;

		if (heir == child || heir->uffd < 0 || !reclaim->asked_count || reclaim->asked_of != child->born)
			continue;
		for (unsigned k = 0; k < reclaim->asked_count; k++) {
			if (reclaim->forgotten >> k & 1)
				continue;
			if (homes && homes[k]) {
				shadows_share(&children->core->shadows, homes[k]);
				snapshot_set_home(&heir->snapshot, reclaim->asked[k], homes[k]);
			} else if (!homes && !snapshot_is_far(&heir->snapshot, reclaim->asked[k])) {
				snapshot_set_home(&heir->snapshot, reclaim->asked[k], SNAPSHOT_LOST);
			}
		}
		reclaim->asked_count = 0;
	}
}

void reclaim_finish(struct children *children, struct child *child, const uint64_t *shadows)
{
	struct reclaim *reclaim = &child->reclaim;
	const struct pass_removed *answer = &reclaim->answer;
	const unsigned count = reclaim->asked_count;
	const uint64_t removed = answer->dropped | answer->moved | answer->gone;
	uint64_t homes[RECLAIM_MAX] = {0};
	unsigned moved = 0;

	if (reclaim->answered)
		atomic_fetch_sub(&children->answered, 1);
	reclaim->answered = false;
	reclaim->asked_count = 0;
	for (unsigned i = 0; i < count; i++) {
		const uint64_t bit = UINT64_C(1) << i, page = reclaim->asked[i];

		if (answer->busy & bit)
			continue;
		if (answer->moved & bit)
			homes[i] = shadows && moved < reclaim->content_count ? shadows[moved++] : SNAPSHOT_LOST;
		if (reclaim->forgotten & bit)
			continue;
		bool was_clean = reclaim_is_clean(child, page);
		reclaim_forget(child, page);
		if (homes[i]) {
			snapshot_set_home(&child->snapshot, page, homes[i]);
		} else if (!(answer->dropped & bit) && (was_clean || answer->gone & bit)) {
			snapshot_remove(&child->snapshot, page); /* the page is not served any more */
		}
	}
	if (removed == 0 && !answer->busy)
		reclaim->mute = true;
	children_count(children, child, -__builtin_popcountll(removed & ~reclaim->forgotten));
	finish_inherited(children, child, homes);
	for (unsigned i = 0; i < count; i++)
		if (reclaim->forgotten >> i & 1)
			shadows_drop(&children->core->shadows, homes[i]);
	core_settled(children->core);
}

void reclaim_abandon(struct children *children, struct child *child)
{
	child->reclaim.mute = true;
	if (child->reclaim.asked_count == 0 || child->reclaim.answered)
		return;
	if (child->reclaim.asked_of == child->born)
		finish_inherited(children, child, NULL);
	child->reclaim.asked_count = 0;
	core_settled(children->core);
}

#include "pager/copies.h"

#include "common/clock.h"
#include "pager/bitmap.h"
#include "pager/children.h"

#include <string.h>

#define ANSWER_NS UINT64_C(1000000000)

static bool lists(const uint64_t *pages, unsigned count, uint64_t page)
{
	for (unsigned i = 0; i < count; i++)
		if (pages[i] == page)
			return true;
	return false;
}

bool copies_has(const struct child *child, uint64_t page)
{
	return page < child->pages && bitmap_has(child->copies.bits, page);
}

void copies_add(struct child *child, uint64_t page)
{
	bitmap_set(child->copies.bits, page, 1, true);
	child->copies.count++;
}

void copies_forget(struct child *child, uint64_t page)
{
	if (!copies_has(child, page))
		return;
	bitmap_set(child->copies.bits, page, 1, false);
	child->copies.count--;
}

/* Finds up to PASS_WORDS copies, beginning at the hand, so that each copy has its turn. */
static unsigned choose(struct child *child)
{
	struct copies *copies = &child->copies;
	const uint64_t words = (child->pages + BITMAP_WORD - 1) / BITMAP_WORD;
	uint64_t word = copies->hand / BITMAP_WORD;

	copies->asked_count = 0;
	for (uint64_t seen = 0; seen <= words && copies->asked_count < PASS_WORDS; seen++, word = (word + 1) % words) {
		uint64_t bits = copies->bits[word];

		if (seen == 0)
			bits &= ~UINT64_C(0) << (copies->hand % BITMAP_WORD);
		else if (seen == words)
			bits &= ~(~UINT64_C(0) << (copies->hand % BITMAP_WORD));
		for (; bits && copies->asked_count < PASS_WORDS; bits &= bits - 1)
			copies->asked[copies->asked_count++] = word * BITMAP_WORD + (unsigned)__builtin_ctzll(bits);
	}
	if (copies->asked_count)
		copies->hand = (copies->asked[copies->asked_count - 1] + 1) % child->pages;
	return copies->asked_count;
}

static void ask(struct children *children, struct child *child)
{
	struct pass_message message = {.fd = -1, .count = choose(child)};

	for (unsigned i = 0; i < message.count; i++)
		message.words[i] = (uintptr_t)core_address(children->core, child->copies.asked[i]);
	child->copies.asked_since = clock_now();
	if (pass_send(child->socket, PASS_DROP, &message) < 0) {
		child->copies.asked_count = 0;
		child->copies.mute = true;
	}
}

static bool answers_soon(const struct child *child)
{
	return child->copies.asked_count && clock_now() - child->copies.asked_since < ANSWER_NS;
}

bool copies_ask(struct children *children)
{
	struct child *most = NULL;

	if (children->asked && answers_soon(children->asked))
		return true;
	for (unsigned i = 0; i < CHILDREN_MAX; i++) {
		struct child *child = &children->entries[i];

		if (child->socket >= 0 && !child->copies.mute && !child->copies.asked_count && child->copies.count &&
		    (!most || child->copies.count > most->copies.count))
			most = child;
	}
	if (most)
		ask(children, most);
	children->asked = most;
	return most && answers_soon(most);
}

bool copies_is_asked(const struct child *child, uint64_t page)
{
	return lists(child->copies.asked, child->copies.asked_count, page);
}

void copies_answered(struct children *children, struct child *child, const struct pass_message *message)
{
	struct copies *copies = &child->copies;
	const unsigned count = copies->asked_count;

	copies->asked_count = 0;
	if (message->count == 0)
		copies->mute = true;
	for (unsigned i = 0; message->count && i < count; i++) {
		copies_forget(child, copies->asked[i]);
		/* The child did not drop a page that it had replaced by memory of its own. The page is not served any more. */
		if (!(message->words[0] >> i & 1))
			children_disown(child, copies->asked[i]);
	}
	if (message->count)
		children_take_back(children, child, count);
	core_settled(children->core);
}

void copies_abandon(struct child *child)
{
	struct copies *copies = &child->copies;

	copies->mute = true;
	if (!copies->asked_count)
		return;
	for (unsigned i = 0; i < copies->asked_count; i++) {
		copies_forget(child, copies->asked[i]);
		children_disown(child, copies->asked[i]);
	}
	memcpy(copies->lost, copies->asked, sizeof copies->lost);
	copies->lost_count = copies->asked_count;
}

bool copies_is_lost(const struct child *child, uint64_t page)
{
	return lists(child->copies.lost, child->copies.lost_count, page);
}

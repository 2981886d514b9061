/* lease_revoke: taking slabs back; see lease.h. */
#include "memserver/lease_book.h"

#include <stdlib.h>

/* --- Telling clients ------------------------------------------------------------------------------------- */

static void notice_say(struct lease_book *book, uint32_t slab)
{
	const struct lease_slab *s = &book->slabs[slab];
	struct lease_action action = {
	    .session = s->session, .slab = slab, .name = lease_slab_name(book, slab), .until = s->until};

	action.kind = s->state == LEASE_SLAB_REVOKING ? LEASE_REVOKE
		      : s->state == LEASE_SLAB_LEASED ? LEASE_KEEP
						      : LEASE_TAKEN;
	lease_act(book, action);
	lease_tell(book, slab, false);
	if (s->cleared)
		lease_slab_move(book, slab, LEASE_SLAB_FREE);
}

void lease_notices(struct lease_book *book, uint32_t session)
{
	for (uint32_t i = 0; book->untold && i < book->limits.slabs; i++) {
		const struct lease_slab *slab = &book->slabs[i];
		struct lease_session *s;

		if (!slab->untold || (session != LEASE_NO_SESSION && slab->session != session))
			continue;
		s = &book->sessions[slab->session];
		/* A vanished client is told when it claims the slab. */
		if (s->state != LEASE_SESSION_ACTIVE || s->unheard == LEASE_NOTICES)
			continue;
		notice_say(book, i);
		if (++s->unheard == LEASE_NOTICES)
			lease_act(book, (struct lease_action){.kind = LEASE_PING, .session = slab->session});
	}
}

/* --- Recalling ------------------------------------------------------------------------------------------- */

/* Returns @now plus @part tenths of @within, or LEASE_NEVER if @within is LEASE_NEVER. */
static uint64_t tenths(uint64_t now, uint64_t within, unsigned part)
{
	return within == LEASE_NEVER ? LEASE_NEVER : now + within / 10 * part;
}

/*
 * Recalls a slab that is held, or changes the deadline of its recall. @within is the time until the slab's memory is
 * released, or LEASE_NEVER for no deadline.
 */
static void slab_revoke(struct lease_book *book, uint32_t slab, uint64_t now, uint64_t within)
{
	struct lease_slab *s = &book->slabs[slab];

	if (s->state != LEASE_SLAB_REVOKING)
		lease_slab_move(book, slab, LEASE_SLAB_REVOKING);
	s->until = tenths(now, within, 8);
	s->take_at = tenths(now, within, 9);
	lease_deadline_at_most(book, s->take_at);
	if (book->sessions[s->session].state == LEASE_SESSION_ACTIVE && s->claimed)
		lease_tell(book, slab, true);
}

void lease_take(struct lease_book *book, uint64_t now)
{
	for (uint32_t i = 0; book->revoking && i < book->limits.slabs; i++) {
		struct lease_slab *s = &book->slabs[i];
		const uint32_t session = s->session;
		const bool known = s->claimed;

		if (s->state != LEASE_SLAB_REVOKING)
			continue;
		if (now < s->take_at) {
			lease_deadline_at_most(book, s->take_at);
			continue;
		}
		lease_slab_disown(book, i);
		lease_slab_move(book, i, LEASE_SLAB_CLEARING);
		s->taken = true;
		/* If a client has returned but not yet claimed the slab, the answer to its claim will say that the
		   slab is taken. */
		if (book->sessions[session].state == LEASE_SESSION_ACTIVE && known) {
			s->session = session; /* the session to tell */
			lease_tell(book, i, true);
			lease_notices(book, session);
		}
		lease_act(book, (struct lease_action){.kind = LEASE_CLEAR, .session = LEASE_NO_SESSION, .slab = i});
	}
}

/* --- How many -------------------------------------------------------------------------------------------- */

static bool slab_is_wanted(const struct lease_slab *slab)
{
	return (slab->state == LEASE_SLAB_PREPARING && !slab->unwanted) || slab->state == LEASE_SLAB_LEASED;
}

/* Returns false if the slab will be freed, at a deadline or at once. */
static bool slab_stays(const struct lease_slab *slab)
{
	return slab_is_wanted(slab) || (slab->state == LEASE_SLAB_REVOKING && slab->take_at == LEASE_NEVER);
}

/* Returns true if the slab is in use, and would stay in use if the drain ended now. */
static bool slab_counts(const struct lease_slab *slab)
{
	return slab_is_wanted(slab) || (slab->state == LEASE_SLAB_REVOKING && slab->drained);
}

uint32_t lease_going(const struct lease_book *book)
{
	uint32_t going = 0;

	for (uint32_t i = 0; i < book->limits.slabs; i++)
		going += book->slabs[i].state != LEASE_SLAB_FREE && !slab_stays(&book->slabs[i]);
	return going;
}

/* Returns a negative number if @a is recalled before @b. */
static int slab_compare(const void *a, const void *b, void *data)
{
	const struct lease_book *book = data;
	const struct lease_slab *x = &book->slabs[*(const uint32_t *)a], *y = &book->slabs[*(const uint32_t *)b];
	const bool x_away = book->sessions[x->session].state != LEASE_SESSION_ACTIVE;
	const bool y_away = book->sessions[y->session].state != LEASE_SESSION_ACTIVE;

	if (x_away != y_away)
		return x_away ? 1 : -1;
	if (x->warmth != y->warmth)
		return x->warmth < y->warmth ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Gives up a slab in preparation: its client's request will be denied. */
static void slab_give_up(struct lease_book *book, uint32_t slab)
{
	if (book->slabs[slab].unwanted)
		return;
	book->slabs[slab].unwanted = true;
	lease_act(book, (struct lease_action){.kind = LEASE_ABANDON, .session = LEASE_NO_SESSION, .slab = slab});
}

/* Gives up at most @count slabs in preparation, which hold no pages yet. Returns how many of @count are still
   missing. */
static uint32_t preparing_give_up(struct lease_book *book, uint32_t count)
{
	for (uint32_t i = 0; count && i < book->limits.slabs; i++) {
		const struct lease_slab *s = &book->slabs[i];

		if (s->state != LEASE_SLAB_PREPARING || s->unwanted)
			continue;
		slab_give_up(book, i);
		count--;
	}
	return count;
}

static void shrink(struct lease_book *book, uint64_t now)
{
	uint32_t counts = 0, count = 0, over;

	if (book->leaving || lease_in_use(book) <= book->target)
		return;
	for (uint32_t i = 0; i < book->limits.slabs; i++)
		counts += slab_counts(&book->slabs[i]);
	if (counts <= book->target)
		return;
	over = preparing_give_up(book, counts - book->target);
	for (uint32_t i = 0; over && i < book->limits.slabs; i++)
		if (lease_slab_is_held(&book->slabs[i]) && slab_counts(&book->slabs[i]))
			book->sorted[count++] = i;
	if (count)
		qsort_r(book->sorted, count, sizeof *book->sorted, slab_compare, book);
	for (uint32_t i = 0; i < over && i < count; i++) {
		struct lease_slab *s = &book->slabs[book->sorted[i]];
		const bool goes = s->state == LEASE_SLAB_REVOKING;

		s->drained = false;
		if (!goes || tenths(now, book->limits.revoke_ns, 9) < s->take_at)
			slab_revoke(book, book->sorted[i], now, book->limits.revoke_ns);
	}
	lease_notices(book, LEASE_NO_SESSION);
}

void lease_target(struct lease_book *book, uint64_t now, uint32_t target, bool pressed)
{
	book->target = target < book->limits.slabs ? target : book->limits.slabs;
	book->pressed = pressed;
	shrink(book, now);
}

/* --- Draining -------------------------------------------------------------------------------------------- */

static void slab_drain(struct lease_book *book, uint32_t slab, uint64_t now, uint64_t within)
{
	struct lease_slab *s = &book->slabs[slab];

	if (s->state == LEASE_SLAB_PREPARING) {
		slab_give_up(book, slab);
	} else if (s->state == LEASE_SLAB_LEASED) {
		s->drained = true;
		slab_revoke(book, slab, now, within);
	} else if (s->state == LEASE_SLAB_REVOKING) {
		/*
		 * The earlier of two deadlines counts. A drain without a deadline lifts only the deadline of an earlier
		 * drain.
		 */
		if (within == LEASE_NEVER ? s->drained && s->take_at != LEASE_NEVER
					  : tenths(now, within, 9) < s->take_at)
			slab_revoke(book, slab, now, within);
	}
}

static void slab_keep(struct lease_book *book, uint32_t slab)
{
	const struct lease_slab *s = &book->slabs[slab];

	if (s->state != LEASE_SLAB_REVOKING || !s->drained)
		return;
	lease_slab_move(book, slab, LEASE_SLAB_LEASED);
	lease_tell(book, slab, book->sessions[s->session].state == LEASE_SESSION_ACTIVE && s->claimed);
}

void lease_drain(struct lease_book *book, uint64_t now, enum wire_drain what, uint64_t within_ns)
{
	if (what == WIRE_DRAIN_ASK || book->leaving)
		return;
	book->draining = what != WIRE_DRAIN_END;
	for (uint32_t i = 0; i < book->limits.slabs; i++) {
		if (what == WIRE_DRAIN_END)
			slab_keep(book, i);
		else
			slab_drain(book, i, now, what == WIRE_DRAIN_FORCE ? within_ns : LEASE_NEVER);
	}
	lease_notices(book, LEASE_NO_SESSION);
	shrink(book, now);
}

void lease_drain_status(const struct lease_book *book, struct lease_draining *ret_draining)
{
	struct lease_draining draining = {.slabs = lease_in_use(book)};

	for (uint32_t i = 0; i < book->limits.sessions; i++)
		draining.holders += book->sessions[i].slabs > 0;
	for (uint32_t i = 0; i < book->limits.slabs; i++) {
		const struct lease_slab *s = &book->slabs[i];

		if (lease_slab_is_held(s) && slab_stays(s))
			draining.until = LEASE_NEVER;
		else if (s->state == LEASE_SLAB_REVOKING && s->take_at > draining.until)
			draining.until = s->take_at;
	}
	*ret_draining = draining;
}

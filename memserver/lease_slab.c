/* lease_slab: the life of a slab, from the LEASE request until it is free again; see lease.h. */
#include "memserver/lease_book.h"

#include <assert.h>
#include <string.h>

/* One bit per legal next state. */
static const uint8_t slab_moves[LEASE_SLAB_STATES] = {
    [LEASE_SLAB_FREE] = 1 << LEASE_SLAB_PREPARING,
    /* free if there was no memory, clearing if the client has gone or the slab is not wanted any more */
    [LEASE_SLAB_PREPARING] = 1 << LEASE_SLAB_LEASED | 1 << LEASE_SLAB_CLEARING | 1 << LEASE_SLAB_FREE,
    [LEASE_SLAB_LEASED] = 1 << LEASE_SLAB_CLEARING | 1 << LEASE_SLAB_REVOKING,
    /* leased again when the drain ends */
    [LEASE_SLAB_REVOKING] = 1 << LEASE_SLAB_CLEARING | 1 << LEASE_SLAB_LEASED,
    [LEASE_SLAB_CLEARING] = 1 << LEASE_SLAB_FREE,
};

void lease_slab_move(struct lease_book *book, uint32_t slab, enum lease_slab_state to)
{
	struct lease_slab *s = &book->slabs[slab];

	assert(slab_moves[s->state] & 1 << to);
	if (s->state == LEASE_SLAB_FREE)
		s->generation++;
	book->revoking -= s->state == LEASE_SLAB_REVOKING;
	book->revoking += to == LEASE_SLAB_REVOKING;
	book->clearing -= s->state == LEASE_SLAB_CLEARING;
	book->clearing += to == LEASE_SLAB_CLEARING;
	s->state = to;
	if (to == LEASE_SLAB_FREE) {
		lease_tell(book, slab, false);
		*s = (struct lease_slab){
		    .state = to, .session = LEASE_NO_SESSION, .generation = s->generation, .request = s->request};
		book->free_slabs[book->free_count++] = slab;
	}
}

void lease_tell(struct lease_book *book, uint32_t slab, bool tell)
{
	book->untold += tell;
	book->untold -= book->slabs[slab].untold;
	book->slabs[slab].untold = tell;
}

bool lease_slab_is_held(const struct lease_slab *slab)
{
	return slab->state == LEASE_SLAB_LEASED || slab->state == LEASE_SLAB_REVOKING;
}

uint32_t lease_in_use(const struct lease_book *book)
{
	return book->limits.slabs - book->free_count;
}

void lease_slab_disown(struct lease_book *book, uint32_t slab)
{
	struct lease_slab *s = &book->slabs[slab];

	if (s->state != LEASE_SLAB_CLEARING) {
		book->sessions[s->session].slabs--;
		book->shares++;
	}
	s->session = LEASE_NO_SESSION;
	lease_tell(book, slab, false);
	if (s->cleared)
		lease_slab_move(book, slab, LEASE_SLAB_FREE);
}

void lease_slab_clear(struct lease_book *book, uint32_t slab)
{
	lease_slab_move(book, slab, LEASE_SLAB_CLEARING);
	lease_act(book, (struct lease_action){.kind = LEASE_CLEAR, .session = LEASE_NO_SESSION, .slab = slab});
}

static void deny(struct lease_book *book, uint32_t session, uint32_t request, unsigned reason)
{
	lease_act(book, (struct lease_action){
			    .kind = LEASE_DENY, .session = session, .request = request, .reason = (uint16_t)reason});
}

uint32_t lease_owner_slabs(const struct lease_book *book, const char *owner)
{
	uint32_t slabs = 0;

	for (uint32_t i = 0; i < book->limits.sessions; i++)
		if (book->sessions[i].slabs && strcmp(book->sessions[i].owner, owner) == 0)
			slabs += book->sessions[i].slabs;
	return slabs;
}

/* Returns true if the sessions of this session's owner have used up their common limit. */
static bool owner_is_full(const struct lease_book *book, const struct lease_session *session)
{
	return session->owner_slabs && lease_owner_slabs(book, session->owner) >= session->owner_slabs;
}

void lease_request(struct lease_book *book, uint32_t session, uint32_t request)
{
	struct lease_session *s = lease_session_in(book, session, LEASE_SESSION_ACTIVE);
	uint32_t slab;

	if (book->leaving) {
		deny(book, session, request, WIRE_REASON_LEAVING);
		return;
	}
	if (book->draining) {
		deny(book, session, request, WIRE_REASON_DRAINING);
		return;
	}
	if (lease_in_use(book) >= book->target || !book->free_count ||
	    (book->limits.session_slabs && s->slabs >= book->limits.session_slabs) || owner_is_full(book, s)) {
		deny(book, session, request, WIRE_REASON_FULL);
		return;
	}
	slab = book->free_slabs[--book->free_count];
	lease_slab_move(book, slab, LEASE_SLAB_PREPARING);
	book->slabs[slab].claimed = true;
	book->slabs[slab].session = session;
	book->slabs[slab].request = request;
	s->slabs++;
	book->shares++;
	lease_act(book, (struct lease_action){.kind = LEASE_PREPARE, .session = session, .slab = slab});
}

void lease_prepared(struct lease_book *book, uint32_t slab, enum lease_outcome outcome)
{
	struct lease_slab *s = &book->slabs[slab];
	uint32_t session = s->session;

	assert(s->state == LEASE_SLAB_PREPARING);
	if (outcome == LEASE_READY && session != LEASE_NO_SESSION && !s->unwanted) {
		s->order = book->grants++;
		lease_slab_move(book, slab, LEASE_SLAB_LEASED);
		lease_act(book, (struct lease_action){.kind = LEASE_GRANT,
						      .session = session,
						      .slab = slab,
						      .name = lease_slab_name(book, slab),
						      .request = s->request});
		return;
	}
	if (session != LEASE_NO_SESSION) {
		lease_slab_disown(book, slab);
		deny(book, session, s->request, book->draining ? WIRE_REASON_DRAINING : WIRE_REASON_FULL);
	}
	if (outcome == LEASE_NO_MEMORY)
		lease_slab_move(book, slab, LEASE_SLAB_FREE);
	else
		lease_slab_clear(book, slab);
}

void lease_refuse(struct lease_book *book, uint32_t slab)
{
	const struct lease_slab *s = &book->slabs[slab];
	const uint32_t session = s->session, request = s->request;

	assert(s->state == LEASE_SLAB_LEASED);
	lease_slab_disown(book, slab);
	lease_slab_clear(book, slab);
	deny(book, session, request, WIRE_REASON_FULL);
}

/* Returns true if the session holds the slab with this name. */
static bool slab_is_its(struct lease_book *book, uint32_t session, uint64_t name)
{
	uint32_t slab = (uint32_t)name;

	lease_session_in(book, session, LEASE_SESSION_ACTIVE);
	return slab < book->limits.slabs && name == lease_slab_name(book, slab) &&
	       lease_slab_is_held(&book->slabs[slab]) && book->slabs[slab].session == session;
}

/* Returns why a name that the session does not hold is denied: TAKEN if the name may be that of an ended lease. */
static unsigned name_reason(const struct lease_book *book, uint64_t name)
{
	const uint32_t slab = (uint32_t)name, generation = (uint32_t)(name >> 32);
	const struct lease_slab *s;

	if (slab >= LEASE_SLABS_MAX || !generation)
		return WIRE_REASON_MALFORMED;
	if (slab >= book->limits.slabs) /* before its upgrade the donor had more slabs */
		return WIRE_REASON_TAKEN;
	s = &book->slabs[slab];
	if (generation == s->generation)
		return s->state == LEASE_SLAB_FREE || s->state == LEASE_SLAB_CLEARING ? WIRE_REASON_TAKEN
										      : WIRE_REASON_MALFORMED;
	return generation < s->generation ? WIRE_REASON_TAKEN : WIRE_REASON_MALFORMED;
}

void lease_warm(struct lease_book *book, uint32_t session, uint64_t name, uint32_t warmth)
{
	if (slab_is_its(book, session, name))
		book->slabs[(uint32_t)name].warmth = warmth;
}

void lease_claim(struct lease_book *book, uint32_t session, uint32_t request, uint64_t name)
{
	uint32_t slab = (uint32_t)name;

	if (!slab_is_its(book, session, name)) {
		deny(book, session, request, name_reason(book, name));
		return;
	}
	book->slabs[slab].claimed = true;
	lease_act(book, (struct lease_action){
			    .kind = LEASE_CONFIRM, .session = session, .slab = slab, .name = name, .request = request});
	if (book->slabs[slab].state != LEASE_SLAB_REVOKING)
		return;
	lease_tell(book, slab, true);
	lease_notices(book, session);
}

void lease_claimed(struct lease_book *book, uint32_t session)
{
	lease_session_in(book, session, LEASE_SESSION_ACTIVE);
	for (uint32_t i = 0; i < book->limits.slabs; i++) {
		const struct lease_slab *s = &book->slabs[i];

		if (s->session != session || !lease_slab_is_held(s) || s->claimed)
			continue;
		lease_slab_disown(book, i);
		lease_slab_clear(book, i);
	}
}

void lease_release(struct lease_book *book, uint32_t session, uint32_t request, uint64_t name)
{
	uint32_t slab = (uint32_t)name;
	struct lease_slab *s;

	if (!slab_is_its(book, session, name)) {
		deny(book, session, request, name_reason(book, name));
		return;
	}
	s = &book->slabs[slab];
	lease_slab_disown(book, slab);
	lease_slab_clear(book, slab);
	s->session = session; /* the session that gets the answer */
	s->request = request;
}

void lease_cleared(struct lease_book *book, uint32_t slab)
{
	const struct lease_slab s = book->slabs[slab];

	assert(s.state == LEASE_SLAB_CLEARING && !s.cleared);
	/*
	 * The client must first hear that the slab is taken. Lending the slab before could confuse the old lease with
	 * the new lease.
	 */
	if (s.untold) {
		book->slabs[slab].cleared = true;
		return;
	}
	lease_slab_move(book, slab, LEASE_SLAB_FREE);
	if (s.session != LEASE_NO_SESSION && !s.taken)
		lease_act(book, (struct lease_action){.kind = LEASE_RETURNED,
						      .session = s.session,
						      .slab = slab,
						      .name = lease_slab_name(book, slab),
						      .request = s.request});
}

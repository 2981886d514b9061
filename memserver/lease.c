/*
 * lease: see lease.h. This file has the book and its sessions. lease_slab.c has the slabs, and lease_revoke.c takes
 * them back. session_move() alone changes a session's state, by a table of legal changes. lease_slab_move() does the
 * same for slabs. Only lease_adopt.c sets these states directly, before the book's first event.
 */
#include "memserver/lease.h"

#include "memserver/lease_book.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t session_moves[LEASE_SESSION_STATES] = {
    [LEASE_SESSION_FREE] = 1 << LEASE_SESSION_ACTIVE,
    [LEASE_SESSION_ACTIVE] = 1 << LEASE_SESSION_GRACE | 1 << LEASE_SESSION_FREE,
    [LEASE_SESSION_GRACE] = 1 << LEASE_SESSION_ACTIVE | 1 << LEASE_SESSION_FREE,
};

int lease_open(const struct lease_limits *limits, struct lease_book **ret_book)
{
	struct lease_book *book;

	if (!limits->slabs || limits->slabs > LEASE_SLABS_MAX || !limits->sessions ||
	    limits->sessions > LEASE_SESSIONS_MAX || !limits->heartbeat_ns)
		return -EINVAL;
	book = calloc(1, sizeof *book);
	if (!book)
		return -ENOMEM;
	book->limits = *limits;
	book->deadline = UINT64_MAX;
	book->target = limits->slabs;
	/*
	 * The most actions that one event can cause. For each slab: CLEAR and one of ABANDON, REVOKE, KEEP, TAKEN.
	 * For each session: FENCE, FORGET and two PINGs. Then a few answers.
	 */
	book->action_size = 2 * limits->slabs + 4 * limits->sessions + 4;
	book->sessions = calloc(limits->sessions, sizeof *book->sessions);
	book->slabs = calloc(limits->slabs, sizeof *book->slabs);
	book->free_slabs = calloc(limits->slabs, sizeof *book->free_slabs);
	book->sorted = calloc(limits->slabs, sizeof *book->sorted);
	book->actions = calloc(book->action_size, sizeof *book->actions);
	if (!book->sessions || !book->slabs || !book->free_slabs || !book->sorted || !book->actions) {
		lease_close(book);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < limits->slabs; i++) {
		book->slabs[i].session = LEASE_NO_SESSION;
		book->free_slabs[i] = limits->slabs - 1 - i;
	}
	book->free_count = limits->slabs;
	*ret_book = book;
	return 0;
}

void lease_close(struct lease_book *book)
{
	if (!book)
		return;
	free(book->sessions);
	free(book->slabs);
	free(book->free_slabs);
	free(book->sorted);
	free(book->actions);
	free(book);
}

void lease_act(struct lease_book *book, struct lease_action action)
{
	assert(book->action_count < book->action_size);
	book->actions[(book->action_head + book->action_count++) % book->action_size] = action;
}

bool lease_next(struct lease_book *book, struct lease_action *ret_action)
{
	if (!book->action_count)
		return false;
	*ret_action = book->actions[book->action_head];
	book->action_head = (book->action_head + 1) % book->action_size;
	book->action_count--;
	return true;
}

uint64_t lease_slab_name(const struct lease_book *book, uint32_t slab)
{
	return (uint64_t)book->slabs[slab].generation << 32 | slab;
}

void lease_capacity(const struct lease_book *book, struct wire_capacity *ret_capacity)
{
	const uint32_t used = lease_in_use(book), target = book->draining ? 0 : book->target;
	const uint32_t leased = used - book->clearing;

	*ret_capacity = (struct wire_capacity){
	    .donated = (target > leased ? target : leased) * book->limits.slab_bytes,
	    .leased = leased * book->limits.slab_bytes,
	    .slab_bytes = book->limits.slab_bytes,
	    .clients = book->session_count,
	    .state = book->draining                      ? WIRE_STATE_DRAINING
		     : book->pressed                     ? WIRE_STATE_SHRINKING
		     : used >= target && leased < target ? WIRE_STATE_CLEARING
							 : WIRE_STATE_LENDING,
	};
}

/* --- Sessions -------------------------------------------------------------------------------------------- */

static void session_move(struct lease_book *book, uint32_t session, enum lease_session_state to)
{
	struct lease_session *s = &book->sessions[session];

	assert(session_moves[s->state] & 1 << to);
	if (s->state == LEASE_SESSION_FREE)
		book->session_count++;
	s->state = to;
	if (to == LEASE_SESSION_FREE) {
		book->session_count--;
		memset(s, 0, sizeof *s); /* this also wipes the session key */
	}
}

void lease_deadline_at_most(struct lease_book *book, uint64_t at)
{
	if (at < book->deadline)
		book->deadline = at;
}

struct lease_session *lease_session_in(struct lease_book *book, uint32_t session, enum lease_session_state state)
{
	assert(session < book->limits.sessions && book->sessions[session].state == state);
	return &book->sessions[session];
}

static uint32_t session_of_id(const struct lease_book *book, const uint8_t *id)
{
	for (uint32_t i = 0; i < book->limits.sessions; i++)
		if (book->sessions[i].state != LEASE_SESSION_FREE && !memcmp(book->sessions[i].id, id, WIRE_ID_SIZE))
			return i;
	return LEASE_NO_SESSION;
}

uint32_t lease_session_find(const struct lease_book *book, const uint8_t id[WIRE_ID_SIZE])
{
	uint32_t session = session_of_id(book, id);

	if (session != LEASE_NO_SESSION && book->sessions[session].state != LEASE_SESSION_ACTIVE)
		return LEASE_NO_SESSION;
	return session;
}

bool lease_session_is_known(const struct lease_book *book, const uint8_t id[WIRE_ID_SIZE])
{
	return session_of_id(book, id) != LEASE_NO_SESSION;
}

/* Cancels all answers to this session. Slabs in preparation for it will be cleared when ready. */
static void requests_abandon(struct lease_book *book, uint32_t session)
{
	for (uint32_t i = 0; i < book->limits.slabs; i++) {
		const struct lease_slab *s = &book->slabs[i];

		if (s->session != session)
			continue;
		lease_tell(book, i, false);
		if (!lease_slab_is_held(s))
			lease_slab_disown(book, i);
	}
}

static void leases_end(struct lease_book *book, uint32_t session)
{
	for (uint32_t i = 0; i < book->limits.slabs; i++) {
		if (book->slabs[i].session != session)
			continue;
		lease_slab_disown(book, i);
		if (lease_slab_is_held(&book->slabs[i]))
			lease_slab_clear(book, i);
	}
	assert(!book->sessions[session].slabs);
}

static void session_fence(struct lease_book *book, uint32_t session)
{
	lease_act(book, (struct lease_action){.kind = LEASE_FENCE, .session = session});
	book->sessions[session].conns = 0;
	book->sessions[session].unheard = 0;
	requests_abandon(book, session);
}

/* Ends a session whose connections are already fenced. */
static void session_end(struct lease_book *book, uint32_t session)
{
	leases_end(book, session);
	lease_act(book, (struct lease_action){.kind = LEASE_FORGET, .session = session});
	session_move(book, session, LEASE_SESSION_FREE);
}

uint32_t lease_session_unused(const struct lease_book *book)
{
	for (uint32_t i = 0; i < book->limits.sessions; i++)
		if (book->sessions[i].state == LEASE_SESSION_FREE)
			return i;
	return LEASE_NO_SESSION;
}

/* Marks the session's slabs as unclaimed. The returning client must claim the slabs that it knows. */
static void claims_begin(struct lease_book *book, uint32_t session)
{
	for (uint32_t i = 0; i < book->limits.slabs; i++)
		if (book->slabs[i].session == session)
			book->slabs[i].claimed = false;
}

unsigned lease_session_begin(struct lease_book *book, uint64_t now, const uint8_t id[WIRE_ID_SIZE],
			     const uint8_t key[AUTH_KEY_SIZE], uint64_t wished_grace_ns, uint32_t *ret_session)
{
	uint32_t session = session_of_id(book, id);
	struct lease_session *s;

	if (book->leaving)
		return WIRE_REASON_LEAVING;
	if (session == LEASE_NO_SESSION)
		session = lease_session_unused(book);
	else if (book->sessions[session].state == LEASE_SESSION_ACTIVE)
		/* The client has returned before its old connection was found dead. */
		session_fence(book, session);
	if (session == LEASE_NO_SESSION)
		return WIRE_REASON_FULL;

	s = &book->sessions[session];
	if (s->state != LEASE_SESSION_ACTIVE)
		session_move(book, session, LEASE_SESSION_ACTIVE);
	memcpy(s->id, id, WIRE_ID_SIZE);
	memcpy(s->key, key, AUTH_KEY_SIZE);
	s->counter = s->counters = 0; /* proofs under the old key are void */
	s->grace_ns = wished_grace_ns < book->limits.grace_ns ? wished_grace_ns : book->limits.grace_ns;
	s->closed_ns = s->grace_ns;
	s->heard_at = s->said_at = now;
	claims_begin(book, session);
	lease_deadline_at_most(book, now + book->limits.heartbeat_ns);
	*ret_session = session;
	return WIRE_REASON_NONE;
}

bool lease_session_may_begin(const struct lease_book *book, const uint8_t id[WIRE_ID_SIZE], const char *owner)
{
	uint32_t session = session_of_id(book, id);

	/* A session that began when no key was needed may be taken over by any client. */
	return session == LEASE_NO_SESSION || !*book->sessions[session].owner ||
	       strcmp(book->sessions[session].owner, owner) == 0;
}

void lease_session_own(struct lease_book *book, uint32_t session, const char *owner, uint32_t owner_slabs)
{
	struct lease_session *s = &book->sessions[session];

	assert(session < book->limits.sessions && s->state != LEASE_SESSION_FREE && strlen(owner) < LEASE_OWNER_SIZE);
	if (owner != s->owner)
		strncpy(s->owner, owner, LEASE_OWNER_SIZE);
	s->owner_slabs = owner_slabs;
	book->shares++;
}

void lease_session_wish_closed(struct lease_book *book, uint32_t session, uint64_t wished_ns)
{
	struct lease_session *s = lease_session_in(book, session, LEASE_SESSION_ACTIVE);

	s->closed_ns = wished_ns < s->grace_ns ? wished_ns : s->grace_ns;
}

void lease_session_closed(struct lease_book *book, uint64_t now, uint32_t session)
{
	struct lease_session *s = lease_session_in(book, session, LEASE_SESSION_ACTIVE);

	s->grace_ns = s->closed_ns;
	lease_session_vanished(book, now, session);
}

void lease_session_vanished(struct lease_book *book, uint64_t now, uint32_t session)
{
	struct lease_session *s = lease_session_in(book, session, LEASE_SESSION_ACTIVE);

	session_fence(book, session);
	if (!s->slabs || !s->grace_ns) {
		session_end(book, session);
		return;
	}
	s->vanished_at = now;
	session_move(book, session, LEASE_SESSION_GRACE);
	lease_deadline_at_most(book, now + s->grace_ns);
}

void lease_sessions_wait(struct lease_book *book, uint64_t ns)
{
	for (uint32_t i = 0; i < book->limits.sessions; i++)
		if (book->sessions[i].state == LEASE_SESSION_ACTIVE && book->sessions[i].grace_ns < ns)
			book->sessions[i].grace_ns = ns;
}

void lease_session_bye(struct lease_book *book, uint32_t session)
{
	lease_session_in(book, session, LEASE_SESSION_ACTIVE);
	session_fence(book, session);
	session_end(book, session);
}

/*
 * Does not update book->deadline. So lease_expire() is called early, finds no work and recomputes the deadline. This is
 * cheaper than looking at all sessions for every message.
 */
void lease_session_heard(struct lease_book *book, uint64_t now, uint32_t session)
{
	struct lease_session *s = lease_session_in(book, session, LEASE_SESSION_ACTIVE);

	s->heard_at = now;
	s->unheard = 0;
	lease_notices(book, session);
}

void lease_session_said(struct lease_book *book, uint64_t now, uint32_t session)
{
	struct lease_session *s;

	assert(session < book->limits.sessions);
	s = &book->sessions[session];
	/*
	 * The book may have ended the session after it queued this message. A BYE, for example, makes the book queue
	 * notices and then end the session.
	 */
	if (s->state == LEASE_SESSION_ACTIVE)
		s->said_at = now;
}

/* Marks the counter as used. Returns false if it is used already, or too old for the window (as in RFC 4303, 3.4.3). */
static bool counter_take(struct lease_session *s, uint64_t counter)
{
	uint64_t ahead = counter > s->counter ? counter - s->counter : 0;
	uint64_t bit;

	if (ahead) {
		s->counters = ahead < LEASE_COUNTERS ? s->counters << ahead : 0;
		s->counter = counter;
	}
	if (!counter || s->counter - counter >= LEASE_COUNTERS)
		return false;
	bit = UINT64_C(1) << (s->counter - counter);
	if (s->counters & bit)
		return false;
	s->counters |= bit;
	return true;
}

unsigned lease_attach(struct lease_book *book, uint32_t session, uint64_t counter)
{
	struct lease_session *s;

	if (book->leaving)
		return WIRE_REASON_LEAVING;
	if (session == LEASE_NO_SESSION || book->sessions[session].state != LEASE_SESSION_ACTIVE)
		return WIRE_REASON_NO_SESSION;
	s = &book->sessions[session];
	if (!counter_take(s, counter)) /* the counter is used up even when there is no room */
		return WIRE_REASON_REPLAY;
	if (s->conns >= book->limits.session_conns)
		return WIRE_REASON_FULL;
	s->conns++;
	return WIRE_REASON_NONE;
}

void lease_detach(struct lease_book *book, uint32_t session)
{
	struct lease_session *s = lease_session_in(book, session, LEASE_SESSION_ACTIVE);

	assert(s->conns > 0);
	s->conns--;
}

void lease_expire(struct lease_book *book, uint64_t now)
{
	const uint64_t heartbeat = book->limits.heartbeat_ns;

	book->deadline = UINT64_MAX;
	for (uint32_t i = 0; i < book->limits.sessions; i++) {
		struct lease_session *s = &book->sessions[i];

		if (s->state == LEASE_SESSION_ACTIVE) {
			if (now >= s->heard_at + LEASE_HEARTBEATS_MISSED * heartbeat) {
				lease_session_vanished(book, now, i);
				continue;
			}
			if (now >= s->said_at + heartbeat) {
				lease_act(book, (struct lease_action){.kind = LEASE_PING, .session = i});
				s->said_at = now;
			}
			lease_deadline_at_most(book, s->heard_at + LEASE_HEARTBEATS_MISSED * heartbeat);
			lease_deadline_at_most(book, s->said_at + heartbeat);
		} else if (s->state == LEASE_SESSION_GRACE) {
			if (now >= s->vanished_at + s->grace_ns)
				session_end(book, i);
			else
				lease_deadline_at_most(book, s->vanished_at + s->grace_ns);
		}
	}
	lease_take(book, now);
}

uint64_t lease_deadline(const struct lease_book *book)
{
	return book->deadline;
}

void lease_leave(struct lease_book *book)
{
	book->leaving = true;
	for (uint32_t i = 0; i < book->limits.sessions; i++) {
		if (book->sessions[i].state == LEASE_SESSION_FREE)
			continue;
		if (book->sessions[i].state == LEASE_SESSION_ACTIVE)
			session_fence(book, i);
		session_end(book, i);
	}
}

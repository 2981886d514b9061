/* lease: see lease.h. One place moves each state (slab_move, session_move), by the tables below. */
#include "memserver/lease.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const slab_state_names[] = {
    [LEASE_SLAB_FREE] = "free",
    [LEASE_SLAB_PREPARING] = "preparing",
    [LEASE_SLAB_LEASED] = "leased",
    [LEASE_SLAB_CLEARING] = "clearing",
};
static_assert(sizeof slab_state_names / sizeof *slab_state_names == LEASE_SLAB_STATES, "a name for each state");

static const char *const session_state_names[] = {
    [LEASE_SESSION_FREE] = "free",
    [LEASE_SESSION_ACTIVE] = "active",
    [LEASE_SESSION_GRACE] = "grace",
};
static_assert(sizeof session_state_names / sizeof *session_state_names == LEASE_SESSION_STATES, "a name for each");

/* Bit per legal next state. */
static const uint8_t slab_moves[LEASE_SLAB_STATES] = {
    [LEASE_SLAB_FREE] = 1 << LEASE_SLAB_PREPARING,
    /* free again when there was no memory; clearing when the client went meanwhile */
    [LEASE_SLAB_PREPARING] = 1 << LEASE_SLAB_LEASED | 1 << LEASE_SLAB_CLEARING | 1 << LEASE_SLAB_FREE,
    [LEASE_SLAB_LEASED] = 1 << LEASE_SLAB_CLEARING,
    [LEASE_SLAB_CLEARING] = 1 << LEASE_SLAB_FREE,
};

static const uint8_t session_moves[LEASE_SESSION_STATES] = {
    [LEASE_SESSION_FREE] = 1 << LEASE_SESSION_ACTIVE,
    [LEASE_SESSION_ACTIVE] = 1 << LEASE_SESSION_GRACE | 1 << LEASE_SESSION_FREE,
    [LEASE_SESSION_GRACE] = 1 << LEASE_SESSION_ACTIVE | 1 << LEASE_SESSION_FREE,
};

const char *lease_slab_state_name(enum lease_slab_state state)
{
	return state < LEASE_SLAB_STATES ? slab_state_names[state] : "?";
}

const char *lease_session_state_name(enum lease_session_state state)
{
	return state < LEASE_SESSION_STATES ? session_state_names[state] : "?";
}

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
	/* The most one event causes: every slab cleared, and every session fenced and forgotten, and an answer. */
	book->action_size = limits->slabs + 2 * limits->sessions + 4;
	book->sessions = calloc(limits->sessions, sizeof *book->sessions);
	book->slabs = calloc(limits->slabs, sizeof *book->slabs);
	book->free_slabs = calloc(limits->slabs, sizeof *book->free_slabs);
	book->actions = calloc(book->action_size, sizeof *book->actions);
	if (!book->sessions || !book->slabs || !book->free_slabs || !book->actions) {
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
	free(book->actions);
	free(book);
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

static void act(struct lease_book *book, struct lease_action action)
{
	assert(book->action_count < book->action_size);
	book->actions[(book->action_head + book->action_count++) % book->action_size] = action;
}

uint64_t lease_slab_name(const struct lease_book *book, uint32_t slab)
{
	return (uint64_t)book->slabs[slab].generation << 32 | slab;
}

void lease_capacity(const struct lease_book *book, struct wire_capacity *ret_capacity)
{
	*ret_capacity = (struct wire_capacity){
	    .donated = book->limits.slabs * book->limits.slab_bytes,
	    .leased = (book->limits.slabs - book->free_count) * book->limits.slab_bytes,
	    .slab_bytes = book->limits.slab_bytes,
	    .clients = book->session_count,
	};
}

/* --- The one place each that moves a state --------------------------------------------------------------- */

static void slab_move(struct lease_book *book, uint32_t slab, enum lease_slab_state to)
{
	struct lease_slab *s = &book->slabs[slab];

	assert(slab_moves[s->state] & 1 << to);
	if (s->state == LEASE_SLAB_FREE)
		s->generation++;
	s->state = to;
	if (to == LEASE_SLAB_FREE) {
		s->session = LEASE_NO_SESSION;
		book->free_slabs[book->free_count++] = slab;
	}
}

static void session_move(struct lease_book *book, uint32_t session, enum lease_session_state to)
{
	struct lease_session *s = &book->sessions[session];

	assert(session_moves[s->state] & 1 << to);
	if (s->state == LEASE_SESSION_FREE)
		book->session_count++;
	s->state = to;
	if (to == LEASE_SESSION_FREE) {
		book->session_count--;
		memset(s, 0, sizeof *s); /* the session key with it */
	}
}

static void deadline_at_most(struct lease_book *book, uint64_t at)
{
	if (at < book->deadline)
		book->deadline = at;
}

static struct lease_session *session_in(struct lease_book *book, uint32_t session, enum lease_session_state state)
{
	assert(session < book->limits.sessions && book->sessions[session].state == state);
	return &book->sessions[session];
}

/* --- Slabs ----------------------------------------------------------------------------------------------- */

/* The owner has no more say in what becomes of the slab. */
static void slab_disown(struct lease_book *book, uint32_t slab)
{
	struct lease_slab *s = &book->slabs[slab];

	if (s->state != LEASE_SLAB_CLEARING)
		book->sessions[s->session].slabs--;
	s->session = LEASE_NO_SESSION;
}

static void slab_clear(struct lease_book *book, uint32_t slab)
{
	slab_move(book, slab, LEASE_SLAB_CLEARING);
	act(book, (struct lease_action){.kind = LEASE_CLEAR, .session = LEASE_NO_SESSION, .slab = slab});
}

static void deny(struct lease_book *book, uint32_t session, uint32_t request, unsigned reason)
{
	act(book, (struct lease_action){
		      .kind = LEASE_DENY, .session = session, .request = request, .reason = (uint16_t)reason});
}

/* Nobody waits for answers of this session any more: what is being prepared for it will be cleared again. */
static void requests_abandon(struct lease_book *book, uint32_t session)
{
	for (uint32_t i = 0; i < book->limits.slabs; i++) {
		const struct lease_slab *s = &book->slabs[i];

		if (s->session == session && (s->state == LEASE_SLAB_PREPARING || s->state == LEASE_SLAB_CLEARING))
			slab_disown(book, i);
	}
}

static void leases_end(struct lease_book *book, uint32_t session)
{
	for (uint32_t i = 0; i < book->limits.slabs; i++) {
		if (book->slabs[i].session != session)
			continue;
		slab_disown(book, i);
		if (book->slabs[i].state == LEASE_SLAB_LEASED)
			slab_clear(book, i);
	}
	assert(!book->sessions[session].slabs);
}

void lease_request(struct lease_book *book, uint32_t session, uint32_t request)
{
	struct lease_session *s = session_in(book, session, LEASE_SESSION_ACTIVE);
	uint32_t slab;

	if (book->leaving) {
		deny(book, session, request, WIRE_REASON_LEAVING);
		return;
	}
	if (!book->free_count || (book->limits.session_slabs && s->slabs >= book->limits.session_slabs)) {
		deny(book, session, request, WIRE_REASON_FULL);
		return;
	}
	slab = book->free_slabs[--book->free_count];
	slab_move(book, slab, LEASE_SLAB_PREPARING);
	book->slabs[slab].claimed = true;
	book->slabs[slab].session = session;
	book->slabs[slab].request = request;
	s->slabs++;
	act(book, (struct lease_action){.kind = LEASE_PREPARE, .session = session, .slab = slab});
}

void lease_prepared(struct lease_book *book, uint32_t slab, enum lease_outcome outcome)
{
	struct lease_slab *s = &book->slabs[slab];
	uint32_t session = s->session;

	assert(s->state == LEASE_SLAB_PREPARING);
	if (outcome == LEASE_READY && session != LEASE_NO_SESSION) {
		slab_move(book, slab, LEASE_SLAB_LEASED);
		act(book, (struct lease_action){.kind = LEASE_GRANT,
						.session = session,
						.slab = slab,
						.name = lease_slab_name(book, slab),
						.request = s->request});
		return;
	}
	if (session != LEASE_NO_SESSION) {
		slab_disown(book, slab);
		deny(book, session, s->request, WIRE_REASON_FULL);
	}
	if (outcome == LEASE_NO_MEMORY)
		slab_move(book, slab, LEASE_SLAB_FREE);
	else
		slab_clear(book, slab);
}

/* Whether the session leases a slab of this name. */
static bool slab_is_leased(struct lease_book *book, uint32_t session, uint64_t name)
{
	uint32_t slab = (uint32_t)name;

	session_in(book, session, LEASE_SESSION_ACTIVE);
	return slab < book->limits.slabs && name == lease_slab_name(book, slab) &&
	       book->slabs[slab].state == LEASE_SLAB_LEASED && book->slabs[slab].session == session;
}

void lease_claim(struct lease_book *book, uint32_t session, uint32_t request, uint64_t name)
{
	uint32_t slab = (uint32_t)name;

	if (!slab_is_leased(book, session, name)) {
		deny(book, session, request, WIRE_REASON_MALFORMED);
		return;
	}
	book->slabs[slab].claimed = true;
	act(book, (struct lease_action){
		      .kind = LEASE_CONFIRM, .session = session, .slab = slab, .name = name, .request = request});
}

void lease_claimed(struct lease_book *book, uint32_t session)
{
	session_in(book, session, LEASE_SESSION_ACTIVE);
	for (uint32_t i = 0; i < book->limits.slabs; i++) {
		const struct lease_slab *s = &book->slabs[i];

		if (s->session != session || s->state != LEASE_SLAB_LEASED || s->claimed)
			continue;
		slab_disown(book, i);
		slab_clear(book, i);
	}
}

void lease_release(struct lease_book *book, uint32_t session, uint32_t request, uint64_t name)
{
	uint32_t slab = (uint32_t)name;
	struct lease_slab *s;

	if (!slab_is_leased(book, session, name)) {
		deny(book, session, request, WIRE_REASON_MALFORMED);
		return;
	}
	s = &book->slabs[slab];
	slab_disown(book, slab);
	slab_clear(book, slab);
	s->session = session; /* who waits for the answer */
	s->request = request;
}

void lease_cleared(struct lease_book *book, uint32_t slab)
{
	const struct lease_slab s = book->slabs[slab];

	assert(s.state == LEASE_SLAB_CLEARING);
	slab_move(book, slab, LEASE_SLAB_FREE);
	if (s.session != LEASE_NO_SESSION)
		act(book, (struct lease_action){.kind = LEASE_RETURNED,
						.session = s.session,
						.slab = slab,
						.name = lease_slab_name(book, slab),
						.request = s.request});
}

/* --- Sessions -------------------------------------------------------------------------------------------- */

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

static void session_fence(struct lease_book *book, uint32_t session)
{
	act(book, (struct lease_action){.kind = LEASE_FENCE, .session = session});
	book->sessions[session].conns = 0;
	requests_abandon(book, session);
}

/* Its connections are fenced. */
static void session_end(struct lease_book *book, uint32_t session)
{
	leases_end(book, session);
	act(book, (struct lease_action){.kind = LEASE_FORGET, .session = session});
	session_move(book, session, LEASE_SESSION_FREE);
}

static uint32_t session_free(const struct lease_book *book)
{
	for (uint32_t i = 0; i < book->limits.sessions; i++)
		if (book->sessions[i].state == LEASE_SESSION_FREE)
			return i;
	return LEASE_NO_SESSION;
}

/* Which of its slabs a client that comes back knows of, it has yet to say. */
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
		session = session_free(book);
	else if (book->sessions[session].state == LEASE_SESSION_ACTIVE)
		session_fence(book, session); /* its end has not been noticed yet; it has come again already */
	if (session == LEASE_NO_SESSION)
		return WIRE_REASON_FULL;

	s = &book->sessions[session];
	if (s->state != LEASE_SESSION_ACTIVE)
		session_move(book, session, LEASE_SESSION_ACTIVE);
	memcpy(s->id, id, WIRE_ID_SIZE);
	memcpy(s->key, key, AUTH_KEY_SIZE);
	s->counter = s->counters = 0; /* proofs under the old key are worth nothing now */
	s->grace_ns = wished_grace_ns < book->limits.grace_ns ? wished_grace_ns : book->limits.grace_ns;
	s->closed_ns = s->grace_ns;
	s->heard_at = s->said_at = now;
	claims_begin(book, session);
	deadline_at_most(book, now + book->limits.heartbeat_ns);
	*ret_session = session;
	return WIRE_REASON_NONE;
}

void lease_session_wish_closed(struct lease_book *book, uint32_t session, uint64_t wished_ns)
{
	struct lease_session *s = session_in(book, session, LEASE_SESSION_ACTIVE);

	s->closed_ns = wished_ns < s->grace_ns ? wished_ns : s->grace_ns;
}

void lease_session_closed(struct lease_book *book, uint64_t now, uint32_t session)
{
	struct lease_session *s = session_in(book, session, LEASE_SESSION_ACTIVE);

	s->grace_ns = s->closed_ns;
	lease_session_vanished(book, now, session);
}

void lease_session_vanished(struct lease_book *book, uint64_t now, uint32_t session)
{
	struct lease_session *s = session_in(book, session, LEASE_SESSION_ACTIVE);

	session_fence(book, session);
	if (!s->slabs || !s->grace_ns) {
		session_end(book, session);
		return;
	}
	s->vanished_at = now;
	session_move(book, session, LEASE_SESSION_GRACE);
	deadline_at_most(book, now + s->grace_ns);
}

void lease_session_bye(struct lease_book *book, uint32_t session)
{
	session_in(book, session, LEASE_SESSION_ACTIVE);
	session_fence(book, session);
	session_end(book, session);
}

/* The deadline stays where it is: it comes early, finds nothing to do and is set anew, which costs less than
   looking at all sessions with every message. */
void lease_session_heard(struct lease_book *book, uint64_t now, uint32_t session)
{
	session_in(book, session, LEASE_SESSION_ACTIVE)->heard_at = now;
}

void lease_session_said(struct lease_book *book, uint64_t now, uint32_t session)
{
	session_in(book, session, LEASE_SESSION_ACTIVE)->said_at = now;
}

/* No counter is taken twice; those too far behind to tell are not taken (a window as in RFC 4303, 3.4.3). */
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
	if (!counter_take(s, counter)) /* used up, even when there is no room */
		return WIRE_REASON_REPLAY;
	if (s->conns >= book->limits.session_conns)
		return WIRE_REASON_FULL;
	s->conns++;
	return WIRE_REASON_NONE;
}

void lease_detach(struct lease_book *book, uint32_t session)
{
	struct lease_session *s = session_in(book, session, LEASE_SESSION_ACTIVE);

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
				act(book, (struct lease_action){.kind = LEASE_PING, .session = i});
				s->said_at = now;
			}
			deadline_at_most(book, s->heard_at + LEASE_HEARTBEATS_MISSED * heartbeat);
			deadline_at_most(book, s->said_at + heartbeat);
		} else if (s->state == LEASE_SESSION_GRACE) {
			if (now >= s->vanished_at + s->grace_ns)
				session_end(book, i);
			else
				deadline_at_most(book, s->vanished_at + s->grace_ns);
		}
	}
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

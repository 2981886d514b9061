/* lease: every event in every state that matters, each in its own test. */
#include "memserver/lease.h"
#include "tests/tap.h"

#include <errno.h>

#define SECOND UINT64_C(1000000000)
#define SLABS 4u
#define MIB UINT64_C(1048576)

static const struct lease_limits limits = {
    .slabs = SLABS,
    .slab_bytes = MIB,
    .sessions = 3,
    .session_slabs = 3,
    .session_conns = 2,
    .grace_ns = 10 * SECOND,
    .heartbeat_ns = 2 * SECOND,
};

static struct lease_book *book_open(void)
{
	struct lease_book *book = NULL;

	if (lease_open(&limits, &book) < 0)
		abort();
	return book;
}

/* One client per letter. */
static unsigned begin(struct lease_book *book, uint64_t now, char client, uint64_t grace, uint32_t *ret_session)
{
	uint8_t id[WIRE_ID_SIZE], key[AUTH_KEY_SIZE];

	memset(id, client, sizeof id);
	memset(key, client ^ 0x55, sizeof key);
	return lease_session_begin(book, now, id, key, grace, ret_session);
}

static uint32_t come(struct lease_book *book, uint64_t now, char client)
{
	uint32_t session = LEASE_NO_SESSION;

	if (begin(book, now, client, 5 * SECOND, &session))
		abort();
	return session;
}

/* Takes the next answer and whether it is of this kind. */
static bool next_is(struct lease_book *book, enum lease_action_kind kind, struct lease_action *action)
{
	return lease_next(book, action) && action->kind == kind;
}

static bool quiet(struct lease_book *book)
{
	struct lease_action action;

	return !lease_next(book, &action);
}

static void drain(struct lease_book *book)
{
	struct lease_action action;

	while (lease_next(book, &action))
		;
}

/* Leases a slab, all the way. */
static struct lease_action lease(struct lease_book *book, uint32_t session, uint32_t request)
{
	struct lease_action action;

	lease_request(book, session, request);
	if (!next_is(book, LEASE_PREPARE, &action))
		abort();
	lease_prepared(book, action.slab, LEASE_READY);
	if (!next_is(book, LEASE_GRANT, &action))
		abort();
	return action;
}

static uint64_t leased(const struct lease_book *book)
{
	struct wire_capacity capacity;

	lease_capacity(book, &capacity);
	return capacity.leased / MIB;
}

static uint32_t clients(const struct lease_book *book)
{
	struct wire_capacity capacity;

	lease_capacity(book, &capacity);
	return capacity.clients;
}

/* A slab that is ready, and cannot be put within its client's reach. */
static void test_refuse(void)
{
	struct lease_action grant, action;
	struct lease_book *book = book_open();
	uint32_t session = come(book, 0, 'a');
	bool good;

	grant = lease(book, session, 7);
	lease_refuse(book, grant.slab);
	good = next_is(book, LEASE_CLEAR, &action) && action.slab == grant.slab;
	good = good && next_is(book, LEASE_DENY, &action) && action.request == 7 && action.reason == WIRE_REASON_FULL;
	ok(good && quiet(book), "refused: cleared, and denied as if there was no room");
	ok(!book->sessions[session].slabs && lease_in_use(book) == 1, "refused: not its client's any more");
	lease_claim(book, session, 8, grant.name);
	ok(next_is(book, LEASE_DENY, &action), "refused: nor can it be claimed");
	lease_cleared(book, grant.slab);
	ok(quiet(book) && !lease_in_use(book), "refused: free again, and nobody is told");
	lease_close(book);
}

static void test_limits(void)
{
	struct lease_limits bad = limits;
	struct lease_book *book = NULL;

	bad.slabs = 0;
	ok(lease_open(&bad, &book) == -EINVAL, "no slabs: refused");
	bad.slabs = LEASE_SLABS_MAX + 1;
	ok(lease_open(&bad, &book) == -EINVAL, "too many slabs: refused");
	bad = limits;
	bad.sessions = LEASE_SESSIONS_MAX + 1;
	ok(lease_open(&bad, &book) == -EINVAL, "too many sessions: refused");
	bad = limits;
	bad.heartbeat_ns = 0;
	ok(lease_open(&bad, &book) == -EINVAL && !book, "no heartbeat: refused");
	lease_close(NULL);
	for (int state = 0; state < LEASE_SLAB_STATES; state++)
		ok(strlen(lease_slab_state_name(state)) > 1, "slab state %d has a name", state);
	ok(!strcmp(lease_session_state_name(LEASE_SESSION_GRACE), "grace"), "session states have names");
}

static void test_life_of_a_lease(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action action;
	uint64_t name;

	ok(quiet(book), "a new session causes nothing");
	lease_request(book, a, 7);
	ok(next_is(book, LEASE_PREPARE, &action) && action.session == a && quiet(book), "a request causes preparing");
	ok(leased(book) == 1, "a slab being prepared is not free");
	lease_prepared(book, action.slab, LEASE_READY);
	ok(next_is(book, LEASE_GRANT, &action) && action.request == 7 && action.session == a, "then a grant");
	name = action.name;
	lease_release(book, a, 8, name);
	ok(next_is(book, LEASE_CLEAR, &action) && quiet(book), "a release causes clearing, and no answer yet");
	ok(leased(book) == 1, "a slab being cleared is not free");
	lease_cleared(book, action.slab);
	ok(next_is(book, LEASE_RETURNED, &action) && action.request == 8 && action.name == name && action.session == a,
	   "then the answer");
	ok(leased(book) == 0, "and the slab is free");
	ok(lease(book, a, 9).name != name, "the next lease of the same slab has another name");
	lease_close(book);
}

static void test_no_memory(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action action;

	lease_request(book, a, 1);
	next_is(book, LEASE_PREPARE, &action);
	lease_prepared(book, action.slab, LEASE_NO_MEMORY);
	ok(next_is(book, LEASE_DENY, &action) && action.request == 1 && action.reason == WIRE_REASON_FULL, "denied");
	ok(quiet(book) && leased(book) == 0, "nothing is leased");
	for (unsigned i = 0; i < 3; i++)
		lease(book, a, 2 + i);
	ok(leased(book) == 3, "the denied one does not count for the client");
	lease_close(book);
}

static void test_full(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a'), b = come(book, 0, 'b');
	struct lease_action action;

	for (unsigned i = 0; i < 3; i++)
		lease(book, a, i);
	lease_request(book, a, 10);
	ok(next_is(book, LEASE_DENY, &action) && action.request == 10 && action.reason == WIRE_REASON_FULL,
	   "one client gets no more than its quota");
	lease(book, b, 1);
	lease_request(book, b, 11);
	ok(next_is(book, LEASE_DENY, &action) && action.reason == WIRE_REASON_FULL && action.session == b,
	   "a full donor denies");
	ok(leased(book) == SLABS, "everything is leased");
	lease_close(book);
}

static void test_wrong_release(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a'), b = come(book, 0, 'b');
	struct lease_action mine = lease(book, a, 1), action;

	lease_release(book, b, 2, mine.name);
	ok(next_is(book, LEASE_DENY, &action) && action.session == b && action.request == 2 && quiet(book),
	   "another client's slab: denied");
	lease_release(book, a, 3, mine.name ^ (UINT64_C(1) << 40));
	ok(next_is(book, LEASE_DENY, &action) && quiet(book), "an old name of the slab: denied");
	lease_release(book, a, 4, UINT64_MAX);
	ok(next_is(book, LEASE_DENY, &action) && quiet(book), "no slab at all: denied");
	lease_release(book, a, 4, lease_slab_name(book, (mine.slab + 1) % SLABS));
	ok(next_is(book, LEASE_DENY, &action) && quiet(book), "a free slab: denied");
	lease_release(book, a, 5, mine.name);
	ok(next_is(book, LEASE_CLEAR, &action), "its own: taken");
	lease_release(book, a, 6, mine.name);
	ok(next_is(book, LEASE_DENY, &action) && action.request == 6, "twice, while it is cleared: denied");
	lease_cleared(book, mine.slab);
	ok(next_is(book, LEASE_RETURNED, &action) && action.request == 5, "the first one is answered");
	lease_release(book, a, 7, mine.name);
	ok(next_is(book, LEASE_DENY, &action) && action.request == 7, "twice, afterwards: denied");
	ok(leased(book) == 0, "and counted once");

	lease_request(book, a, 8);
	next_is(book, LEASE_PREPARE, &action);
	lease_release(book, a, 9, lease_slab_name(book, action.slab));
	ok(next_is(book, LEASE_DENY, &action) && action.request == 9, "a slab not granted yet: denied");
	lease_close(book);
}

static void test_vanish_and_expire(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action one = lease(book, a, 1), action;

	lease_session_vanished(book, SECOND, a);
	ok(next_is(book, LEASE_FENCE, &action) && action.session == a && quiet(book), "its connections are fenced");
	ok(leased(book) == 1 && clients(book) == 1, "its lease waits");
	ok(lease_deadline(book) <= 6 * SECOND, "a deadline stands");
	lease_expire(book, 6 * SECOND - 1);
	ok(quiet(book) && lease_deadline(book) == 6 * SECOND, "until the grace time it wished is over");
	lease_expire(book, 6 * SECOND);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == one.slab, "then the slab is cleared");
	ok(next_is(book, LEASE_FORGET, &action) && action.session == a && quiet(book),
	   "before the session is forgotten");
	ok(clients(book) == 0 && leased(book) == 1, "the memory is not free before it is cleared");
	lease_cleared(book, one.slab);
	ok(quiet(book) && leased(book) == 0, "nobody is told");
	ok(lease_deadline(book) == UINT64_MAX, "nothing to wait for");
	lease_close(book);
}

static void test_grace_bounds(void)
{
	struct lease_book *book = book_open();
	struct lease_action action;
	uint32_t a, b, c;

	begin(book, 0, 'a', 100 * SECOND, &a);
	ok(book->sessions[a].grace_ns == 10 * SECOND, "no more grace than the donor gives");
	begin(book, 0, 'b', 0, &b);
	lease(book, b, 1);
	lease_session_vanished(book, 0, b);
	ok(next_is(book, LEASE_FENCE, &action) && next_is(book, LEASE_CLEAR, &action) &&
	       next_is(book, LEASE_FORGET, &action),
	   "without grace the leases end at once");
	c = come(book, 0, 'c');
	lease_session_vanished(book, 0, c);
	ok(next_is(book, LEASE_FENCE, &action) && next_is(book, LEASE_FORGET, &action),
	   "a session without leases does not linger");
	lease_close(book);
}

static void test_vanish_while_preparing(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action prepare, action;

	lease_request(book, a, 1);
	next_is(book, LEASE_PREPARE, &prepare);
	lease_session_vanished(book, 0, a);
	ok(next_is(book, LEASE_FENCE, &action) && next_is(book, LEASE_FORGET, &action) && quiet(book),
	   "nothing granted: the session ends");
	ok(leased(book) == 1, "the slab is still being prepared");
	lease_prepared(book, prepare.slab, LEASE_READY);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == prepare.slab && quiet(book),
	   "then cleared, not granted");
	lease_cleared(book, prepare.slab);
	ok(leased(book) == 0 && quiet(book), "and free");

	a = come(book, 0, 'a');
	lease_request(book, a, 2);
	next_is(book, LEASE_PREPARE, &prepare);
	lease_session_bye(book, a);
	drain(book);
	lease_prepared(book, prepare.slab, LEASE_NO_MEMORY);
	ok(quiet(book) && leased(book) == 0, "no memory and no client: free, and nobody is told");
	lease_close(book);
}

static void test_vanish_while_clearing(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a'), again;
	struct lease_action one = lease(book, a, 1), action;

	lease_release(book, a, 2, one.name);
	next_is(book, LEASE_CLEAR, &action);
	lease_session_vanished(book, 0, a);
	drain(book);
	again = come(book, 0, 'b');
	ok(again == a, "the next client has the same place in the book");
	lease_cleared(book, one.slab);
	ok(quiet(book), "and does not hear of a slab it never had");
	lease_close(book);
}

static void test_return_within_grace(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action one = lease(book, a, 1), prepare, action;

	lease_request(book, a, 2);
	next_is(book, LEASE_PREPARE, &prepare);
	lease_session_vanished(book, SECOND, a);
	drain(book);
	ok(come(book, 3 * SECOND, 'a') == a && quiet(book) && clients(book) == 1, "the same client, the same session");
	lease_expire(book, 6 * SECOND);
	drain(book);
	ok(book->sessions[a].state == LEASE_SESSION_ACTIVE && book->slabs[one.slab].state == LEASE_SLAB_LEASED,
	   "the old grace time is void");
	lease_prepared(book, prepare.slab, LEASE_READY);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == prepare.slab,
	   "what it asked for before is not granted: it does not know of that any more");
	lease_release(book, a, 3, one.name);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == one.slab, "it may release what it held");
	lease_close(book);
}

static void test_return_before_the_end_is_noticed(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action one = lease(book, a, 1), action;

	ok(lease_attach(book, a, 5) == 0 && lease_attach(book, a, 6) == 0, "two data connections");
	ok(come(book, SECOND, 'a') == a, "the same client comes again");
	ok(next_is(book, LEASE_FENCE, &action) && action.session == a && quiet(book), "its old connections are fenced");
	ok(book->slabs[one.slab].state == LEASE_SLAB_LEASED && clients(book) == 1, "its lease stands");
	ok(lease_attach(book, a, 1) == 0 && lease_attach(book, a, 2) == 0,
	   "counters begin anew with the new session key, and no connection of before is counted");
	lease_close(book);
}

/* What a client that came back does not know of, it will never give back. */
static void test_claims(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action one = lease(book, a, 1), two = lease(book, a, 2), action;

	lease_claimed(book, a);
	ok(quiet(book), "what was granted in this session needs no claim");
	lease_session_vanished(book, 0, a);
	come(book, SECOND, 'a');
	next_is(book, LEASE_FENCE, &action);
	ok(quiet(book) && book->sessions[a].slabs == 2, "a client comes back to two slabs");
	lease_claim(book, a, 7, two.name);
	ok(next_is(book, LEASE_CONFIRM, &action) && action.session == a && action.slab == two.slab &&
	       action.name == two.name && action.request == 7 && quiet(book),
	   "one it claims: confirmed");
	lease_claim(book, a, 8, one.name ^ UINT64_C(1) << 32);
	ok(next_is(book, LEASE_DENY, &action) && action.request == 8 && quiet(book), "not under a name of before");
	lease_claim(book, a, 8, UINT64_MAX);
	ok(next_is(book, LEASE_DENY, &action) && quiet(book), "nor one that never was");
	lease_claimed(book, a);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == one.slab && quiet(book) &&
	       book->sessions[a].slabs == 1,
	   "the other is cleared when it says that this was all");
	lease_session_wish_closed(book, a, SECOND);
	lease_session_closed(book, 10 * SECOND, a);
	next_is(book, LEASE_FENCE, &action);
	ok(quiet(book) && lease_deadline(book) <= 11 * SECOND,
	   "closed by the client, its leases wait for what it wished");
	come(book, 10 * SECOND, 'a');
	lease_claim(book, a, 9, one.name);
	ok(next_is(book, LEASE_DENY, &action) && quiet(book), "then it is too late to claim it");
	lease_cleared(book, one.slab);
	ok(quiet(book), "and nobody waits for an answer");
	lease_close(book);
}

static void test_attach(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	uint8_t id[WIRE_ID_SIZE];

	memset(id, 'a', sizeof id);
	ok(lease_session_find(book, id) == a, "found by its id");
	ok(lease_attach(book, a, 0) == WIRE_REASON_REPLAY, "counter 0 is none");
	ok(lease_attach(book, a, 3) == 0, "first");
	ok(lease_attach(book, a, 3) == WIRE_REASON_REPLAY, "the same counter again");
	ok(lease_attach(book, a, 2) == 0, "one that comes a little late");
	ok(lease_attach(book, a, 2) == WIRE_REASON_REPLAY, "but not twice");
	lease_detach(book, a);
	ok(lease_attach(book, a, 4) == 0, "second");
	ok(lease_attach(book, a, 5) == WIRE_REASON_FULL, "no third");
	lease_detach(book, a);
	ok(lease_attach(book, a, 5) == WIRE_REASON_REPLAY, "a refused counter is used up");
	ok(lease_attach(book, a, 6) == 0, "one ended, one may come");
	lease_detach(book, a);
	ok(lease_attach(book, a, 6 + LEASE_COUNTERS) == 0, "a counter far ahead");
	lease_detach(book, a);
	ok(lease_attach(book, a, 6) == WIRE_REASON_REPLAY, "then what is too far behind to tell is refused");
	ok(lease_attach(book, a, 7) == 0, "and what is not, is taken");
	lease_detach(book, a);
	ok(lease_attach(book, a, 7) == WIRE_REASON_REPLAY, "once");
	lease(book, a, 1);
	lease_session_vanished(book, 0, a);
	ok(lease_session_find(book, id) == LEASE_NO_SESSION, "not found while it has vanished");
	ok(lease_attach(book, a, 9) == WIRE_REASON_NO_SESSION, "no data connection into a vanished session");
	ok(lease_attach(book, LEASE_NO_SESSION, 9) == WIRE_REASON_NO_SESSION, "nor into none");
	memset(id, 'z', sizeof id);
	ok(lease_session_find(book, id) == LEASE_NO_SESSION, "an unknown id is not found");
	lease_close(book);
}

static void test_sessions_full(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a'), session;
	struct lease_action action;

	come(book, 0, 'b');
	come(book, 0, 'c');
	ok(begin(book, 0, 'd', 0, &session) == WIRE_REASON_FULL, "too many clients");
	ok(begin(book, 0, 'b', 0, &session) == 0, "but one of them may come again");
	drain(book);
	lease_session_bye(book, a);
	ok(next_is(book, LEASE_FENCE, &action) && next_is(book, LEASE_FORGET, &action), "one says goodbye");
	ok(begin(book, 0, 'd', 0, &session) == 0 && session == a, "and another may come");
	lease_close(book);
}

static void test_bye(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action action, one = lease(book, a, 1), two = lease(book, a, 2);

	lease_session_bye(book, a);
	ok(next_is(book, LEASE_FENCE, &action), "fenced first");
	ok(next_is(book, LEASE_CLEAR, &action) && next_is(book, LEASE_CLEAR, &action), "then every slab cleared");
	ok(next_is(book, LEASE_FORGET, &action) && quiet(book), "then forgotten");
	lease_cleared(book, one.slab);
	lease_cleared(book, two.slab);
	ok(leased(book) == 0 && clients(book) == 0 && quiet(book), "all free");
	lease_close(book);
}

static void test_heartbeat(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action action;

	lease(book, a, 1);
	ok(lease_deadline(book) == 2 * SECOND, "a client: a heartbeat to keep");
	lease_expire(book, 2 * SECOND);
	ok(next_is(book, LEASE_PING, &action) && action.session == a && quiet(book), "silent for one: ping");
	lease_session_said(book, 3 * SECOND, a);
	lease_expire(book, 4 * SECOND);
	ok(quiet(book), "something was said meanwhile: no ping");
	lease_session_heard(book, 5 * SECOND, a);
	lease_expire(book, 6 * SECOND);
	ok(next_is(book, LEASE_PING, &action) && quiet(book), "it was heard: it lives");
	lease_expire(book, 13 * SECOND - 1);
	ok(next_is(book, LEASE_PING, &action) && quiet(book) && lease_deadline(book) <= 13 * SECOND,
	   "it may miss three");
	lease_expire(book, 13 * SECOND);
	ok(next_is(book, LEASE_FENCE, &action) && quiet(book), "not four: fenced");
	ok(book->sessions[a].state == LEASE_SESSION_GRACE, "and its lease waits");
	lease_expire(book, 18 * SECOND);
	ok(next_is(book, LEASE_CLEAR, &action) && next_is(book, LEASE_FORGET, &action) && quiet(book), "and ends");
	lease_close(book);
}

static void test_leave(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a'), b = come(book, 0, 'b'), session;
	struct lease_action one = lease(book, a, 1), two = lease(book, b, 1), prepare, action;
	unsigned fences = 0, clears = 0, forgets = 0;

	lease_request(book, a, 2);
	next_is(book, LEASE_PREPARE, &prepare);
	lease_session_vanished(book, 0, b);
	drain(book);
	lease_leave(book);
	while (lease_next(book, &action)) {
		fences += action.kind == LEASE_FENCE;
		clears += action.kind == LEASE_CLEAR;
		forgets += action.kind == LEASE_FORGET;
	}
	ok(fences == 1 && clears == 2 && forgets == 2, "everybody's leases end, connected or vanished");
	ok(begin(book, 0, 'c', 0, &session) == WIRE_REASON_LEAVING, "nobody new is let in");
	ok(lease_attach(book, a, 99) == WIRE_REASON_LEAVING, "no data connection either");
	lease_prepared(book, prepare.slab, LEASE_READY);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == prepare.slab, "what was being prepared is cleared");
	lease_cleared(book, one.slab);
	lease_cleared(book, two.slab);
	lease_cleared(book, prepare.slab);
	ok(leased(book) == 0 && clients(book) == 0 && quiet(book), "nothing is left");
	lease_close(book);
}

static bool lease_taken(struct lease_book *book, uint32_t session, uint32_t request)
{
	struct lease_action action;
	bool prepares = false;

	lease_request(book, session, request);
	while (lease_next(book, &action))
		prepares |= action.kind == LEASE_PREPARE;
	return prepares;
}

static void test_owners(void)
{
	struct lease_book *book = book_open();
	uint8_t id[WIRE_ID_SIZE];
	uint32_t a, b, c;

	begin(book, 0, 'a', SECOND, &a);
	begin(book, 0, 'b', SECOND, &b);
	begin(book, 0, 'c', SECOND, &c);
	lease_session_own(book, a, "alice", 2);
	lease_session_own(book, b, "alice", 2);
	lease_session_own(book, c, "bob", 0);
	ok(lease_taken(book, a, 1) && lease_taken(book, b, 2), "an owner's sessions lease what all of them may have");
	ok(!lease_taken(book, a, 3) && !lease_taken(book, b, 4), "neither gets more");
	ok(lease_taken(book, c, 5), "another owner does");
	lease_session_own(book, a, "alice", 3);
	ok(lease_taken(book, a, 6), "an owner that may have more gets it");
	memset(id, 'a', sizeof id);
	ok(lease_session_may_begin(book, id, "alice") && !lease_session_may_begin(book, id, "bob") &&
	       !lease_session_may_begin(book, id, ""),
	   "a session is gone on with by its owner only");
	memset(id, 'd', sizeof id);
	ok(lease_session_may_begin(book, id, "bob") && !lease_session_is_known(book, id), "one not there is anybody's");
	lease_close(book);
}

int main(void)
{
	test_owners();
	test_limits();
	test_life_of_a_lease();
	test_no_memory();
	test_refuse();
	test_full();
	test_wrong_release();
	test_vanish_and_expire();
	test_grace_bounds();
	test_vanish_while_preparing();
	test_vanish_while_clearing();
	test_return_within_grace();
	test_return_before_the_end_is_noticed();
	test_claims();
	test_attach();
	test_sessions_full();
	test_bye();
	test_heartbeat();
	test_leave();
	return tap_done();
}

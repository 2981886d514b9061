/* lease: each event in each state that matters has a test of its own. */
#include "memserver/lease.h"
#include "tests/lib/tap.h"
#include "tests/unit/memserver/book.h"

#include <errno.h>

/* Leases a slab, from the request to the grant. */
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

/* A slab is ready, but cannot be registered for its client. */
static void a_slab_out_of_reach_is_cleared_and_denied(void)
{
	struct lease_action grant, action;
	struct lease_book *book = book_open();
	uint32_t session = come(book, 0, 'a');
	bool good;

	grant = lease(book, session, 7);
	lease_refuse(book, grant.slab);
	good = next_is(book, LEASE_CLEAR, &action) && action.slab == grant.slab;
	good = good && next_is(book, LEASE_DENY, &action) && action.request == 7 && action.reason == WIRE_REASON_FULL;
	ok(good && quiet(book), "a slab out of its client's reach is cleared, and the LEASE is denied as full");
	ok(!book->sessions[session].slabs && lease_in_use(book) == 1,
	   "a slab out of its client's reach does not count as its client's");
	lease_claim(book, session, 8, grant.name);
	ok(next_is(book, LEASE_DENY, &action), "a slab out of its client's reach cannot be claimed");
	lease_cleared(book, grant.slab);
	ok(quiet(book) && !lease_in_use(book),
	   "a slab out of its client's reach is free once it is cleared, without a message");
	lease_close(book);
}

static void impossible_limits_are_refused(void)
{
	struct lease_limits bad = limits;
	struct lease_book *book = NULL;

	bad.slabs = 0;
	ok(lease_open(&bad, &book) == -EINVAL, "limits without slabs are refused");
	bad.slabs = LEASE_SLABS_MAX + 1;
	ok(lease_open(&bad, &book) == -EINVAL, "limits of too many slabs are refused");
	bad = limits;
	bad.sessions = LEASE_SESSIONS_MAX + 1;
	ok(lease_open(&bad, &book) == -EINVAL, "limits of too many sessions are refused");
	bad = limits;
	bad.heartbeat_ns = 0;
	ok(lease_open(&bad, &book) == -EINVAL && !book, "limits without a heartbeat are refused");
	lease_close(NULL);
}

static void a_lease_is_prepared_granted_cleared_and_returned(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action action;
	uint64_t name;

	ok(quiet(book), "a new session causes no action");
	lease_request(book, a, 7);
	ok(next_is(book, LEASE_PREPARE, &action) && action.session == a && quiet(book),
	   "a LEASE causes a slab to be prepared");
	ok(leased(book) == 1, "a slab being prepared is not free");
	lease_prepared(book, action.slab, LEASE_READY);
	ok(next_is(book, LEASE_GRANT, &action) && action.request == 7 && action.session == a,
	   "a slab that is prepared is granted to the client that asked");
	name = action.name;
	lease_release(book, a, 8, name);
	ok(next_is(book, LEASE_CLEAR, &action) && quiet(book), "a RELEASE causes clearing, and no answer yet");
	ok(leased(book) == 0 && lease_in_use(book) == 1, "a slab being cleared is neither leased nor free");
	lease_cleared(book, action.slab);
	ok(next_is(book, LEASE_RETURNED, &action) && action.request == 8 && action.name == name && action.session == a,
	   "a slab that is cleared causes the answer to its RELEASE");
	ok(lease_in_use(book) == 0, "a slab that is cleared is free");
	ok(lease(book, a, 9).name != name, "the next lease of the same slab has another name");
	lease_close(book);
}

static void a_lease_without_memory_is_denied(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action action;

	lease_request(book, a, 1);
	next_is(book, LEASE_PREPARE, &action);
	lease_prepared(book, action.slab, LEASE_NO_MEMORY);
	ok(next_is(book, LEASE_DENY, &action) && action.request == 1 && action.reason == WIRE_REASON_FULL,
	   "a LEASE is denied as full if there is no memory");
	ok(quiet(book) && leased(book) == 0, "a LEASE without memory leaves no slab leased");
	for (unsigned i = 0; i < 3; i++)
		lease(book, a, 2 + i);
	ok(leased(book) == 3, "a LEASE without memory does not count for the client's quota");
	lease_close(book);
}

static void leases_beyond_quota_or_donor_are_denied(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a'), b = come(book, 0, 'b');
	struct lease_action action;

	for (unsigned i = 0; i < 3; i++)
		lease(book, a, i);
	lease_request(book, a, 10);
	ok(next_is(book, LEASE_DENY, &action) && action.request == 10 && action.reason == WIRE_REASON_FULL,
	   "a client gets no more slabs than its quota");
	lease(book, b, 1);
	lease_request(book, b, 11);
	ok(next_is(book, LEASE_DENY, &action) && action.reason == WIRE_REASON_FULL && action.session == b,
	   "a full donor denies a LEASE");
	ok(leased(book) == SLABS, "a full donor has all slabs leased");
	lease_close(book);
}

static void a_wrong_release_is_denied(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a'), b = come(book, 0, 'b');
	struct lease_action mine = lease(book, a, 1), action;

	lease_release(book, b, 2, mine.name);
	ok(next_is(book, LEASE_DENY, &action) && action.session == b && action.request == 2 && quiet(book),
	   "a RELEASE of another client's slab is denied");
	lease_release(book, a, 3, mine.name ^ (UINT64_C(1) << 40));
	ok(next_is(book, LEASE_DENY, &action) && quiet(book),
	   "a RELEASE of the slab by the name of another lease is denied");
	lease_release(book, a, 4, UINT64_MAX);
	ok(next_is(book, LEASE_DENY, &action) && quiet(book), "a RELEASE of a slab that does not exist is denied");
	lease_release(book, a, 4, lease_slab_name(book, (mine.slab + 1) % SLABS));
	ok(next_is(book, LEASE_DENY, &action) && quiet(book), "a RELEASE of a free slab is denied");
	lease_release(book, a, 5, mine.name);
	ok(next_is(book, LEASE_CLEAR, &action), "a RELEASE of the client's own slab is carried out");
	lease_release(book, a, 6, mine.name);
	ok(next_is(book, LEASE_DENY, &action) && action.request == 6,
	   "a second RELEASE is denied while the slab is cleared");
	lease_cleared(book, mine.slab);
	ok(next_is(book, LEASE_RETURNED, &action) && action.request == 5,
	   "the first RELEASE is answered after a second one was denied");
	lease_release(book, a, 7, mine.name);
	ok(next_is(book, LEASE_DENY, &action) && action.request == 7,
	   "a second RELEASE is denied after the slab is cleared");
	ok(leased(book) == 0, "a slab that was released twice is counted once");

	lease_request(book, a, 8);
	next_is(book, LEASE_PREPARE, &action);
	lease_release(book, a, 9, lease_slab_name(book, action.slab));
	ok(next_is(book, LEASE_DENY, &action) && action.request == 9,
	   "a RELEASE of a slab that is not granted yet is denied");
	lease_close(book);
}

static void leases_of_a_vanished_client_end_after_its_grace_time(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action one = lease(book, a, 1), action;

	lease_session_vanished(book, SECOND, a);
	ok(next_is(book, LEASE_FENCE, &action) && action.session == a && quiet(book),
	   "the connections of a vanished client are fenced");
	ok(leased(book) == 1 && clients(book) == 1, "the lease of a vanished client waits");
	ok(lease_deadline(book) <= 6 * SECOND, "a vanished client sets a deadline");
	lease_expire(book, 6 * SECOND - 1);
	ok(quiet(book) && lease_deadline(book) == 6 * SECOND,
	   "the lease of a vanished client waits until its grace time is over");
	lease_expire(book, 6 * SECOND);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == one.slab,
	   "the slab of a vanished client is cleared after its grace time");
	ok(next_is(book, LEASE_FORGET, &action) && action.session == a && quiet(book),
	   "the session of a vanished client is forgotten after its slab's CLEAR");
	ok(clients(book) == 0 && lease_in_use(book) == 1,
	   "the slab of a forgotten session is not free before it is cleared");
	lease_cleared(book, one.slab);
	ok(quiet(book) && leased(book) == 0,
	   "the slab of a forgotten session is free once it is cleared, without a message");
	ok(lease_deadline(book) == UINT64_MAX, "a book without sessions has no deadline");
	lease_close(book);
}

static void grace_times_are_bounded(void)
{
	struct lease_book *book = book_open();
	struct lease_action action;
	uint32_t a, b, c;

	begin(book, 0, 'a', 100 * SECOND, &a);
	ok(book->sessions[a].grace_ns == 10 * SECOND, "a client gets no more grace time than the donor allows");
	begin(book, 0, 'b', 0, &b);
	lease(book, b, 1);
	lease_session_vanished(book, 0, b);
	ok(next_is(book, LEASE_FENCE, &action) && next_is(book, LEASE_CLEAR, &action) &&
	       next_is(book, LEASE_FORGET, &action),
	   "the leases of a vanished client without grace time end at once");
	c = come(book, 0, 'c');
	lease_session_vanished(book, 0, c);
	ok(next_is(book, LEASE_FENCE, &action) && next_is(book, LEASE_FORGET, &action),
	   "the session of a vanished client without leases ends at once");
	lease_close(book);
}

static void a_slab_prepared_for_a_vanished_client_is_cleared(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action prepare, action;

	lease_request(book, a, 1);
	next_is(book, LEASE_PREPARE, &prepare);
	lease_session_vanished(book, 0, a);
	ok(next_is(book, LEASE_FENCE, &action) && next_is(book, LEASE_FORGET, &action) && quiet(book),
	   "the session of a vanished client without a grant ends at once");
	ok(leased(book) == 1, "the slab in preparation for a vanished client is not free");
	lease_prepared(book, prepare.slab, LEASE_READY);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == prepare.slab && quiet(book),
	   "the slab prepared for a vanished client is cleared, not granted");
	lease_cleared(book, prepare.slab);
	ok(leased(book) == 0 && quiet(book), "the slab prepared for a vanished client is free once it is cleared");

	a = come(book, 0, 'a');
	lease_request(book, a, 2);
	next_is(book, LEASE_PREPARE, &prepare);
	lease_session_bye(book, a);
	drain(book);
	lease_prepared(book, prepare.slab, LEASE_NO_MEMORY);
	ok(quiet(book) && leased(book) == 0, "a slab without memory and without a client is free, without a message");
	lease_close(book);
}

static void a_new_client_hears_nothing_of_an_old_slab(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a'), again;
	struct lease_action one = lease(book, a, 1), action;

	lease_release(book, a, 2, one.name);
	next_is(book, LEASE_CLEAR, &action);
	lease_session_vanished(book, 0, a);
	drain(book);
	again = come(book, 0, 'b');
	ok(again == a, "a new client gets the place of a vanished one in the book");
	lease_cleared(book, one.slab);
	ok(quiet(book), "a new client gets no message about a slab that it never had");
	lease_close(book);
}

static void a_client_that_returns_in_time_keeps_its_leases(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action one = lease(book, a, 1), prepare, action;

	lease_request(book, a, 2);
	next_is(book, LEASE_PREPARE, &prepare);
	lease_session_vanished(book, SECOND, a);
	drain(book);
	ok(come(book, 3 * SECOND, 'a') == a && quiet(book) && clients(book) == 1,
	   "a client that returns within its grace time gets its session back");
	lease_expire(book, 6 * SECOND);
	drain(book);
	ok(book->sessions[a].state == LEASE_SESSION_ACTIVE && book->slabs[one.slab].state == LEASE_SLAB_LEASED,
	   "the grace time of a client is void after its return");
	lease_prepared(book, prepare.slab, LEASE_READY);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == prepare.slab,
	   "a slab that a client asked for before it vanished is not granted");
	lease_release(book, a, 3, one.name);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == one.slab,
	   "a returned client may release the slab that it held");
	lease_close(book);
}

static void a_client_may_return_before_its_end_is_noticed(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action one = lease(book, a, 1), action;

	ok(lease_attach(book, a, 5) == 0 && lease_attach(book, a, 6) == 0, "a session takes two data connections");
	ok(come(book, SECOND, 'a') == a, "a client that returns before its end is noticed gets its session back");
	ok(next_is(book, LEASE_FENCE, &action) && action.session == a && quiet(book),
	   "the old connections of a returned client are fenced");
	ok(book->slabs[one.slab].state == LEASE_SLAB_LEASED && clients(book) == 1,
	   "the lease of a returned client stands");
	ok(lease_attach(book, a, 1) == 0 && lease_attach(book, a, 2) == 0,
	   "a returned client begins with new counters and no data connections");
	lease_close(book);
}

/* A returning client releases only slabs that it knows. So the book clears the slabs that nobody claims. */
static void slabs_that_are_not_claimed_are_cleared(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action one = lease(book, a, 1), two = lease(book, a, 2), action;

	lease_claimed(book, a);
	ok(quiet(book), "a slab granted in this session needs no claim");
	lease_session_vanished(book, 0, a);
	come(book, SECOND, 'a');
	next_is(book, LEASE_FENCE, &action);
	ok(quiet(book) && book->sessions[a].slabs == 2, "a returning client still has its two slabs");
	lease_claim(book, a, 7, two.name);
	ok(next_is(book, LEASE_CONFIRM, &action) && action.session == a && action.slab == two.slab &&
	       action.name == two.name && action.request == 7 && quiet(book),
	   "a claim of the client's slab is confirmed");
	lease_claim(book, a, 8, one.name ^ UINT64_C(1) << 32);
	ok(next_is(book, LEASE_DENY, &action) && action.request == 8 && quiet(book),
	   "a claim of the slab by the name of another lease is denied");
	lease_claim(book, a, 8, UINT64_MAX);
	ok(next_is(book, LEASE_DENY, &action) && quiet(book), "a claim of a slab that does not exist is denied");
	lease_claimed(book, a);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == one.slab && quiet(book) &&
	       book->sessions[a].slabs == 1,
	   "a slab that is not claimed is cleared at CLAIMED");
	lease_session_wish_closed(book, a, SECOND);
	lease_session_closed(book, 10 * SECOND, a);
	next_is(book, LEASE_FENCE, &action);
	ok(quiet(book) && lease_deadline(book) <= 11 * SECOND,
	   "leases wait the wished time after the client closed its session");
	come(book, 10 * SECOND, 'a');
	lease_claim(book, a, 9, one.name);
	ok(next_is(book, LEASE_DENY, &action) && quiet(book), "a claim of a slab that is being cleared is denied");
	lease_cleared(book, one.slab);
	ok(quiet(book), "a slab that was not claimed is cleared without an answer");
	lease_close(book);
}

static void each_counter_of_a_data_connection_is_good_once(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	uint8_t id[WIRE_ID_SIZE];

	memset(id, 'a', sizeof id);
	ok(lease_session_find(book, id) == a, "a session is found by its client id");
	ok(lease_attach(book, a, 0) == WIRE_REASON_REPLAY, "counter 0 is refused as a replay");
	ok(lease_attach(book, a, 3) == 0, "a first data connection is let in");
	ok(lease_attach(book, a, 3) == WIRE_REASON_REPLAY, "a counter that was used is refused as a replay");
	ok(lease_attach(book, a, 2) == 0, "a counter that comes a little late is let in");
	ok(lease_attach(book, a, 2) == WIRE_REASON_REPLAY, "a counter that came late is refused the second time");
	lease_detach(book, a);
	ok(lease_attach(book, a, 4) == 0, "a data connection is let in after another one ended");
	ok(lease_attach(book, a, 5) == WIRE_REASON_FULL, "a data connection beyond the limit is refused as full");
	lease_detach(book, a);
	ok(lease_attach(book, a, 5) == WIRE_REASON_REPLAY, "a counter that was refused as full is used up");
	ok(lease_attach(book, a, 6) == 0, "a new counter is let in once a full session has lost a connection");
	lease_detach(book, a);
	ok(lease_attach(book, a, 6 + LEASE_COUNTERS) == 0, "a counter far ahead is let in");
	lease_detach(book, a);
	ok(lease_attach(book, a, 6) == WIRE_REASON_REPLAY, "a counter behind the replay window is refused as a replay");
	ok(lease_attach(book, a, 7) == 0, "the last counter inside the replay window is let in");
	lease_detach(book, a);
	ok(lease_attach(book, a, 7) == WIRE_REASON_REPLAY,
	   "the last counter inside the replay window is refused the second time");
	lease(book, a, 1);
	lease_session_vanished(book, 0, a);
	ok(lease_session_find(book, id) == LEASE_NO_SESSION, "a session is not found while its client has vanished");
	ok(lease_attach(book, a, 9) == WIRE_REASON_NO_SESSION, "a data connection into a vanished session is refused");
	ok(lease_attach(book, LEASE_NO_SESSION, 9) == WIRE_REASON_NO_SESSION,
	   "a data connection into no session is refused");
	memset(id, 'z', sizeof id);
	ok(lease_session_find(book, id) == LEASE_NO_SESSION, "an unknown client id finds no session");
	lease_close(book);
}

static void sessions_are_limited(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a'), session;
	struct lease_action action;

	come(book, 0, 'b');
	come(book, 0, 'c');
	ok(begin(book, 0, 'd', 0, &session) == WIRE_REASON_FULL,
	   "a client beyond the limit of sessions is refused as full");
	ok(begin(book, 0, 'b', 0, &session) == 0, "a client with a session may return while sessions are full");
	drain(book);
	lease_session_bye(book, a);
	ok(next_is(book, LEASE_FENCE, &action) && next_is(book, LEASE_FORGET, &action),
	   "BYE ends a session without leases at once");
	ok(begin(book, 0, 'd', 0, &session) == 0 && session == a, "a new client is let in after another one said BYE");
	lease_close(book);
}

static void bye_ends_a_session_at_once(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action action, one = lease(book, a, 1), two = lease(book, a, 2);

	lease_session_bye(book, a);
	ok(next_is(book, LEASE_FENCE, &action), "the first action after BYE fences the session");
	ok(next_is(book, LEASE_CLEAR, &action) && next_is(book, LEASE_CLEAR, &action),
	   "BYE clears every slab of the session");
	ok(next_is(book, LEASE_FORGET, &action) && quiet(book), "the last action after BYE is to forget the session");
	lease_cleared(book, one.slab);
	lease_cleared(book, two.slab);
	ok(leased(book) == 0 && clients(book) == 0 && quiet(book),
	   "all slabs of a session that said BYE are free once they are cleared");
	lease_close(book);
}

static void a_silent_client_is_pinged_then_fenced(void)
{
	struct lease_book *book = book_open();
	uint32_t a = come(book, 0, 'a');
	struct lease_action action;

	lease(book, a, 1);
	ok(lease_deadline(book) == 2 * SECOND, "a session sets a deadline after one heartbeat");
	lease_expire(book, 2 * SECOND);
	ok(next_is(book, LEASE_PING, &action) && action.session == a && quiet(book),
	   "a donor that was silent for a heartbeat sends a PING");
	lease_session_said(book, 3 * SECOND, a);
	lease_expire(book, 4 * SECOND);
	ok(quiet(book), "a donor that said something meanwhile sends no PING");
	lease_session_heard(book, 5 * SECOND, a);
	lease_expire(book, 6 * SECOND);
	ok(next_is(book, LEASE_PING, &action) && quiet(book),
	   "a client that sent a message stays, and gets the next PING");
	lease_expire(book, 13 * SECOND - 1);
	ok(next_is(book, LEASE_PING, &action) && quiet(book) && lease_deadline(book) <= 13 * SECOND,
	   "a client that misses three heartbeats stays");
	lease_expire(book, 13 * SECOND);
	ok(next_is(book, LEASE_FENCE, &action) && quiet(book), "a client that misses four heartbeats is fenced");
	ok(book->sessions[a].state == LEASE_SESSION_GRACE, "the lease of a silent client waits for its grace time");
	lease_expire(book, 18 * SECOND);
	ok(next_is(book, LEASE_CLEAR, &action) && next_is(book, LEASE_FORGET, &action) && quiet(book),
	   "the lease of a silent client ends after its grace time");
	lease_close(book);
}

static void a_leaving_donor_ends_all_leases(void)
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
	ok(fences == 1 && clears == 2 && forgets == 2,
	   "a leaving donor ends the leases of connected and vanished clients");
	ok(begin(book, 0, 'c', 0, &session) == WIRE_REASON_LEAVING, "a leaving donor refuses new sessions");
	ok(lease_attach(book, a, 99) == WIRE_REASON_LEAVING, "a leaving donor refuses data connections");
	lease_prepared(book, prepare.slab, LEASE_READY);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == prepare.slab,
	   "a leaving donor clears a slab that was being prepared");
	lease_cleared(book, one.slab);
	lease_cleared(book, two.slab);
	lease_cleared(book, prepare.slab);
	ok(leased(book) == 0 && clients(book) == 0 && quiet(book), "a leaving donor has no lease and no client left");
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

static void the_sessions_of_an_owner_share_its_quota(void)
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
	ok(lease_taken(book, a, 1) && lease_taken(book, b, 2),
	   "the sessions of an owner together lease up to its quota");
	ok(!lease_taken(book, a, 3) && !lease_taken(book, b, 4), "the sessions of an owner get no more than its quota");
	ok(lease_taken(book, c, 5), "another owner gets a slab while the first is at its quota");
	lease_session_own(book, a, "alice", 3);
	ok(lease_taken(book, a, 6), "an owner whose quota grows gets more slabs");
	memset(id, 'a', sizeof id);
	ok(lease_session_may_begin(book, id, "alice") && !lease_session_may_begin(book, id, "bob") &&
	       !lease_session_may_begin(book, id, ""),
	   "a session may be begun again by its owner only");
	memset(id, 'd', sizeof id);
	ok(lease_session_may_begin(book, id, "bob") && !lease_session_is_known(book, id),
	   "a session that does not exist may be begun by any owner");
	lease_close(book);
}

int main(void)
{
	the_sessions_of_an_owner_share_its_quota();
	impossible_limits_are_refused();
	a_lease_is_prepared_granted_cleared_and_returned();
	a_lease_without_memory_is_denied();
	a_slab_out_of_reach_is_cleared_and_denied();
	leases_beyond_quota_or_donor_are_denied();
	a_wrong_release_is_denied();
	leases_of_a_vanished_client_end_after_its_grace_time();
	grace_times_are_bounded();
	a_slab_prepared_for_a_vanished_client_is_cleared();
	a_new_client_hears_nothing_of_an_old_slab();
	a_client_that_returns_in_time_keeps_its_leases();
	a_client_may_return_before_its_end_is_noticed();
	slabs_that_are_not_claimed_are_cleared();
	each_counter_of_a_data_connection_is_good_once();
	sessions_are_limited();
	bye_ends_a_session_at_once();
	a_silent_client_is_pinged_then_fenced();
	a_leaving_donor_ends_all_leases();
	return tap_done();
}

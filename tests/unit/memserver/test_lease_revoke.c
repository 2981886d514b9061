/* lease: takes slabs back. Each rule has a test of its own. */
#include "memserver/lease.h"
#include "tests/lib/tap.h"

#define SECOND UINT64_C(1000000000)
#define SLABS 40u
#define MIB UINT64_C(1048576)

static const struct lease_limits limits = {
    .slabs = SLABS,
    .slab_bytes = MIB,
    .sessions = 4,
    .session_conns = 2,
    .grace_ns = 100 * SECOND,
    .heartbeat_ns = 50 * SECOND,
    .revoke_ns = 10 * SECOND,
};

/* The actions that followed an event. */
struct outcome {
	unsigned count, revokes, keeps, takens, clears, pings, returned, denied, grants, prepares, abandons;
	struct lease_action first, last;
};

static struct lease_book *book;

static struct outcome settle(void)
{
	struct outcome o = {0};
	struct lease_action action;

	while (lease_next(book, &action)) {
		o.first = o.count++ ? o.first : action;
		o.last = action;
		o.revokes += action.kind == LEASE_REVOKE;
		o.keeps += action.kind == LEASE_KEEP;
		o.takens += action.kind == LEASE_TAKEN;
		o.clears += action.kind == LEASE_CLEAR;
		o.pings += action.kind == LEASE_PING;
		o.returned += action.kind == LEASE_RETURNED;
		o.denied += action.kind == LEASE_DENY;
		o.grants += action.kind == LEASE_GRANT;
		o.prepares += action.kind == LEASE_PREPARE;
		o.abandons += action.kind == LEASE_ABANDON;
	}
	return o;
}

static void book_open(void)
{
	if (lease_open(&limits, &book) < 0)
		abort();
}

/* Begins a session. Each letter is a client. */
static uint32_t come(uint64_t now, char client)
{
	uint8_t id[WIRE_ID_SIZE] = {(uint8_t)client}, key[AUTH_KEY_SIZE] = {(uint8_t)client};
	uint32_t session;

	if (lease_session_begin(book, now, id, key, 100 * SECOND, &session))
		abort();
	settle();
	return session;
}

/* Leases a slab. Returns its name. */
static uint64_t lease(uint32_t session)
{
	struct outcome o;

	lease_request(book, session, 1);
	o = settle();
	if (o.last.kind != LEASE_PREPARE)
		abort();
	lease_prepared(book, o.last.slab, LEASE_READY);
	o = settle();
	if (o.last.kind != LEASE_GRANT)
		abort();
	return o.last.name;
}

/* Opens a book in which one client leases all slabs. Returns the client's session. */
static uint32_t come_and_lease_all(uint64_t ret_names[SLABS])
{
	uint32_t session;

	book_open();
	session = come(0, 'a');
	for (unsigned i = 0; i < SLABS; i++)
		ret_names[i] = lease(session);
	return session;
}

static struct wire_capacity capacity(void)
{
	struct wire_capacity c;

	lease_capacity(book, &c);
	return c;
}

static struct outcome target(uint64_t now, uint32_t slabs)
{
	lease_target(book, now, slabs, true);
	return settle();
}

static struct outcome expire(uint64_t now)
{
	lease_expire(book, now);
	return settle();
}

static struct outcome drain(uint64_t now, enum wire_drain what, uint64_t within)
{
	lease_drain(book, now, what, within);
	return settle();
}

static void clients_see_that_a_full_donor_clears_slabs(void)
{
	uint64_t names[SLABS];
	struct outcome o;
	uint32_t a;

	a = come_and_lease_all(names);
	ok(capacity().state == WIRE_STATE_LENDING, "a donor whose slabs are all leased is lending");
	lease_release(book, a, 2, names[0]);
	o = settle();
	ok(o.clears == 1 && capacity().state == WIRE_STATE_CLEARING && capacity().leased == (SLABS - 1) * MIB,
	   "a donor without a free slab that clears one is clearing");
	lease_cleared(book, o.last.slab);
	settle();
	ok(capacity().state == WIRE_STATE_LENDING && capacity().leased == (SLABS - 1) * MIB,
	   "a donor with a cleared slab is lending");
	lease_release(book, a, 3, names[1]);
	ok(settle().clears == 1 && capacity().state == WIRE_STATE_LENDING,
	   "a donor with a free slab is lending while it clears another");
	ok(target(SECOND, 0).count && capacity().state == WIRE_STATE_SHRINKING,
	   "a donor that may not lend a cleared slab again is not clearing");
	lease_close(book);
}

static void a_recalled_slab_may_be_released_in_time(void)
{
	struct outcome o;
	uint64_t name;
	uint32_t a;

	book_open();
	a = come(0, 'a');
	name = lease(a);
	o = target(SECOND, SLABS);
	ok(!o.count && capacity().donated == SLABS * MIB, "a target of all slabs recalls none");
	ok(capacity().state == WIRE_STATE_SHRINKING, "a target under pressure shows clients the state shrinking");
	o = target(SECOND, 0);
	ok(o.count == 1 && o.first.kind == LEASE_REVOKE && o.first.session == a && o.first.name == name &&
	       o.first.until == 9 * SECOND,
	   "a target of 0 recalls the slab, with the client's deadline at 8/10 of the time");
	ok(capacity().donated == MIB && capacity().leased == MIB,
	   "the donated memory that clients are told of shrinks to what is leased");
	ok(lease_deadline(book) <= 10 * SECOND, "a recall sets a deadline");
	ok(!target(2 * SECOND, 0).count, "a recall is told once");
	lease_request(book, a, 2);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_FULL, "a LEASE is denied as full after a target of 0");
	ok(!expire(10 * SECOND - 1).clears, "a recalled slab is not taken before 9/10 of the time");
	lease_release(book, a, 3, name);
	o = settle();
	ok(o.clears == 1, "a recalled slab that is released in time is cleared");
	lease_cleared(book, o.last.slab);
	o = settle();
	ok(o.returned == 1 && o.last.request == 3 && !capacity().leased && !capacity().donated,
	   "the RELEASE of a recalled slab is answered");
	ok(!expire(20 * SECOND).clears, "a recalled slab that was released is not taken later");
	target(20 * SECOND, 1);
	ok(lease(a) != 0, "a slab is leased again after the target has risen");
	lease_close(book);
}

static void a_recalled_slab_is_taken_at_its_deadline(void)
{
	struct outcome o;
	uint64_t name;
	uint32_t a;

	book_open();
	a = come(0, 'a');
	name = lease(a);
	target(0, 0);
	o = expire(9 * SECOND);
	ok(o.count == 2 && o.first.kind == LEASE_TAKEN && o.first.name == name && o.last.kind == LEASE_CLEAR,
	   "a recalled slab is taken after 9/10 of the time, and its client is told first");
	lease_release(book, a, 3, name);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_TAKEN, "a RELEASE of a taken slab is denied");
	lease_claim(book, a, 4, name);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_TAKEN, "a claim of a taken slab is denied");
	lease_claim(book, a, 4, name + (UINT64_C(1) << 32));
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_MALFORMED,
	   "a claim of a name that never existed is denied as malformed");
	lease_cleared(book, (uint32_t)name);
	ok(!settle().count && !capacity().leased, "a taken slab is free once it is cleared, without an answer");
	target(10 * SECOND, 1);
	ok(lease(a) != name, "a taken slab is leased again under another name");
	lease_claim(book, a, 4, name);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_TAKEN, "a claim of a taken slab by its old name stays denied");
	lease_close(book);
}

static void a_returning_client_learns_of_recalls(void)
{
	struct outcome o;
	uint64_t one, two;
	uint32_t a;

	book_open();
	a = come(0, 'a');
	one = lease(a);
	two = lease(a);
	lease_session_vanished(book, SECOND, a);
	settle();
	ok(!target(SECOND, 1).count, "a vanished client is not told of a recall");
	a = come(5 * SECOND, 'a');
	lease_claim(book, a, 1, one);
	o = settle();
	ok(o.first.kind == LEASE_CONFIRM && o.last.kind == LEASE_REVOKE && o.last.until == 9 * SECOND,
	   "a returned client's claim is confirmed, and it is told of the recall");
	lease_claim(book, a, 2, two);
	o = settle();
	ok(o.count == 1 && o.first.kind == LEASE_CONFIRM, "a claim of a slab that is not recalled is only confirmed");
	lease_claimed(book, a);
	ok(!settle().count, "claimed slabs stay leased at CLAIMED, recalled or not");
	lease_session_vanished(book, 6 * SECOND, a);
	settle();
	o = expire(10 * SECOND);
	ok(o.count == 1 && o.first.kind == LEASE_CLEAR && o.first.slab == (uint32_t)one,
	   "a recalled slab is taken at its deadline even while its client is away");
	lease_cleared(book, (uint32_t)one);
	a = come(11 * SECOND, 'a');
	lease_claim(book, a, 1, one);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_TAKEN, "a claim of a slab that was taken meanwhile is denied");
	lease_claim(book, a, 2, two);
	ok(settle().first.kind == LEASE_CONFIRM, "a claim of a slab that was not taken is confirmed");
	target(12 * SECOND, 0);
	lease_session_vanished(book, 13 * SECOND, a);
	settle();
	a = come(14 * SECOND, 'a');
	o = expire(22 * SECOND);
	ok(o.clears == 1 && !o.takens, "a slab taken before its returned client claims it causes no notice");
	lease_claim(book, a, 1, two);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_TAKEN,
	   "a returned client learns of a taken slab by the answer to its claim");
	lease_close(book);
}

static void slabs_are_recalled_in_the_order_of_their_cost(void)
{
	uint64_t names[5];
	struct outcome o;
	uint32_t a, b;

	book_open();
	a = come(0, 'a');
	b = come(0, 'b');
	names[0] = lease(b);
	names[1] = lease(a);
	names[2] = lease(a);
	names[3] = lease(a);
	lease_request(book, a, 9);
	names[4] = settle().last.slab;
	lease_warm(book, a, names[1], 100);
	lease_warm(book, a, names[3], 1);
	lease_warm(book, b, names[2], 1000); /* the slab is a's, so b's report must not count */
	lease_session_vanished(book, 0, b);
	settle();
	o = target(SECOND, 4);
	ok(o.count == 1 && o.last.kind == LEASE_ABANDON && o.last.slab == names[4],
	   "a slab in preparation is given up first");
	ok(!target(SECOND, 4).count, "a slab in preparation is given up only once");
	lease_prepared(book, (uint32_t)names[4], LEASE_READY);
	o = settle();
	ok(o.denied == 1 && o.clears == 1 && !o.grants,
	   "the request for a slab that was given up is denied, and the slab is cleared if it is ready");
	lease_cleared(book, (uint32_t)names[4]);
	o = target(SECOND, 3);
	ok(o.revokes == 1 && o.last.name == names[2], "the least warm of the leased slabs is recalled first");
	o = target(SECOND, 2);
	ok(o.revokes == 1 && o.last.name == names[3], "the next least warm slab is recalled next");
	o = target(SECOND, 1);
	ok(o.revokes == 1 && o.last.name == names[1],
	   "the warmest slab of an active client is recalled after its colder ones");
	target(SECOND, 0);
	ok(book->slabs[(uint32_t)names[0]].state == LEASE_SLAB_REVOKING,
	   "the slab of a vanished client is recalled last");
	lease_close(book);

	book_open();
	a = come(0, 'a');
	names[0] = lease(a);
	names[1] = lease(a);
	ok(target(SECOND, 1).last.name == names[0],
	   "the slab leased for longer is recalled first of two equally warm ones");
	lease_close(book);
}

static void a_client_gets_few_notices_between_its_answers(void)
{
	uint64_t names[SLABS];
	struct outcome o;
	uint32_t a;

	a = come_and_lease_all(names);
	o = target(0, 0);
	ok(o.revokes == LEASE_NOTICES && o.pings == 1 && o.last.kind == LEASE_PING,
	   "a client gets LEASE_NOTICES notices, and then a PING");
	ok(!target(0, 0).count, "a client gets no more notices before it answers");
	lease_session_heard(book, SECOND, a);
	ok(settle().revokes == LEASE_NOTICES, "a client that answers gets LEASE_NOTICES more notices");
	lease_session_heard(book, SECOND, a);
	o = settle();
	ok(o.revokes == SLABS - 2 * LEASE_NOTICES && !o.pings,
	   "a client that answers again gets the rest of the notices");
	lease_session_heard(book, SECOND, a);
	ok(!settle().count, "a client gets each notice once");
	o = expire(9 * SECOND);
	ok(o.clears == SLABS && o.takens == LEASE_NOTICES,
	   "all recalled slabs are taken at once, and LEASE_NOTICES of them are told");
	for (unsigned i = 0; i < SLABS; i++)
		lease_cleared(book, (uint32_t)names[i]);
	ok(!settle().count && lease_in_use(book) == SLABS - LEASE_NOTICES,
	   "a taken slab stays in use until its client is told");
	lease_session_heard(book, 9 * SECOND, a);
	lease_session_vanished(book, 9 * SECOND, a);
	o = settle();
	ok(o.takens == LEASE_NOTICES && !lease_in_use(book), "a taken slab is free once its client has vanished");
	lease_close(book);

	/* The client's last message lets the book send more notices. The session has ended before they are sent. */
	a = come_and_lease_all(names);
	target(0, 0);
	lease_session_heard(book, SECOND, a);
	lease_session_bye(book, a);
	lease_session_said(book, SECOND, a);
	o = settle();
	ok(o.revokes == LEASE_NOTICES && o.clears == SLABS && o.last.kind == LEASE_FORGET,
	   "BYE with notices on their way clears all slabs and ends the session");
	lease_close(book);
}

static void a_drain_recalls_all_slabs(void)
{
	struct lease_draining draining;
	struct outcome o;
	uint64_t one;
	uint32_t a, operator;

	book_open();
	a = come(0, 'a');
	operator= come(0, 'o');
	one = lease(a);
	lease(a);
	o = drain(0, WIRE_DRAIN_WAIT, 0);
	ok(o.revokes == 2 && o.last.until == LEASE_NEVER, "a drain recalls all slabs without a deadline");
	ok(capacity().state == WIRE_STATE_DRAINING && capacity().donated == 2 * MIB,
	   "a draining donor tells clients that it has no free memory");
	lease_request(book, a, 2);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_DRAINING, "a LEASE is denied as draining during a drain");
	lease_drain_status(book, &draining);
	ok(draining.slabs == 2 && draining.holders == 1 && draining.until == LEASE_NEVER,
	   "the status of a drain shows the slabs and clients that are left");
	ok(!expire(99 * SECOND / 2).clears, "a drain without a deadline takes no slab");
	lease_release(book, a, 3, one);
	lease_cleared(book, settle().last.slab);
	o = drain(50 * SECOND, WIRE_DRAIN_FORCE, 20 * SECOND);
	ok(o.revokes == 1 && o.last.until == 66 * SECOND,
	   "a forced drain recalls slabs with a deadline at 8/10 of its time");
	lease_drain_status(book, &draining);
	ok(draining.slabs == 1 && draining.until == 68 * SECOND,
	   "the status of a forced drain shows when the last slab is taken");
	o = drain(51 * SECOND, WIRE_DRAIN_FORCE, 40 * SECOND);
	lease_drain_status(book, &draining);
	ok(!o.revokes && draining.until == 68 * SECOND,
	   "a forced drain with a later deadline does not put off the earlier one");
	o = drain(52 * SECOND, WIRE_DRAIN_WAIT, 0);
	ok(o.revokes == 1 && o.last.until == LEASE_NEVER, "a drain that waits lifts the deadline of a forced drain");
	o = drain(53 * SECOND, WIRE_DRAIN_END, 0);
	ok(o.keeps == 1 && capacity().donated == SLABS * MIB && capacity().state == WIRE_STATE_LENDING,
	   "the end of a drain lets clients keep the slabs that are left");
	ok(lease(a) != 0, "a slab is leased again after the end of a drain");
	drain(54 * SECOND, WIRE_DRAIN_FORCE, 10 * SECOND);
	lease_session_heard(book, 60 * SECOND, a);
	lease_session_heard(book, 60 * SECOND, operator);
	o = expire(63 * SECOND);
	ok(o.takens == 2 && o.clears == 2, "a forced drain takes slabs at its deadline");
	lease_close(book);

	book_open();
	a = come(0, 'a');
	lease_request(book, a, 1);
	lease_request(book, a, 2);
	settle();
	o = drain(0, WIRE_DRAIN_WAIT, 0);
	ok(o.count == 2 && o.abandons == 2, "a drain abandons the slabs in preparation");
	ok(!drain(0, WIRE_DRAIN_FORCE, SECOND).count, "a drain abandons a slab in preparation only once");
	lease_prepared(book, 0, LEASE_NO_MEMORY);
	lease_prepared(book, 1, LEASE_NO_MEMORY);
	o = settle();
	ok(o.count == 2 && o.denied == 2 && o.last.reason == WIRE_REASON_DRAINING && !lease_in_use(book),
	   "an abandoned slab without memory is denied and not cleared");
	lease_close(book);
}

/* Recalls for the machine's memory and recalls for a drain are independent of each other. */
static void recalls_for_memory_and_for_a_drain_are_independent(void)
{
	struct outcome o;
	uint32_t a;

	book_open();
	a = come(0, 'a');
	lease(a);
	lease(a);
	target(0, 1);
	o = drain(SECOND, WIRE_DRAIN_WAIT, 0);
	ok(o.revokes == 1 && o.last.until == LEASE_NEVER,
	   "a drain leaves the deadline of a slab that is recalled for memory");
	o = drain(2 * SECOND, WIRE_DRAIN_END, 0);
	ok(o.keeps == 1, "the end of a drain does not end a recall for lack of memory");
	ok(expire(9 * SECOND).clears == 1, "a slab recalled for memory is taken after a drain has ended");
	drain(10 * SECOND, WIRE_DRAIN_WAIT, 0);
	o = target(10 * SECOND, 0);
	ok(o.revokes == 1 && o.last.until == 18 * SECOND,
	   "a slab gets a deadline when memory becomes short during a drain");
	o = drain(11 * SECOND, WIRE_DRAIN_END, 0);
	ok(!o.keeps && expire(19 * SECOND).clears == 1,
	   "a deadline for lack of memory holds after the drain has ended");
	lease_close(book);
}

int main(void)
{
	clients_see_that_a_full_donor_clears_slabs();
	a_recalled_slab_may_be_released_in_time();
	a_recalled_slab_is_taken_at_its_deadline();
	a_returning_client_learns_of_recalls();
	slabs_are_recalled_in_the_order_of_their_cost();
	a_client_gets_few_notices_between_its_answers();
	a_drain_recalls_all_slabs();
	recalls_for_memory_and_for_a_drain_are_independent();
	return tap_done();
}

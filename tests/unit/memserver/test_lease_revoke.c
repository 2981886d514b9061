/* lease: taking slabs back, each rule in its own test. */
#include "memserver/lease.h"
#include "tests/tap.h"

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

/* What came of an event. */
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

/* One client per letter. */
static uint32_t come(uint64_t now, char client)
{
	uint8_t id[WIRE_ID_SIZE] = {(uint8_t)client}, key[AUTH_KEY_SIZE] = {(uint8_t)client};
	uint32_t session;

	if (lease_session_begin(book, now, id, key, 100 * SECOND, &session))
		abort();
	settle();
	return session;
}

/* Leases a slab; its name. */
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

static void test_release_in_time(void)
{
	struct outcome o;
	uint64_t name;
	uint32_t a;

	book_open();
	a = come(0, 'a');
	name = lease(a);
	o = target(SECOND, SLABS);
	ok(!o.count && capacity().donated == SLABS * MIB, "no less may be lent: nothing happens");
	ok(capacity().state == WIRE_STATE_SHRINKING, "but clients hear that memory is short");
	o = target(SECOND, 0);
	ok(o.count == 1 && o.first.kind == LEASE_REVOKE && o.first.session == a && o.first.name == name &&
	       o.first.until == 9 * SECOND,
	   "nothing may be lent: a revoke, four fifths of ten seconds");
	ok(capacity().donated == MIB && capacity().leased == MIB, "what is told shrinks to what is leased");
	ok(lease_deadline(book) <= 10 * SECOND, "a deadline");
	ok(!target(2 * SECOND, 0).count, "the same again: said once");
	lease_request(book, a, 2);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_FULL, "no more is granted");
	ok(!expire(10 * SECOND - 1).clears, "not taken before");
	lease_release(book, a, 3, name);
	o = settle();
	ok(o.clears == 1, "a release in time is one like any other");
	lease_cleared(book, o.last.slab);
	o = settle();
	ok(o.returned == 1 && o.last.request == 3 && !capacity().leased && !capacity().donated, "and answered");
	ok(!expire(20 * SECOND).clears, "nothing is left to take");
	target(20 * SECOND, 1);
	ok(lease(a) != 0, "one may be lent again, and is");
	lease_close(book);
}

static void test_taken(void)
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
	   "taken after nine tenths, and the client told first");
	lease_release(book, a, 3, name);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_TAKEN, "a release that comes too late is denied");
	lease_claim(book, a, 4, name);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_TAKEN, "so is a claim");
	lease_claim(book, a, 4, name + (UINT64_C(1) << 32));
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_MALFORMED, "other than of a name there never was");
	lease_cleared(book, (uint32_t)name);
	ok(!settle().count && !capacity().leased, "back, and no answer to nothing");
	target(10 * SECOND, 1);
	ok(lease(a) != name, "lent again under another name");
	lease_claim(book, a, 4, name);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_TAKEN, "the old name stays dead");
	lease_close(book);
}

static void test_comes_back(void)
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
	ok(!target(SECOND, 1).count, "a client that vanished is not told");
	a = come(5 * SECOND, 'a');
	lease_claim(book, a, 1, one);
	o = settle();
	ok(o.first.kind == LEASE_CONFIRM && o.last.kind == LEASE_REVOKE && o.last.until == 9 * SECOND,
	   "when it comes back its claim is confirmed, and the revoke said");
	lease_claim(book, a, 2, two);
	o = settle();
	ok(o.count == 1 && o.first.kind == LEASE_CONFIRM, "of a slab that may stay only confirmed");
	lease_claimed(book, a);
	ok(!settle().count, "both are its own still");
	lease_session_vanished(book, 6 * SECOND, a);
	settle();
	o = expire(10 * SECOND);
	ok(o.count == 1 && o.first.kind == LEASE_CLEAR && o.first.slab == (uint32_t)one,
	   "past the deadline it is taken, also while its client is away");
	lease_cleared(book, (uint32_t)one);
	a = come(11 * SECOND, 'a');
	lease_claim(book, a, 1, one);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_TAKEN, "then its claim is denied");
	lease_claim(book, a, 2, two);
	ok(settle().first.kind == LEASE_CONFIRM, "and the other confirmed");
	target(12 * SECOND, 0);
	lease_session_vanished(book, 13 * SECOND, a);
	settle();
	a = come(14 * SECOND, 'a');
	o = expire(22 * SECOND);
	ok(o.clears == 1 && !o.takens, "taken before its client, which is back, has claimed it: it is not told");
	lease_claim(book, a, 1, two);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_TAKEN, "but by the answer to its claim");
	lease_close(book);
}

static void test_which(void)
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
	lease_warm(book, b, names[2], 1000); /* not its own */
	lease_session_vanished(book, 0, b);
	settle();
	o = target(SECOND, 4);
	ok(o.count == 1 && o.last.kind == LEASE_ABANDON && o.last.slab == names[4], "first what is being prepared,");
	ok(!target(SECOND, 4).count, "which is said once,");
	lease_prepared(book, (uint32_t)names[4], LEASE_READY);
	o = settle();
	ok(o.denied == 1 && o.clears == 1 && !o.grants, "and denied, and cleared where it was there already;");
	lease_cleared(book, (uint32_t)names[4]);
	o = target(SECOND, 3);
	ok(o.revokes == 1 && o.last.name == names[2], "then the least warm that is leased;");
	o = target(SECOND, 2);
	ok(o.revokes == 1 && o.last.name == names[3], "then the next;");
	o = target(SECOND, 1);
	ok(o.revokes == 1 && o.last.name == names[1], "however warm,");
	target(SECOND, 0);
	ok(book->slabs[(uint32_t)names[0]].state == LEASE_SLAB_REVOKING, "before those that nobody is there to move");
	lease_close(book);

	book_open();
	a = come(0, 'a');
	names[0] = lease(a);
	names[1] = lease(a);
	ok(target(SECOND, 1).last.name == names[0], "of two as warm the one leased for longer");
	lease_close(book);
}

static void test_notices(void)
{
	uint64_t names[SLABS];
	struct outcome o;
	uint32_t a;

	book_open();
	a = come(0, 'a');
	for (unsigned i = 0; i < SLABS; i++)
		names[i] = lease(a);
	o = target(0, 0);
	ok(o.revokes == LEASE_NOTICES && o.pings == 1 && o.last.kind == LEASE_PING,
	   "a client is told of so many slabs, and asked for a word");
	ok(!target(0, 0).count, "not of more before it answers");
	lease_session_heard(book, SECOND, a);
	ok(settle().revokes == LEASE_NOTICES, "then of as many");
	lease_session_heard(book, SECOND, a);
	o = settle();
	ok(o.revokes == SLABS - 2 * LEASE_NOTICES && !o.pings, "and of the rest");
	lease_session_heard(book, SECOND, a);
	ok(!settle().count, "once each");
	o = expire(9 * SECOND);
	ok(o.clears == SLABS && o.takens == LEASE_NOTICES, "taken are all at once, told of so many");
	for (unsigned i = 0; i < SLABS; i++)
		lease_cleared(book, (uint32_t)names[i]);
	ok(!settle().count && lease_in_use(book) == SLABS - LEASE_NOTICES, "the others wait until their client knows");
	lease_session_heard(book, 9 * SECOND, a);
	lease_session_vanished(book, 9 * SECOND, a);
	o = settle();
	ok(o.takens == LEASE_NOTICES && !lease_in_use(book), "or is gone");
	lease_close(book);

	/* As with its last words: it is heard, and so told of more, and has ended before that is said. */
	book_open();
	a = come(0, 'a');
	for (unsigned i = 0; i < SLABS; i++)
		lease(a);
	target(0, 0);
	lease_session_heard(book, SECOND, a);
	lease_session_bye(book, a);
	lease_session_said(book, SECOND, a);
	o = settle();
	ok(o.revokes == LEASE_NOTICES && o.clears == SLABS && o.last.kind == LEASE_FORGET,
	   "or says goodbye with notices on their way");
	lease_close(book);
}

static void test_drain(void)
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
	ok(o.revokes == 2 && o.last.until == LEASE_NEVER, "drained: all is revoked, without a deadline");
	ok(capacity().state == WIRE_STATE_DRAINING && capacity().donated == 2 * MIB, "and nothing more is there");
	lease_request(book, a, 2);
	o = settle();
	ok(o.denied == 1 && o.last.reason == WIRE_REASON_DRAINING, "nothing is granted, and why");
	lease_drain_status(book, &draining);
	ok(draining.slabs == 2 && draining.holders == 1 && draining.until == LEASE_NEVER, "two slabs of one client");
	ok(!expire(99 * SECOND / 2).clears, "nothing is taken, however long");
	lease_release(book, a, 3, one);
	lease_cleared(book, settle().last.slab);
	o = drain(50 * SECOND, WIRE_DRAIN_FORCE, 20 * SECOND);
	ok(o.revokes == 1 && o.last.until == 66 * SECOND, "by force: with a deadline");
	lease_drain_status(book, &draining);
	ok(draining.slabs == 1 && draining.until == 68 * SECOND, "when it is empty is known");
	o = drain(51 * SECOND, WIRE_DRAIN_FORCE, 40 * SECOND);
	lease_drain_status(book, &draining);
	ok(!o.revokes && draining.until == 68 * SECOND, "a later deadline does not put it off");
	o = drain(52 * SECOND, WIRE_DRAIN_WAIT, 0);
	ok(o.revokes == 1 && o.last.until == LEASE_NEVER, "waiting again lifts it");
	o = drain(53 * SECOND, WIRE_DRAIN_END, 0);
	ok(o.keeps == 1 && capacity().donated == SLABS * MIB && capacity().state == WIRE_STATE_LENDING,
	   "the end: what is left may stay");
	ok(lease(a) != 0, "and more is lent");
	drain(54 * SECOND, WIRE_DRAIN_FORCE, 10 * SECOND);
	lease_session_heard(book, 60 * SECOND, a);
	lease_session_heard(book, 60 * SECOND, operator);
	o = expire(63 * SECOND);
	ok(o.takens == 2 && o.clears == 2, "by force: taken");
	lease_close(book);

	book_open();
	a = come(0, 'a');
	lease_request(book, a, 1);
	lease_request(book, a, 2);
	settle();
	o = drain(0, WIRE_DRAIN_WAIT, 0);
	ok(o.count == 2 && o.abandons == 2, "what is being prepared is abandoned");
	ok(!drain(0, WIRE_DRAIN_FORCE, SECOND).count, "once");
	lease_prepared(book, 0, LEASE_NO_MEMORY);
	lease_prepared(book, 1, LEASE_NO_MEMORY);
	o = settle();
	ok(o.count == 2 && o.denied == 2 && o.last.reason == WIRE_REASON_DRAINING && !lease_in_use(book),
	   "and denied, with nothing to be cleared");
	lease_close(book);
}

/* The machine's need and the operator's wish do not know of each other. */
static void test_both(void)
{
	struct outcome o;
	uint32_t a;

	book_open();
	a = come(0, 'a');
	lease(a);
	lease(a);
	target(0, 1);
	o = drain(SECOND, WIRE_DRAIN_WAIT, 0);
	ok(o.revokes == 1 && o.last.until == LEASE_NEVER, "a drain leaves the deadline of what memory is short for");
	o = drain(2 * SECOND, WIRE_DRAIN_END, 0);
	ok(o.keeps == 1, "and so does its end");
	ok(expire(9 * SECOND).clears == 1, "that one is taken");
	drain(10 * SECOND, WIRE_DRAIN_WAIT, 0);
	o = target(10 * SECOND, 0);
	ok(o.revokes == 1 && o.last.until == 18 * SECOND, "memory gets short while draining: there is a deadline");
	o = drain(11 * SECOND, WIRE_DRAIN_END, 0);
	ok(!o.keeps && expire(19 * SECOND).clears == 1, "that holds when the drain ends");
	lease_close(book);
}

int main(void)
{
	test_release_in_time();
	test_taken();
	test_comes_back();
	test_which();
	test_notices();
	test_drain();
	test_both();
	return tap_done();
}

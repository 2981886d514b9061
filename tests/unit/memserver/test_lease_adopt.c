/* lease_adopt: a donor's next program takes over the leases of the last one. */
#include "memserver/lease.h"
#include "tests/lib/tap.h"
#include "tests/unit/memserver/book.h"

/* Adopts a session that the last program had with @client. Its grace time ends in @left. */
static uint32_t adopt(struct lease_book *book, uint64_t now, char client, uint64_t left)
{
	uint8_t id[WIRE_ID_SIZE];

	memset(id, client, sizeof id);
	return lease_adopt_session(book, now, id, "alice", left);
}

static void adopted_leases_wait_for_their_clients(void)
{
	struct lease_book *book = book_open();
	const struct lease_slab held = {.generation = 7, .order = 40, .warmth = 3}, unused = {.generation = 9};
	struct lease_slab mine = held, free = unused;
	struct lease_action action;
	uint32_t session, other;

	session = mine.session = adopt(book, SECOND, 'a', 4 * SECOND);
	free.session = LEASE_NO_SESSION;
	lease_adopt_slab(book, 2, &mine);
	lease_adopt_slab(book, 3, &free);
	lease_adopted(book, 9);
	ok(lease_in_use(book) == 1 && quiet(book), "an adopted slab is in use, and adopting causes no action");
	ok(lease_deadline(book) <= 5 * SECOND, "the book's deadline allows for the end of an adopted session");
	other = come(book, 2 * SECOND, 'b');
	lease_claim(book, other, 1, UINT64_C(7) << 32 | 2);
	ok(next_is(book, LEASE_DENY, &action), "another client cannot claim an adopted slab");
	ok(come(book, 2 * SECOND, 'a') == session, "a client that returns gets its adopted session");
	lease_claim(book, session, 2, UINT64_C(7) << 32 | 2);
	ok(next_is(book, LEASE_CONFIRM, &action) && action.slab == 2 && action.session == session,
	   "the client claims its adopted slab by its old name");
	lease_request(book, session, 3);
	ok(next_is(book, LEASE_PREPARE, &action) && action.slab != 2, "a new lease gets a slab that is free");
	lease_close(book);
}

static void names_of_ended_leases_stay_invalid_in_the_next_book(void)
{
	struct lease_book *book = book_open();
	const struct lease_slab unused = {.generation = 9, .session = LEASE_NO_SESSION};
	struct lease_action action = {0};
	uint32_t session;

	for (uint32_t i = 0; i < SLABS; i++)
		lease_adopt_slab(book, i, &unused);
	lease_adopted(book, 9);
	session = come(book, SECOND, 'a');
	lease_claim(book, session, 1, UINT64_C(9) << 32);
	ok(next_is(book, LEASE_DENY, &action) && action.reason == WIRE_REASON_TAKEN,
	   "the name of a lease that ended in the last program is denied as taken");
	lease_request(book, session, 2);
	lease_next(book, &action);
	lease_prepared(book, action.slab, LEASE_READY);
	ok(next_is(book, LEASE_GRANT, &action) && action.name >> 32 == 10, "the next lease of the slab has a new name");
	lease_release(book, session, 3, action.name);
	lease_claim(book, session, 4, UINT64_C(5) << 32 | SLABS);
	while (lease_next(book, &action) && action.kind != LEASE_DENY)
		;
	ok(action.reason == WIRE_REASON_TAKEN, "a slab of the last program that this book lacks is denied as taken");
	lease_close(book);
}

static void a_slab_that_appears_again_has_new_names(void)
{
	struct lease_book *book = book_open();
	struct lease_action action = {0};
	uint32_t session;

	/* A program before the last one had more slabs, with generations up to 40. */
	lease_adopted(book, 40);
	session = come(book, SECOND, 'a');
	lease_request(book, session, 2);
	lease_next(book, &action);
	lease_prepared(book, action.slab, LEASE_READY);
	ok(next_is(book, LEASE_GRANT, &action) && action.name >> 32 == 41,
	   "a slab that appears again has a name that no slab has had");
	lease_close(book);
}

static void sessions_wait_for_an_upgrade_without_a_grace_time(void)
{
	struct lease_book *book = book_open();
	uint32_t session = LEASE_NO_SESSION;
	struct lease_action action;

	begin(book, SECOND, 'a', 0, &session);
	lease_request(book, session, 1);
	lease_next(book, &action);
	lease_prepared(book, action.slab, LEASE_READY);
	drain(book);
	lease_sessions_wait(book, 3 * SECOND);
	lease_session_vanished(book, 2 * SECOND, session);
	drain(book);
	lease_expire(book, 4 * SECOND);
	ok(quiet(book) && lease_in_use(book) == 1, "leases without a grace time wait while the donor is upgraded");
	lease_close(book);
}

static void an_adopted_session_whose_client_stays_away_ends(void)
{
	struct lease_book *book = book_open();
	struct lease_slab mine = {.generation = 1};
	struct lease_action action;

	mine.session = adopt(book, SECOND, 'a', 4 * SECOND);
	lease_adopt_slab(book, 0, &mine);
	lease_adopted(book, 9);
	lease_expire(book, 4 * SECOND);
	ok(quiet(book), "an adopted session lasts for the time that its client had left");
	lease_expire(book, 5 * SECOND);
	ok(next_is(book, LEASE_CLEAR, &action) && action.slab == 0 && next_is(book, LEASE_FORGET, &action),
	   "an adopted session ends after that time, and its slab is cleared");
	lease_close(book);
}

static void a_book_adopts_no_more_sessions_than_it_has(void)
{
	struct lease_book *book = book_open();

	for (int client = 'a'; client < 'd'; client++)
		adopt(book, 0, (char)client, SECOND);
	ok(adopt(book, 0, 'd', SECOND) == LEASE_NO_SESSION, "a full book adopts no further session");
	lease_close(book);
}

int main(void)
{
	adopted_leases_wait_for_their_clients();
	names_of_ended_leases_stay_invalid_in_the_next_book();
	a_slab_that_appears_again_has_new_names();
	sessions_wait_for_an_upgrade_without_a_grace_time();
	an_adopted_session_whose_client_stays_away_ends();
	a_book_adopts_no_more_sessions_than_it_has();
	return tap_done();
}

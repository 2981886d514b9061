/* book: a book of leases with four slabs, and the events of its sessions, for tests of memserver/lease.h. */
#ifndef TESTS_UNIT_MEMSERVER_BOOK_H
#define TESTS_UNIT_MEMSERVER_BOOK_H

#include "memserver/lease.h"

#include <stdlib.h>
#include <string.h>

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

/* Begins a session. Each letter is a client. */
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

/* Takes the next action. Returns true if it is of this kind. */
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

#endif

/* lease_adopt: gives a new book the leases of the previous program; see lease.h. */
#include "memserver/lease_book.h"

#include <assert.h>
#include <string.h>

uint32_t lease_adopt_session(struct lease_book *book, uint64_t now, const uint8_t id[WIRE_ID_SIZE], const char *owner,
			     uint64_t left_ns)
{
	uint32_t session = lease_session_unused(book);
	struct lease_session *s;

	if (session == LEASE_NO_SESSION)
		return LEASE_NO_SESSION;
	assert(strlen(owner) < LEASE_OWNER_SIZE);
	s = &book->sessions[session];
	*s = (struct lease_session){.state = LEASE_SESSION_GRACE, .grace_ns = left_ns, .vanished_at = now};
	memcpy(s->id, id, WIRE_ID_SIZE);
	memcpy(s->owner, owner, strlen(owner));
	book->session_count++;
	lease_deadline_at_most(book, now + left_ns);
	return session;
}

void lease_adopt_slab(struct lease_book *book, uint32_t slab, const struct lease_slab *before)
{
	assert(slab < book->limits.slabs && book->slabs[slab].state == LEASE_SLAB_FREE);
	book->slabs[slab].generation = before->generation;
	if (before->session == LEASE_NO_SESSION)
		return;
	book->slabs[slab].state = LEASE_SLAB_LEASED;
	book->slabs[slab].session = before->session;
	book->slabs[slab].warmth = before->warmth;
	book->slabs[slab].order = before->order;
	book->sessions[before->session].slabs++;
	book->shares++;
	if (before->order >= book->grants)
		book->grants = before->order + 1;
}

/*
 * This book may have fewer or more slabs than the previous book. If a slab disappeared in one upgrade and appeared
 * again in another, its names must still be new. So all free slabs continue from the highest generation.
 */
void lease_adopted(struct lease_book *book, uint32_t generation)
{
	book->generation = generation;
	book->free_count = 0;
	for (uint32_t i = book->limits.slabs; i-- > 0;) {
		if (book->slabs[i].state != LEASE_SLAB_FREE)
			continue;
		book->slabs[i].generation = generation;
		book->free_slabs[book->free_count++] = i;
	}
}

/*
 * lease_book: what the parts of lease.h share: lease.c (the book, sessions), lease_slab.c (slabs), lease_revoke.c
 * (taking slabs back). Nobody else includes it. The rules of lease.h hold: pure, one owner thread.
 */
#ifndef MEMSERVER_LEASE_BOOK_H
#define MEMSERVER_LEASE_BOOK_H

#include "memserver/lease.h"

/* lease.c */
void lease_act(struct lease_book *book, struct lease_action action);
void lease_deadline_at_most(struct lease_book *book, uint64_t at);
/* The session, which is in this state. */
struct lease_session *lease_session_in(struct lease_book *book, uint32_t session, enum lease_session_state state);

/* lease_slab.c */
/* The one place that moves a slab's state. */
void lease_slab_move(struct lease_book *book, uint32_t slab, enum lease_slab_state to);
/* The owner has no more say in what becomes of the slab, and hears nothing of it. */
void lease_slab_disown(struct lease_book *book, uint32_t slab);
void lease_slab_clear(struct lease_book *book, uint32_t slab);
/* It is its owner's to use: leased, or revoked and not taken yet. */
bool lease_slab_is_held(const struct lease_slab *slab);
/* Whether its client is to hear what has become of it. */
void lease_tell(struct lease_book *book, uint32_t slab, bool tell);

/* lease_revoke.c */
/* Tells clients what they are to hear, as far as they can take it; LEASE_NO_SESSION: all of them. */
void lease_notices(struct lease_book *book, uint32_t session);
/* Takes what is past its deadline. */
void lease_take(struct lease_book *book, uint64_t now);

#endif

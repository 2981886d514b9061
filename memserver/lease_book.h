/*
 * lease_book: functions that the source files of lease.h share. Only these files include this header:
 *
 * - lease.c: the book and its sessions
 * - lease_slab.c: slabs
 * - lease_revoke.c: taking slabs back
 * - lease_adopt.c: leases of the previous program
 *
 * As lease.h says, the code is pure and one thread owns the book.
 */
#ifndef MEMSERVER_LEASE_BOOK_H
#define MEMSERVER_LEASE_BOOK_H

#include "memserver/lease.h"

/* --- lease.c --------------------------------------------------------------------------------------------- */
/* Queues an action for lease_next(). */
void lease_act(struct lease_book *book, struct lease_action action);
/* Lowers the book's deadline to @at if the deadline is later. */
void lease_deadline_at_most(struct lease_book *book, uint64_t at);
/* Returns the session. Asserts that its state is @state. */
struct lease_session *lease_session_in(struct lease_book *book, uint32_t session, enum lease_session_state state);
/* Returns a session that is free, or LEASE_NO_SESSION. */
uint32_t lease_session_unused(const struct lease_book *book);

/* --- lease_slab.c ---------------------------------------------------------------------------------------- */
/* Changes a slab's state. All changes go through here. */
void lease_slab_move(struct lease_book *book, uint32_t slab, enum lease_slab_state to);
/*
 * Detaches the slab from its session. The client gets no further notice about this slab. If the slab was taken and its
 * memory is released, the slab becomes free.
 */
void lease_slab_disown(struct lease_book *book, uint32_t slab);
/* Moves the slab to "clearing" and queues LEASE_CLEAR. */
void lease_slab_clear(struct lease_book *book, uint32_t slab);
/* Sets `untold` to @tell. If @tell is true, the slab's client is still to be told that the slab is recalled, kept or
   taken. */
void lease_tell(struct lease_book *book, uint32_t slab, bool tell);

/* --- lease_revoke.c -------------------------------------------------------------------------------------- */
/*
 * Queues the notices (recalled, kept, taken) that are due to @session, or to all sessions if @session is
 * LEASE_NO_SESSION. A client gets at most LEASE_NOTICES notices until it sends a message.
 */
void lease_notices(struct lease_book *book, uint32_t session);
/* Takes all recalled slabs that are overdue, and updates the book's deadline for the other recalled slabs. */
void lease_take(struct lease_book *book, uint64_t now);

#endif

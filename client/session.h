/*
 * session: a donor machine (donor.h) on a fabric connection.
 *
 * Theory of operation. An address "auto://HOST:PORT" is tried over RDMA first, for half of the time there is, and then
 * over TCP at the same host and port: unless the donor has refused us, which is final. `uri` is the way taken, for the
 * data connections and for all later sessions.
 *
 * Threads: the one of the fabric. The connection's user pointer is the session.
 */
#ifndef CLIENT_SESSION_H
#define CLIENT_SESSION_H

#include "client/donor.h"
#include "common/uri.h"
#include "farpage/fabric.h"

#define SESSION_URI_MAX 320u
_Static_assert(SESSION_URI_MAX > URI_TEXT_MAX, "any address");

struct session {
	struct donor donor;
	struct fabric_conn *conn;
	struct fabric_conn *left; /* of a suspended session: nobody listens to it; NULL: none */
	struct fabric *fabric;
	struct fabric_domain *domain;
	char uri[SESSION_URI_MAX]; /* without "auto" once it is connected */
	bool automatic;            /* the address left the way to us */
	bool may_fall_back;        /* RDMA is being tried, TCP may be */
	int rdma_status;           /* why it was not RDMA */
	uint64_t fall_back_at;
};

/* Starts connecting; all zero before the first time. What cannot even be started is a machine that is LOST at once. */
void session_start(struct session *session, struct fabric *fabric, struct fabric_domain *domain, const char *uri,
		   const struct donor_config *config, uint64_t now);
/* Passes an event of its connection, or time, to the machine, and sends what it wants said. Events of a connection that
   the session does not have any more are ignored. */
void session_event(struct session *session, const struct fabric_event *event, uint64_t now,
		   struct donor_answer *answer);
void session_tick(struct session *session, uint64_t now, struct donor_answer *answer);
/* When session_tick() is wanted next; UINT64_MAX: never. */
uint64_t session_due(const struct session *session);
/* Sends a request; false: the session is LOST. CLAIMED is one that is not answered. */
bool session_request(struct session *session, const struct wire_message *message, uint64_t now);
/* Sends what is not answered and may get lost. */
void session_tell(struct session *session, const struct wire_message *message);
/* Says goodbye if it can, and ends the connection: the leases end, too. Takes one that was never started but is all
   zero. */
void session_end(struct session *session);
/* Says that its client lives, if anything gets through, and listens to the connection no more: the donor keeps the
   leases for the grace time. The connection itself is left open until a session with the donor is READY again: its end
   might reach the donor without the message, as if this process had ended. */
void session_suspend(struct session *session);
/* Ends its connections without a word, as the end of the process does: the donor keeps the leases for closed_ms. */
void session_drop(struct session *session);

#endif

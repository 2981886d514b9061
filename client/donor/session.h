/*
 * session: runs a donor's state machine (donor.h) over a fabric connection.
 *
 * Theory of operation. session_start() connects, and session_event() and session_tick() pass events and time to the
 * state machine and send its messages. For an address "auto://HOST:PORT", the session tries RDMA first, for half of
 * the connect time. If RDMA fails, the session tries TCP at the same host and port. But if the donor itself has
 * refused us, the session does not try TCP, because the donor would refuse again. When the session is READY, `uri` is
 * the address that worked. The data connections and all later sessions use this address.
 *
 * Threads: the fabric's thread. The connection's user pointer is the session.
 */
#ifndef CLIENT_SESSION_H
#define CLIENT_SESSION_H

#include "client/donor/donor.h"
#include "common/uri.h"
#include "fabric/fabric.h"

#define SESSION_URI_MAX 320u
_Static_assert(SESSION_URI_MAX > URI_TEXT_MAX, "any address");

struct session {
	struct donor donor;
	struct fabric_conn *conn;
	struct fabric_conn *left; /* the connection of a suspended session, whose messages are ignored, or NULL */
	struct fabric *fabric;
	struct fabric_domain *domain;
	char uri[SESSION_URI_MAX]; /* after connecting: the address that worked, never "auto" */
	bool automatic;
	bool may_fall_back; /* RDMA is being tried, and TCP may be tried after it */
	int rdma_status;    /* the error that prevents the use of RDMA */
	uint64_t fall_back_at;
};

/* Starts to connect. @session must be all zero before the first call. If this fails at once, the state machine is
   LOST. */
void session_start(struct session *session, struct fabric *fabric, struct fabric_domain *domain, const char *uri,
		   const struct donor_config *config, uint64_t now);
/* Passes an event to the state machine, and sends the machine's message. Ignores events of connections that the
   session has ended. */
void session_event(struct session *session, const struct fabric_event *event, uint64_t now,
		   struct donor_answer *answer);
/* Passes the time to the state machine, and sends the machine's message. */
void session_tick(struct session *session, uint64_t now, struct donor_answer *answer);
/* Returns when session_tick() must be called next, or UINT64_MAX for never. */
uint64_t session_due(const struct session *session);
/* Sends a request, or CLAIMED, which has no answer. Returns false if the session is not READY, or if sending
   failed. If sending failed, the session is LOST. */
bool session_request(struct session *session, const struct wire_message *message, uint64_t now);
/* Sends a message that has no answer. The message may get lost. */
void session_tell(struct session *session, const struct wire_message *message);
/* Ends the connection, after a goodbye if the session is READY. The donor then ends the leases, too. @session may
   be all zero. */
void session_end(struct session *session);
/* Tells the donor that the client is alive (SUSPEND), and ignores the connection from now on. The donor then keeps
   the leases for the grace time. The connection stays open until the next session with the donor is READY. Without
   SUSPEND, the donor would take the end of the connection for the end of this process, and keep the leases only for
   closed_ms. */
void session_suspend(struct session *session);
/* Ends the session's connections without a message, as if the process had ended. The donor keeps the leases for
   closed_ms. */
void session_drop(struct session *session);

#endif

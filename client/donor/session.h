/*
 * session: runs a donor's state machine (donor.h) over a fabric connection.
 *
 * Theory of operation. An address "auto://HOST:PORT" is first tried over RDMA, for half of the connect time. Then TCP
 * is tried at the same host and port, unless the donor itself has refused us, which is final. `uri` then holds the
 * address that worked, which the data connections and all later sessions use.
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
	struct fabric_conn *left; /* the connection of a suspended session, whose messages nobody reads, or NULL */
	struct fabric *fabric;
	struct fabric_domain *domain;
	char uri[SESSION_URI_MAX]; /* once connected: the address that worked, never "auto" */
	bool automatic;            /* the address was "auto://" */
	bool may_fall_back;        /* RDMA is being tried, and TCP may be tried next */
	int rdma_status;           /* the error for which RDMA is not used */
	uint64_t fall_back_at;
};

/* Starts connecting. @session must be all zero before the first call. If connecting cannot even be started, the state
   machine is LOST at once. */
void session_start(struct session *session, struct fabric *fabric, struct fabric_domain *domain, const char *uri,
		   const struct donor_config *config, uint64_t now);
/* Passes an event of the session's connection to the state machine, and sends the machine's reply. An event of a
   connection that the session no longer has is ignored. */
void session_event(struct session *session, const struct fabric_event *event, uint64_t now,
		   struct donor_answer *answer);
/* Tells the state machine that time has passed, and sends its reply. */
void session_tick(struct session *session, uint64_t now, struct donor_answer *answer);
/* Returns when session_tick() must be called next, or UINT64_MAX for never. */
uint64_t session_due(const struct session *session);
/* Sends a request. Returns false if the session is not READY, or is LOST because sending failed. Also sends CLAIMED,
   which is not answered. */
bool session_request(struct session *session, const struct wire_message *message, uint64_t now);
/* Sends a message that has no answer and may get lost. */
void session_tell(struct session *session, const struct wire_message *message);
/* Says goodbye if the session is READY, and ends the connection. The donor then ends the leases, too. Allowed on a
   session that is all zero. */
void session_end(struct session *session);
/* Tells the donor that the client lives (SUSPEND), and stops listening to the connection. The donor keeps the leases
   for the grace time. The connection stays open until the next session with the donor is READY. If the connection ended
   now, its end might arrive without the message. The donor would then think that this process has ended. */
void session_suspend(struct session *session);
/* Ends the session's connections without a message, as the end of the process does. The donor keeps the leases for
   closed_ms. */
void session_drop(struct session *session);

#endif

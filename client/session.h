/*
 * session: a donor machine (donor.h) on a fabric connection.
 *
 * Threads: the one of the fabric. The connection's user pointer is the session.
 */
#ifndef CLIENT_SESSION_H
#define CLIENT_SESSION_H

#include "client/donor.h"
#include "farpage/fabric.h"

struct session {
	struct donor donor;
	struct fabric_conn *conn;
};

/* Starts connecting. What cannot even be started is a machine that is LOST at once. */
void session_start(struct session *session, struct fabric *fabric, struct fabric_domain *domain, const char *uri,
		   const struct donor_config *config, uint64_t now);
/* Passes an event of its connection, or time, to the machine, and sends what it wants said. */
void session_event(struct session *session, const struct fabric_event *event, uint64_t now,
		   struct donor_answer *answer);
void session_tick(struct session *session, uint64_t now, struct donor_answer *answer);
/* Sends a request; false: the session is LOST. */
bool session_request(struct session *session, const struct wire_message *message, uint64_t now);
/* Says goodbye if it can, and ends the connection. Takes one that was never started but is all zero. */
void session_end(struct session *session);

#endif

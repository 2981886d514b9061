/*
 * connection: one connection of a client, from its connect request to its end.
 *
 * Theory of operation. A connection begins as a handshake (role SESSION), or as a data connection (role ATTACH) if its
 * hello has a good proof. A handshake that succeeds becomes the connection of its session and then carries requests.
 * The donor ends a handshake that has not succeeded by its deadline. A message that is malformed or out of place ends
 * the connection, and the log says why.
 *
 * A handshake is in the donor's list of handshakes, and a data connection in its session's list. A session connection
 * is in no list: the `connection` of its session points to it. The donor's thread owns all connections.
 */
#ifndef MEMSERVER_CONNECTION_H
#define MEMSERVER_CONNECTION_H

#include "common/crowd.h"
#include "memserver/donor.h"
#include "memserver/handshake.h"
#include "wire/channel.h"

/*
 * The most connections at a time that have proved nothing yet. If a further connection arrives, crowd.h decides which
 * connection is ended. Each connection has CONNECTION_HANDSHAKE_NS to prove itself.
 */
#define CONNECTION_HANDSHAKES_MAX CROWD_MAX
#define CONNECTION_HANDSHAKE_NS 5000000000u

enum connection_kind { CONNECTION_HANDSHAKE, CONNECTION_SESSION, CONNECTION_DATA };

struct connection {
	enum connection_kind kind;
	struct donor *donor;
	struct fabric_conn *conn;
	uint32_t session;                /* CONNECTION_SESSION, CONNECTION_DATA */
	uint64_t deadline;               /* CONNECTION_HANDSHAKE */
	struct handshake handshake;      /* CONNECTION_HANDSHAKE */
	struct channel channel;          /* CONNECTION_SESSION; begins when the client has proved itself */
	bool known;                      /* CONNECTION_HANDSHAKE: its hello names a client that has a session here */
	bool deaf;                       /* to be ended: the client does not read its messages, or was given up */
	struct connection *next, **link; /* links of its list, if it is in one */
};

/* Handles one event of a connection or a connect request. */
void connection_event(struct donor *donor, const struct fabric_event *event);

/* Returns true if the private data of a connect request names a client that has a session. For `known` in struct
   fabric_config: @donor is a struct donor. */
bool connection_is_known(void *donor, const void *data, size_t size);

/* Sends a message to a session's client. Does nothing if the session has no connection. */
void connection_send(struct donor *donor, uint32_t session, const struct wire_message *message);

/* Ends the connection at once and frees it. Does not tell the book. Accepts NULL. */
void connection_end(struct connection *connection);

/* Ends handshakes that took too long. */
void connection_expire_handshakes(struct donor *donor, uint64_t now);
/* The session must have a connection. Marks it for connection_end_deaf(), so that the client must reconnect. */
void connection_give_up(struct donor *donor, uint32_t session);
/*
 * Ends the connections of sessions that were given up or whose client does not read its messages. Reports to the book
 * that these clients vanished.
 */
void connection_end_deaf(struct donor *donor);
/* Returns the deadline of the oldest handshake, or UINT64_MAX if there is none. */
uint64_t connection_deadline(const struct donor *donor);

#endif

/*
 * peer: one connection of a client, from its connect request to its end.
 *
 * Theory of operation. A connection begins as a handshake (role SESSION), or as a data connection (role ATTACH) if its
 * hello has a good proof. A handshake that succeeds becomes the connection of its session and then carries requests. A
 * handshake that does not succeed before its deadline is ended. A message that is malformed or out of place ends the
 * connection, and the log says why.
 *
 * Every peer is in one list: the donor's handshakes or its session's data connections. A session connection is its
 * session's `peer` instead. The donor's thread owns all peers.
 */
#ifndef MEMSERVER_PEER_H
#define MEMSERVER_PEER_H

#include "common/channel.h"
#include "common/crowd.h"
#include "memserver/donor.h"
#include "memserver/handshake.h"

/*
 * Most connections at a time that have proved nothing yet, and the time in ns each one gets. If there are more, crowd.h
 * decides which one is ended.
 */
#define PEER_HANDSHAKES_MAX CROWD_MAX
#define PEER_HANDSHAKE_NS 5000000000u

enum peer_kind { PEER_HANDSHAKE, PEER_SESSION, PEER_DATA };

struct peer {
	enum peer_kind kind;
	struct donor *donor;
	struct fabric_conn *conn;
	uint32_t session;           /* PEER_SESSION, PEER_DATA */
	uint64_t deadline;          /* PEER_HANDSHAKE */
	struct handshake handshake; /* PEER_HANDSHAKE */
	struct channel channel;     /* PEER_SESSION; begins when the client has proved itself */
	bool known;                 /* PEER_HANDSHAKE: its hello names a client that has a session here */
	bool deaf;                  /* will be ended: the client does not take messages, or was given up */
	struct peer *next, **link;  /* links of its list */
};

/* Handles one event of a connection or a connect request. */
void peer_event(struct donor *donor, const struct fabric_event *event);

/* Sends a message to a session's client. Does nothing if the session has no connection. */
void peer_send(struct donor *donor, uint32_t session, const struct wire_message *message);

/* Ends the connection at once and frees it. Does not tell the book. Accepts NULL. */
void peer_end(struct peer *peer);

/* Ends handshakes that took too long. */
void peer_expire_handshakes(struct donor *donor, uint64_t now);
/* Marks the session's connection, which exists, for peer_end_deaf(). The client must then reconnect. */
void peer_give_up(struct donor *donor, uint32_t session);
/*
 * Ends the connections of sessions that were given up or whose client does not take messages. Reports to the book that
 * these clients vanished.
 */
void peer_end_deaf(struct donor *donor);
/* Returns the deadline of the oldest handshake, or UINT64_MAX if there is none. */
uint64_t peer_deadline(const struct donor *donor);

#endif

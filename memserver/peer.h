/*
 * peer: one connection of a client, from its request to its end.
 *
 * Theory of operation. A connection begins as a handshake (role SESSION) or, when its hello carries a good proof, as
 * a data connection (role ATTACH). A handshake that ends well becomes the session connection of its session and then
 * carries requests; one that does not within its deadline is ended. Nothing a client sends reaches further than
 * wire_decode() unless it is in its place; otherwise the connection ends and the log says why.
 *
 * Every peer is in one list: the donor's handshakes, or its session's data connections; a session's own connection
 * is the session's `peer`. All of it belongs to the donor's thread.
 */
#ifndef MEMSERVER_PEER_H
#define MEMSERVER_PEER_H

#include "common/channel.h"
#include "common/crowd.h"
#include "memserver/donor.h"
#include "memserver/handshake.h"

/* Connections at a time that have proved nothing yet (which of more makes room: crowd.h), and how long each may take.
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
	struct channel channel;     /* PEER_SESSION; begun when the client has proved itself */
	bool known;                 /* PEER_HANDSHAKE: it names a client that is known here */
	bool deaf;                  /* does not take what is sent to it, or was given up: is about to be ended */
	struct peer *next, **link;  /* in its list */
};

/* One event of a connection, or a request for one. */
void peer_event(struct donor *donor, const struct fabric_event *event);

/* Sends to a session's client, if it has a connection. */
void peer_send(struct donor *donor, uint32_t session, const struct wire_message *message);

/* Ends the connection at once, and frees it. Tells the book nothing. Takes NULL. */
void peer_end(struct peer *peer);

/* Ends handshakes that took too long. */
void peer_expire_handshakes(struct donor *donor, uint64_t now);
/* A session's client has to come again: for peer_end_deaf(). It has a connection. */
void peer_give_up(struct donor *donor, uint32_t session);
/* Ends sessions that were given up, or whose client does not take what is sent to it, and tells the book that it
   vanished. */
void peer_end_deaf(struct donor *donor);
/* When the oldest handshake has to be done; UINT64_MAX: there is none. */
uint64_t peer_deadline(const struct donor *donor);

#endif

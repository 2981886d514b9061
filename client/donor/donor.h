/*
 * donor: one session with one donor, as a state machine without I/O or clock.
 *
 * Theory of operation. The caller (client/donor/session.c over a fabric, or a test) connects to the donor, with the
 * bytes of donor_hello() as private data. Then the caller reports each event: donor_connected(), donor_received(),
 * donor_disconnected(), and donor_tick() as time passes. Each report fills in a struct donor_answer, with at most one
 * message to send and at most one piece of news.
 *
 *     CONNECTING --connected--> GREETED --CHALLENGE--> PROVING --WELCOME--> READY
 *     any state --refused, broken off, broke the rules, too late--> LOST
 *
 * The whole handshake has one deadline. In a READY session the client sends a PING if it has sent nothing for a
 * heartbeat. The session is LOST if the donor is silent for four heartbeats, or if a request is not answered for
 * the timeout. comeback.h then decides if the donor is tried again in another session.
 *
 * A donor's default heartbeat is 200 ms, so the client notices the death of the donor's machine within 0.8 s. A stall
 * of 500 ms never ends a session, because the silence then lasts at most 700 ms.
 */
#ifndef CLIENT_DONOR_H
#define CLIENT_DONOR_H

#include "wire/channel.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum donor_state { DONOR_CONNECTING, DONOR_GREETED, DONOR_PROVING, DONOR_READY, DONOR_LOST };

struct donor_config {
	const uint8_t *key; /* AUTH_KEY_SIZE bytes that outlive the session, or NULL */
	uint8_t id[WIRE_ID_SIZE];
	uint8_t nonce[WIRE_NONCE_SIZE]; /* random, and new for each session */
	uint32_t grace_ms, closed_ms;
	uint64_t connect_ns, timeout_ns;
	struct wire_about about; /* told to the donor; valid on the wire */
};

struct donor {
	struct donor_config config;
	enum donor_state state;
	struct auth_session session;
	uint8_t session_key[AUTH_KEY_SIZE];            /* from PROVING on */
	struct channel channel;                        /* from PROVING on; adds and checks the MAC of every message */
	struct wire_capacity capacity;                 /* the last figures that the donor sent, from READY on */
	uint64_t incarnation, slabs;                   /* as given in WELCOME, from READY on */
	uint32_t grace_ms;                             /* the grace time that the donor granted, from READY on */
	char failure_domain[WIRE_FAILURE_DOMAIN_SIZE]; /* the donor's failure domain, from READY on */
	uint64_t heartbeat_ns;
	uint64_t deadline;      /* when the handshake must be complete */
	uint64_t heard, said;   /* when the last message was received, and when the last was sent */
	bool proved;            /* PROOF was sent, so the donor may have opened a session */
	uint64_t waiting_since; /* when the oldest request was sent, or the last answer was received */
	uint32_t waiting;       /* requests in flight */
	int status;             /* if the session is LOST: -errno */
	uint16_t reason;        /* the reason that the donor gave (enum wire_reason), or 0 for none */
	uint16_t detail;
};

enum donor_news {
	DONOR_NOTHING,
	DONOR_IS_READY,
	DONOR_IS_LOST,  /* the session is LOST, see status and reason: end the connection */
	DONOR_ANSWERED, /* message: GRANTED, DENIED, RELEASED, STATUS_REPLY, DRAINING or HOLDER_REPLY */
	DONOR_RECALLS,  /* message: REVOKE, REVOKED or KEEP of a slab */
};

struct donor_answer {
	enum donor_news news;
	struct wire_message message;
	bool send;
	struct wire_message reply; /* the message to send, if `send` is set */
};

void donor_init(struct donor *donor, const struct donor_config *config, uint64_t now);
/* Writes the private data to connect with. */
void donor_hello(const struct donor *donor, uint8_t bytes[WIRE_HELLO_SIZE]);

void donor_connected(struct donor *donor, uint64_t now);
void donor_received(struct donor *donor, const void *bytes, size_t size, uint64_t now, struct donor_answer *answer);
/* The connection has ended. If the donor rejected the connection, @data is the private data of the reject. */
void donor_disconnected(struct donor *donor, int status, const void *data, size_t size, struct donor_answer *answer);
/* Time has passed. May be called at any time, not only at donor_due(). */
void donor_tick(struct donor *donor, uint64_t now, struct donor_answer *answer);
/* Returns when to call donor_tick() next, or UINT64_MAX for never. */
uint64_t donor_due(const struct donor *donor);
/* Must be called when a LEASE, RELEASE, CLAIM, STATUS, DRAIN or HOLDER was sent to a READY donor. */
void donor_requested(struct donor *donor, uint64_t now);
/* Makes the session LOST with @status, because something outside this state machine failed: name resolution,
   memory, a send. */
void donor_fail(struct donor *donor, int status);

/* Writes to @text why a LOST session is lost, and what to do about it. The text continues a line that begins with
   the donor's name. Returns @text. */
#define DONOR_EXPLAIN_MAX 192
const char *donor_explain(const struct donor *donor, char text[DONOR_EXPLAIN_MAX]);

#endif

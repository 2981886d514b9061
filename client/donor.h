/*
 * donor: one session with one donor, as a state machine without I/O or clock.
 *
 * Theory of operation. The caller (client/session.c over a fabric, or a test) connects with donor_hello() as private
 * data and tells what happens; each event is answered with messages to send and at most one piece of news.
 *
 *     CONNECTING --connected--> GREETED --CHALLENGE--> PROVING --WELCOME--> READY
 *     any of them --refused, broken off, broke the rules, too late--> LOST
 *
 * Time: the handshake as a whole has a deadline. Once ready: silent for a heartbeat, we PING; the donor silent for
 * four, or a request without an answer for the timeout, and the session is lost. Whether the donor is lost with it, or
 * reached again in another session, comeback.h decides. With the donor's default heartbeat of 200 ms a machine's death
 * is noticed within 0.8 s, and a stall of 500 ms is survived wherever it falls between two heartbeats.
 */
#ifndef CLIENT_DONOR_H
#define CLIENT_DONOR_H

#include "common/channel.h"
#include "farpage/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum donor_state { DONOR_CONNECTING, DONOR_GREETED, DONOR_PROVING, DONOR_READY, DONOR_LOST };
const char *donor_state_name(enum donor_state state);

struct donor_config {
	const uint8_t *key; /* AUTH_KEY_SIZE bytes, or NULL; outlives the machine */
	uint8_t id[WIRE_ID_SIZE];
	uint8_t nonce[WIRE_NONCE_SIZE]; /* new for each session */
	uint32_t grace_ms, closed_ms;
	uint64_t connect_ns, timeout_ns;
};

struct donor {
	struct donor_config config;
	enum donor_state state;
	struct auth_session session;
	uint8_t session_key[AUTH_KEY_SIZE]; /* from PROVING on */
	struct channel channel;             /* likewise: what is sent goes through channel_seal() */
	struct wire_capacity capacity;      /* as last heard, from READY on */
	uint64_t incarnation, slabs;        /* WELCOME's, from READY on */
	uint32_t grace_ms;                  /* granted, likewise */
	char domain[WIRE_DOMAIN_SIZE];      /* likewise */
	uint64_t heartbeat_ns;
	uint64_t deadline;      /* of the handshake */
	uint64_t heard, said;   /* when last */
	bool proved;            /* PROOF was said: the donor may have a session of ours */
	uint64_t waiting_since; /* progress was last made on the requests in flight */
	uint32_t waiting;       /* requests in flight */
	int status;             /* once LOST: -errno */
	uint16_t reason;        /* and the donor's own (enum wire_reason), or none */
	uint16_t detail;
};

enum donor_news {
	DONOR_NOTHING,
	DONOR_IS_READY,
	DONOR_IS_LOST,  /* the session is: status, reason; end the connection */
	DONOR_ANSWERED, /* message: GRANTED, DENIED, RELEASED, STATUS_REPLY, DRAINING or HOLDER_REPLY */
	DONOR_RECALLS,  /* message: REVOKE, REVOKED or KEEP of a slab */
};

/* What to do about an event. */
struct donor_answer {
	enum donor_news news;
	struct wire_message message;
	bool send;
	struct wire_message reply; /* to be sent */
};

void donor_init(struct donor *donor, const struct donor_config *config, uint64_t now);
/* The private data to connect with. */
void donor_hello(const struct donor *donor, uint8_t bytes[WIRE_HELLO_SIZE]);

void donor_connected(struct donor *donor, uint64_t now);
void donor_received(struct donor *donor, const void *bytes, size_t size, uint64_t now, struct donor_answer *answer);
/* @data: a reject's private data, if any. */
void donor_disconnected(struct donor *donor, int status, const void *data, size_t size, struct donor_answer *answer);
/* Time has come to donor_due(), or any other. */
void donor_tick(struct donor *donor, uint64_t now, struct donor_answer *answer);
/* When donor_tick() is wanted next; UINT64_MAX: never. */
uint64_t donor_due(const struct donor *donor);
/* LEASE, RELEASE, CLAIM, STATUS, DRAIN or HOLDER is about to be sent to a READY donor. */
void donor_requested(struct donor *donor, uint64_t now);
/* Something fails outside (no name, no memory, a send): LOST with @status. */
void donor_fail(struct donor *donor, int status);

/* Why a LOST donor is lost and what to do about it, for one line: "refuses: wrong key (check --key)". Returns @text. */
#define DONOR_EXPLAIN_MAX 192
const char *donor_explain(const struct donor *donor, char text[DONOR_EXPLAIN_MAX]);

#endif

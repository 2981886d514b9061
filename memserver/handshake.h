/*
 * handshake: the donor's side of how a client proves itself (wire.h tells the whole exchange).
 *
 * Theory of operation. Pure: stepped by the client's hello and its PROOF, it answers with the message to send. The
 * donor's nonce comes from the caller, so that a history replays. One owner thread per handshake.
 *
 *   begin(hello); challenge() -> CHALLENGE; prove(PROOF) -> WELCOME (the mac; the caller adds the rest) or REFUSED
 */
#ifndef MEMSERVER_HANDSHAKE_H
#define MEMSERVER_HANDSHAKE_H

#include "farpage/wire.h"
#include "memserver/keyring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum handshake_state { HANDSHAKE_CHALLENGED, HANDSHAKE_PROVED, HANDSHAKE_REFUSED };

struct handshake {
	enum handshake_state state;
	struct auth_session auth;
	uint8_t session_key[AUTH_KEY_SIZE]; /* once proved */
	char name[KEYRING_NAME_SIZE];       /* once proved: the key's; "": none was needed */
	bool admin;                         /* once proved */
	uint64_t quota;                     /* once proved: the name's, bytes; 0: no limit */
	uint32_t wished_grace_ms;           /* once proved */
	uint32_t wished_closed_ms;          /* once proved */
};

/*
 * What the private data of a connect says. 0, or the wire_reason to reject it with; then *ret_reject is written too,
 * otherwise *ret_hello.
 */
unsigned handshake_hello(const void *data, size_t size, struct wire_hello *ret_hello, struct wire_reject *ret_reject);

/* @hello asks for a session. */
void handshake_begin(struct handshake *handshake, const struct wire_hello *hello,
		     const uint8_t donor_nonce[WIRE_NONCE_SIZE]);
/* The CHALLENGE to send. @keys, here and below: NULL or empty when the donor has none. */
void handshake_challenge(const struct handshake *handshake, const struct keyring *keys,
			 struct wire_message *ret_message);

/*
 * Takes what the client answered. Writes the message to send: 0 and a WELCOME with nothing but the mac in it, or the
 * wire_reason it was refused for and the REFUSED.
 */
unsigned handshake_prove(struct handshake *handshake, const struct keyring *keys, const struct wire_message *message,
			 struct wire_message *ret_message);

/* Whether the hello of a data connection was made by who holds the session key. Says nothing of replays. */
bool handshake_attach_proved(const uint8_t session_key[AUTH_KEY_SIZE], const struct wire_hello *hello);

#endif

/*
 * handshake: the donor's side of the proof of a client's identity. wire.h describes the whole exchange.
 *
 * Theory of operation. The module is pure. It takes the client's hello and PROOF and returns the message to send. The
 * donor's nonce comes from the caller, so that a history can be replayed. One thread owns a handshake.
 *
 *   handshake_begin(hello)
 *   handshake_challenge()    -> CHALLENGE
 *   handshake_prove(PROOF)   -> WELCOME with the mac (the caller adds the rest), or REFUSED
 */
#ifndef MEMSERVER_HANDSHAKE_H
#define MEMSERVER_HANDSHAKE_H

#include "memserver/keyring.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum handshake_state { HANDSHAKE_CHALLENGED, HANDSHAKE_PROVED, HANDSHAKE_REFUSED };

struct handshake {
	enum handshake_state state;
	struct auth_session auth;
	uint8_t session_key[AUTH_KEY_SIZE]; /* once proved */
	char name[KEYRING_NAME_SIZE];       /* once proved: the key's name, or "" if no key was needed */
	bool admin;                         /* once proved */
	uint64_t quota;                     /* once proved: quota of the key's name in bytes, or 0 for no limit */
	uint32_t wished_grace_ms;           /* once proved */
	uint32_t wished_closed_ms;          /* once proved */
	struct wire_about about;            /* once proved: what the client says about itself; it may lie */
};

/*
 * Decodes the private data of a connect request. Returns 0 and writes *ret_hello, or returns the wire_reason of the
 * rejection and writes *ret_reject.
 */
unsigned handshake_hello(const void *data, size_t size, struct wire_hello *ret_hello, struct wire_reject *ret_reject);

/* Begins a handshake for a @hello that asks for a session. */
void handshake_begin(struct handshake *handshake, const struct wire_hello *hello,
		     const uint8_t donor_nonce[WIRE_NONCE_SIZE]);
/* Writes the CHALLENGE to send. Here and below, @keys is NULL or empty if the donor has no key. */
void handshake_challenge(const struct handshake *handshake, const struct keyring *keys,
			 struct wire_message *ret_message);

/*
 * Checks the client's PROOF and writes the message to send. Returns 0 with a WELCOME that contains only the mac, or the
 * wire_reason of the refusal with a REFUSED.
 */
unsigned handshake_prove(struct handshake *handshake, const struct keyring *keys, const struct wire_message *message,
			 struct wire_message *ret_message);

/* Returns true if the holder of the session key made this data connection's hello. Does not detect replays. */
bool handshake_attach_proved(const uint8_t session_key[AUTH_KEY_SIZE], const struct wire_hello *hello);

#endif

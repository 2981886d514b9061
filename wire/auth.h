/*
 * auth: proves that client and donor share a key. The pre-shared key has 32 bytes. Each side proves that it knows the
 * key without sending it. The proofs cover nonces of both sides, so a recording cannot be replayed. The MAC is keyed
 * BLAKE2b (libsodium crypto_generichash).
 *
 * A side without a key uses the all-zero key, so there is one code path. Donors without a key listen on loopback only.
 */
#ifndef WIRE_AUTH_H
#define WIRE_AUTH_H
#include "wire/wire.h"
#include <stdbool.h>
#include <stdint.h>
#define AUTH_KEY_SIZE 32u

/* Creates a key file with a new random key: mode 0600, 64 hex digits and a newline. Returns 0, -EEXIST if the file
   exists (it is left unchanged), or another -errno. */
int auth_key_create(const char *path);
/* Reads a key file. Returns 0, or -errno of opening or reading it. Returns -EPERM if group or others have any
   permission on the file, and -EINVAL if the content is no key. */
int auth_key_load(const char *path, uint8_t ret_key[AUTH_KEY_SIZE]);
/* Does the same as auth_key_load() and logs each error with its remedy. */
int auth_key_load_or_tell(const char *path, uint8_t ret_key[AUTH_KEY_SIZE]);

/* The public inputs of one session's handshake, known to both sides. */
struct auth_session {
	uint8_t client_id[WIRE_ID_SIZE], client_nonce[WIRE_NONCE_SIZE], donor_nonce[WIRE_NONCE_SIZE];
};
/* Compute the client's proof, the donor's proof and the session key. @key has AUTH_KEY_SIZE bytes, or is NULL for no
   key. */
void auth_client_mac(const uint8_t *key, const struct auth_session *session, uint8_t mac[WIRE_MAC_SIZE]);
void auth_donor_mac(const uint8_t *key, const struct auth_session *session, uint8_t mac[WIRE_MAC_SIZE]);
void auth_session_key(const uint8_t *key, const struct auth_session *session, uint8_t session_key[AUTH_KEY_SIZE]);
/* Computes the proof for one data connection. @counter must never repeat under one session key. */
void auth_attach_mac(const uint8_t session_key[AUTH_KEY_SIZE], const uint8_t client_id[WIRE_ID_SIZE], uint64_t counter,
		     uint8_t mac[WIRE_ATTACH_MAC_SIZE]);
/* Computes the MAC of one message of a session. @client is the sender's role. @counter is the number of messages that
   this sender has sent before. */
void auth_message_mac(const uint8_t session_key[AUTH_KEY_SIZE], bool client, uint64_t counter, const void *message,
		      size_t size, uint8_t mac[WIRE_SEAL_SIZE]);
/* Compares two MACs in constant time. Returns true if they are equal. */
bool auth_mac_equal(const uint8_t *a, const uint8_t *b, uint32_t size);
#endif

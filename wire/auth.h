/*
 * auth: computes the proofs of a session. With them, client and donor show each other that they know the same
 * pre-shared key. Also computes the keys derived from that key.
 *
 * Theory of operation. A proof is a MAC under the key, so the key itself is never sent. The MAC covers random numbers
 * (nonces) of both sides. So a recorded proof is useless in another session. A side without a key uses the all-zero
 * key, so that the code is the same. Donors without a key listen on loopback only.
 */
#ifndef WIRE_AUTH_H
#define WIRE_AUTH_H
#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>
#define AUTH_KEY_SIZE 32u

/* Creates a key file with a new random key: mode 0600, 64 hex digits and a newline. Returns 0, -EEXIST if the file
   exists, or another -errno. */
int auth_key_create(const char *path);
/* Reads a key file. Returns 0, or the error of opening or reading the file. Returns -EPERM if group or others have
   any permission on the file, and -EINVAL if the content is not a key. */
int auth_key_load(const char *path, uint8_t ret_key[AUTH_KEY_SIZE]);
/* Does the same as auth_key_load(). On error, logs a line that says what to do. */
int auth_key_load_or_tell(const char *path, uint8_t ret_key[AUTH_KEY_SIZE]);

/* The inputs of a session's proofs, except the key. Both sides know these inputs. */
struct auth_session {
	uint8_t client_id[WIRE_ID_SIZE], client_nonce[WIRE_NONCE_SIZE], donor_nonce[WIRE_NONCE_SIZE];
};
/* Compute the client's proof, the donor's proof and the session key. @key has AUTH_KEY_SIZE bytes, or is NULL if this
   side has no key. */
void auth_client_mac(const uint8_t *key, const struct auth_session *session, uint8_t mac[WIRE_MAC_SIZE]);
void auth_donor_mac(const uint8_t *key, const struct auth_session *session, uint8_t mac[WIRE_MAC_SIZE]);
void auth_session_key(const uint8_t *key, const struct auth_session *session, uint8_t session_key[AUTH_KEY_SIZE]);
/* Computes the proof of one data connection. The caller must use each @counter only once per session key. */
void auth_attach_mac(const uint8_t session_key[AUTH_KEY_SIZE], const uint8_t client_id[WIRE_ID_SIZE], uint64_t counter,
		     uint8_t mac[WIRE_ATTACH_MAC_SIZE]);
/* Computes the MAC of one message of a session. @client is true if the client sends it. @counter is the number of
   messages that the sender has sent before. */
void auth_message_mac(const uint8_t session_key[AUTH_KEY_SIZE], bool client, uint64_t counter, const void *message,
		      size_t size, uint8_t mac[WIRE_SEAL_SIZE]);
/* Returns true if the MACs are equal. Takes the same time for any contents, so that the time tells an attacker
   nothing. */
bool auth_mac_equal(const uint8_t *a, const uint8_t *b, uint32_t size);
#endif

/*
 * auth: who may use a donor. A pre-shared key of 32 bytes; each side proves that it knows it without sending it,
 * over nonces both contributed, so that nothing recorded can be replayed; keyed BLAKE2b (libsodium
 * crypto_generichash). Without a key the all-zero key stands in, so that there is one code path; donors without a
 * key listen on loopback only.
 */
#ifndef COMMON_AUTH_H
#define COMMON_AUTH_H
#include "farpage/wire.h"
#include <stdbool.h>
#include <stdint.h>
#define AUTH_KEY_SIZE 32u

/* Makes a new key file, mode 0600: 64 hex digits and a newline. -EEXIST: it is there already and is left alone. */
int auth_key_create(const char *path);
/*
 * Reads a key file. -EPERM: others than its owner may read it; -EINVAL: not a key; -ENOENT, -EACCES, ...
 */
int auth_key_load(const char *path, uint8_t ret_key[AUTH_KEY_SIZE]);
/* The same; what is wrong, and what to do about it, is logged. */
int auth_key_load_or_tell(const char *path, uint8_t ret_key[AUTH_KEY_SIZE]);

/* What a session's two sides know of each other. key: AUTH_KEY_SIZE bytes, or NULL for none. */
struct auth_session {
	uint8_t client_id[WIRE_ID_SIZE], client_nonce[WIRE_NONCE_SIZE], donor_nonce[WIRE_NONCE_SIZE];
};
void auth_client_mac(const uint8_t *key, const struct auth_session *session, uint8_t mac[WIRE_MAC_SIZE]);
void auth_donor_mac(const uint8_t *key, const struct auth_session *session, uint8_t mac[WIRE_MAC_SIZE]);
void auth_session_key(const uint8_t *key, const struct auth_session *session, uint8_t session_key[AUTH_KEY_SIZE]);
/* Proof of a data connection; @counter never repeats under one session key. */
void auth_attach_mac(const uint8_t session_key[AUTH_KEY_SIZE], const uint8_t client_id[WIRE_ID_SIZE], uint64_t counter,
		     uint8_t mac[WIRE_ATTACH_MAC_SIZE]);
/* Of a session's message: which side says it, and how many it has said before. */
void auth_message_mac(const uint8_t session_key[AUTH_KEY_SIZE], bool client, uint64_t counter, const void *message,
		      size_t size, uint8_t mac[WIRE_SEAL_SIZE]);
/* Constant time. */
bool auth_mac_equal(const uint8_t *a, const uint8_t *b, uint32_t size);
#endif

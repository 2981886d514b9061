/* handshake: see handshake.h. */
#include "memserver/handshake.h"

#include <errno.h>
#include <string.h>

unsigned handshake_hello(const void *data, size_t size, struct wire_hello *ret_hello, struct wire_reject *ret_reject)
{
	struct wire_reject reject = {0};
	int status = wire_decode_hello(data, size, ret_hello);

	if (status == -EPROTONOSUPPORT) {
		reject.reason = WIRE_REASON_VERSION;
		reject.detail = WIRE_VERSION;
	} else if (status < 0 || (ret_hello->role != WIRE_SESSION && ret_hello->role != WIRE_ATTACH)) {
		reject.reason = WIRE_REASON_MALFORMED;
	}
	if (reject.reason)
		*ret_reject = reject;
	return reject.reason;
}

void handshake_begin(struct handshake *handshake, const struct wire_hello *hello,
		     const uint8_t donor_nonce[WIRE_NONCE_SIZE])
{
	*handshake = (struct handshake){.state = HANDSHAKE_CHALLENGED};
	memcpy(handshake->auth.client_id, hello->id, WIRE_ID_SIZE);
	memcpy(handshake->auth.client_nonce, hello->nonce, WIRE_NONCE_SIZE);
	memcpy(handshake->auth.donor_nonce, donor_nonce, WIRE_NONCE_SIZE);
}

void handshake_challenge(const struct handshake *handshake, const struct keyring *keys,
			 struct wire_message *ret_message)
{
	*ret_message = (struct wire_message){.type = WIRE_CHALLENGE};
	memcpy(ret_message->challenge.nonce, handshake->auth.donor_nonce, WIRE_NONCE_SIZE);
	ret_message->challenge.needs_key = keyring_is_needed(keys);
}

/* Returns 0 or the reason to refuse the client. *ret_key is the key that the client proved, or NULL. */
static unsigned reason_against(const struct handshake *handshake, const struct keyring *keys,
			       const struct wire_message *message, const struct keyring_key **ret_key)
{
	uint8_t mac[WIRE_MAC_SIZE];

	*ret_key = NULL;
	if (handshake->state != HANDSHAKE_CHALLENGED || message->type != WIRE_PROOF)
		return WIRE_REASON_MALFORMED;
	if (keyring_is_needed(keys) && !message->proof.has_key)
		return WIRE_REASON_KEY_NEEDED;
	if (!keyring_is_needed(keys) && message->proof.has_key)
		return WIRE_REASON_KEY_UNKNOWN;
	if (keyring_is_needed(keys)) {
		*ret_key = keyring_prove(keys, &handshake->auth, message->proof.mac);
		return *ret_key ? WIRE_REASON_NONE : WIRE_REASON_KEY;
	}
	auth_client_mac(NULL, &handshake->auth, mac);
	return auth_mac_equal(mac, message->proof.mac, WIRE_MAC_SIZE) ? WIRE_REASON_NONE : WIRE_REASON_KEY;
}

unsigned handshake_prove(struct handshake *handshake, const struct keyring *keys, const struct wire_message *message,
			 struct wire_message *ret_message)
{
	const struct keyring_key *key;
	unsigned reason = reason_against(handshake, keys, message, &key);

	if (reason) {
		handshake->state = HANDSHAKE_REFUSED;
		*ret_message = (struct wire_message){.type = WIRE_REFUSED, .request = message->request};
		ret_message->refused.reason = (uint16_t)reason;
		return reason;
	}
	handshake->state = HANDSHAKE_PROVED;
	handshake->wished_grace_ms = message->proof.grace_ms;
	handshake->wished_closed_ms = message->proof.closed_ms;
	handshake->about = message->proof.about;
	if (key) {
		memcpy(handshake->name, key->name, sizeof handshake->name);
		handshake->admin = key->admin;
		handshake->quota = key->quota;
	}
	auth_session_key(key ? key->key : NULL, &handshake->auth, handshake->session_key);
	*ret_message = (struct wire_message){.type = WIRE_WELCOME, .request = message->request};
	auth_donor_mac(key ? key->key : NULL, &handshake->auth, ret_message->welcome.mac);
	return WIRE_REASON_NONE;
}

bool handshake_attach_proved(const uint8_t session_key[AUTH_KEY_SIZE], const struct wire_hello *hello)
{
	uint8_t mac[WIRE_ATTACH_MAC_SIZE];

	auth_attach_mac(session_key, hello->id, hello->counter, mac);
	return auth_mac_equal(mac, hello->mac, WIRE_ATTACH_MAC_SIZE);
}

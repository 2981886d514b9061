/* handshake: who is let in, and who is told what. */
#include "memserver/handshake.h"
#include "tests/tap.h"

static const uint8_t key_one[AUTH_KEY_SIZE] = {1}, key_two[AUTH_KEY_SIZE] = {2};
static const struct keyring ring_one = {.keys = {{.name = "one", .key = {1}, .quota = 77}}, .count = 1};
static const struct keyring ring_all = {
    .keys = {{.name = "one", .key = {1}}, {.name = "two", .key = {2}}, {.name = "admin", .key = {3}, .admin = true}},
    .count = 3,
    .admins = 1};

static struct wire_hello hello_make(void)
{
	struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_SESSION};

	memset(hello.id, 0xaa, sizeof hello.id);
	memset(hello.nonce, 0xbb, sizeof hello.nonce);
	return hello;
}

/* The whole exchange, between a client and a donor with these keys (NULL: none). */
static unsigned exchange(struct handshake *handshake, const uint8_t *client_key, const struct keyring *donor_keys,
			 struct wire_message *answer)
{
	static const uint8_t nonce[WIRE_NONCE_SIZE] = {0xcc};
	struct wire_hello hello = hello_make();
	struct wire_message challenge, proof = {.type = WIRE_PROOF};
	struct auth_session client;

	handshake_begin(handshake, &hello, nonce);
	handshake_challenge(handshake, donor_keys, &challenge);
	memcpy(client.client_id, hello.id, sizeof client.client_id);
	memcpy(client.client_nonce, hello.nonce, sizeof client.client_nonce);
	memcpy(client.donor_nonce, challenge.challenge.nonce, sizeof client.donor_nonce);
	auth_client_mac(client_key, &client, proof.proof.mac);
	proof.proof.has_key = client_key != NULL;
	proof.proof.grace_ms = 1234;
	return handshake_prove(handshake, donor_keys, &proof, answer);
}

static void test_keys(void)
{
	struct handshake handshake;
	struct wire_message answer;
	uint8_t mac[WIRE_MAC_SIZE];

	ok(exchange(&handshake, key_one, &ring_one, &answer) == 0 && answer.type == WIRE_WELCOME &&
	       handshake.state == HANDSHAKE_PROVED,
	   "the same key: welcome");
	auth_donor_mac(key_one, &handshake.auth, mac);
	ok(!memcmp(mac, answer.welcome.mac, sizeof mac), "the donor proves itself too");
	ok(handshake.wished_grace_ms == 1234, "the grace wished for is kept");
	ok(exchange(&handshake, NULL, NULL, &answer) == 0 && answer.type == WIRE_WELCOME,
	   "no key on both sides: welcome");
	ok(exchange(&handshake, key_two, &ring_one, &answer) == WIRE_REASON_KEY && answer.type == WIRE_REFUSED &&
	       answer.refused.reason == WIRE_REASON_KEY && handshake.state == HANDSHAKE_REFUSED,
	   "another key: refused");
	ok(exchange(&handshake, NULL, &ring_one, &answer) == WIRE_REASON_KEY_NEEDED,
	   "no key where one is needed: refused");
	ok(exchange(&handshake, key_one, NULL, &answer) == WIRE_REASON_KEY_UNKNOWN,
	   "a key where none is known: refused");
}

static void test_names(void)
{
	static const uint8_t key_admin[AUTH_KEY_SIZE] = {3}, key_other[AUTH_KEY_SIZE] = {4};
	struct handshake handshake;
	struct wire_message answer;
	uint8_t mac[WIRE_MAC_SIZE];

	ok(exchange(&handshake, key_one, &ring_one, &answer) == 0 && strcmp(handshake.name, "one") == 0 &&
	       handshake.quota == 77 && !handshake.admin,
	   "whose key it was, and what that name may lease, is known");
	ok(exchange(&handshake, key_two, &ring_all, &answer) == 0 && strcmp(handshake.name, "two") == 0,
	   "of several keys any is good");
	auth_donor_mac(key_two, &handshake.auth, mac);
	ok(!memcmp(mac, answer.welcome.mac, sizeof mac), "the donor proves the client's own key, not another");
	ok(exchange(&handshake, key_admin, &ring_all, &answer) == 0 && handshake.admin, "the admin key makes an admin");
	ok(exchange(&handshake, key_other, &ring_all, &answer) == WIRE_REASON_KEY && !handshake.admin &&
	       !*handshake.name,
	   "a key that is none of them is refused");
}

static void test_order(void)
{
	static const uint8_t nonce[WIRE_NONCE_SIZE] = {0xcc};
	struct wire_hello hello = hello_make();
	struct wire_message message = {.type = WIRE_LEASE, .request = 3}, answer;
	struct handshake handshake;

	handshake_begin(&handshake, &hello, nonce);
	ok(handshake_prove(&handshake, NULL, &message, &answer) == WIRE_REASON_MALFORMED && answer.request == 3,
	   "anything but a proof: refused");
	exchange(&handshake, key_two, &ring_one, &answer);
	message = (struct wire_message){.type = WIRE_PROOF};
	auth_client_mac(key_one, &handshake.auth, message.proof.mac);
	message.proof.has_key = 1;
	ok(handshake_prove(&handshake, &ring_one, &message, &answer) == WIRE_REASON_MALFORMED, "no second try");

	handshake_begin(&handshake, &hello, nonce);
	handshake_challenge(&handshake, &ring_one, &answer);
	ok(answer.type == WIRE_CHALLENGE && answer.challenge.needs_key, "a donor with a key says so");
	handshake_challenge(&handshake, NULL, &answer);
	ok(!answer.challenge.needs_key, "and one without does not");
}

static void test_old_proof(void)
{
	static const uint8_t nonce[WIRE_NONCE_SIZE] = {0xdd};
	struct wire_hello hello = hello_make();
	struct wire_message proof = {.type = WIRE_PROOF}, answer;
	struct handshake handshake;

	exchange(&handshake, key_one, &ring_one, &answer);
	auth_client_mac(key_one, &handshake.auth, proof.proof.mac);
	proof.proof.has_key = 1;
	handshake_begin(&handshake, &hello, nonce);
	ok(handshake_prove(&handshake, &ring_one, &proof, &answer) == WIRE_REASON_KEY,
	   "a proof heard before is worth nothing under another nonce");
}

static void test_attach(void)
{
	struct wire_hello hello = hello_make();

	hello.role = WIRE_ATTACH;
	hello.counter = 5;
	auth_attach_mac(key_one, hello.id, 5, hello.mac);
	ok(handshake_attach_proved(key_one, &hello), "the holder of the session key");
	ok(!handshake_attach_proved(key_two, &hello), "another session's key");
	hello.counter = 6;
	ok(!handshake_attach_proved(key_one, &hello), "another counter");
	hello.counter = 5;
	hello.id[0] ^= 1;
	ok(!handshake_attach_proved(key_one, &hello), "another client");
}

static void test_hello(void)
{
	struct wire_hello hello = hello_make(), out;
	uint8_t bytes[WIRE_HELLO_SIZE];
	struct wire_reject reject;
	size_t size = wire_encode_hello(&hello, bytes);

	ok(handshake_hello(bytes, size, &out, &reject) == 0 && out.role == WIRE_SESSION, "a good hello");
	ok(handshake_hello(bytes, size - 1, &out, &reject) == WIRE_REASON_MALFORMED, "a short one");
	ok(handshake_hello("GET / HTTP/1.1", 14, &out, &reject) == WIRE_REASON_MALFORMED &&
	       reject.reason == WIRE_REASON_MALFORMED,
	   "something else");
	hello.version = WIRE_VERSION + 1;
	wire_encode_hello(&hello, bytes);
	ok(handshake_hello(bytes, size, &out, &reject) == WIRE_REASON_VERSION && reject.detail == WIRE_VERSION,
	   "another version: told which one is spoken here");
}

int main(void)
{
	test_keys();
	test_names();
	test_order();
	test_old_proof();
	test_attach();
	test_hello();
	return tap_done();
}

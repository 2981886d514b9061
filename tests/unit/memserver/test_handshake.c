/* handshake: decides which clients are let in, and which answer each gets. */
#include "memserver/handshake.h"
#include "tests/lib/tap.h"

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

/*
 * Performs the whole exchange between a client and a donor with these keys (NULL for none). Returns 0 or the reason of
 * the refusal.
 */
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
	proof.proof.about = (struct wire_about){.host = "node7", .user = "alice", .command = "python3", .pid = 4711};
	return handshake_prove(handshake, donor_keys, &proof, answer);
}

static void only_a_client_with_the_donors_key_is_welcome(void)
{
	struct handshake handshake;
	struct wire_message answer;
	uint8_t mac[WIRE_MAC_SIZE];

	ok(exchange(&handshake, key_one, &ring_one, &answer) == 0 && answer.type == WIRE_WELCOME &&
	       handshake.state == HANDSHAKE_PROVED,
	   "a client with the donor's key is welcome");
	auth_donor_mac(key_one, &handshake.auth, mac);
	ok(!memcmp(mac, answer.welcome.mac, sizeof mac), "the donor proves its own key to a welcome client");
	ok(handshake.wished_grace_ms == 1234, "the grace time that a client wishes is kept");
	ok(strcmp(handshake.about.host, "node7") == 0 && strcmp(handshake.about.user, "alice") == 0 &&
	       strcmp(handshake.about.command, "python3") == 0 && handshake.about.pid == 4711,
	   "what a client says about itself is kept");
	ok(exchange(&handshake, NULL, NULL, &answer) == 0 && answer.type == WIRE_WELCOME,
	   "a client without a key is welcome at a donor without one");
	ok(exchange(&handshake, key_two, &ring_one, &answer) == WIRE_REASON_KEY && answer.type == WIRE_REFUSED &&
	       answer.refused.reason == WIRE_REASON_KEY && handshake.state == HANDSHAKE_REFUSED,
	   "a client with another key is refused");
	ok(exchange(&handshake, NULL, &ring_one, &answer) == WIRE_REASON_KEY_NEEDED,
	   "a client without a key is refused if the donor needs one");
	ok(exchange(&handshake, key_one, NULL, &answer) == WIRE_REASON_KEY_UNKNOWN,
	   "a client with a key is refused if the donor has none");
}

static void a_key_tells_name_and_rights_of_its_client(void)
{
	static const uint8_t key_admin[AUTH_KEY_SIZE] = {3}, key_other[AUTH_KEY_SIZE] = {4};
	struct handshake handshake;
	struct wire_message answer;
	uint8_t mac[WIRE_MAC_SIZE];

	ok(exchange(&handshake, key_one, &ring_one, &answer) == 0 && strcmp(handshake.name, "one") == 0 &&
	       handshake.quota == 77 && !handshake.admin,
	   "a proved key gives the client the key's name and quota");
	ok(exchange(&handshake, key_two, &ring_all, &answer) == 0 && strcmp(handshake.name, "two") == 0,
	   "a client may prove any of the donor's keys");
	auth_donor_mac(key_two, &handshake.auth, mac);
	ok(!memcmp(mac, answer.welcome.mac, sizeof mac), "the donor proves the same key as the client");
	ok(exchange(&handshake, key_admin, &ring_all, &answer) == 0 && handshake.admin,
	   "the admin key makes its client an admin");
	ok(exchange(&handshake, key_other, &ring_all, &answer) == WIRE_REASON_KEY && !handshake.admin &&
	       !*handshake.name,
	   "a key that the donor does not have is refused");
}

static void messages_out_of_order_are_refused(void)
{
	static const uint8_t nonce[WIRE_NONCE_SIZE] = {0xcc};
	struct wire_hello hello = hello_make();
	struct wire_message message = {.type = WIRE_LEASE, .request = 3}, answer;
	struct handshake handshake;

	handshake_begin(&handshake, &hello, nonce);
	ok(handshake_prove(&handshake, NULL, &message, &answer) == WIRE_REASON_MALFORMED && answer.request == 3,
	   "a message other than a proof is refused as malformed");
	exchange(&handshake, key_two, &ring_one, &answer);
	message = (struct wire_message){.type = WIRE_PROOF};
	auth_client_mac(key_one, &handshake.auth, message.proof.mac);
	message.proof.has_key = 1;
	ok(handshake_prove(&handshake, &ring_one, &message, &answer) == WIRE_REASON_MALFORMED,
	   "a second proof is refused as malformed");

	handshake_begin(&handshake, &hello, nonce);
	handshake_challenge(&handshake, &ring_one, &answer);
	ok(answer.type == WIRE_CHALLENGE && answer.challenge.needs_key,
	   "the challenge of a donor with a key asks for one");
	handshake_challenge(&handshake, NULL, &answer);
	ok(!answer.challenge.needs_key, "the challenge of a donor without a key asks for none");
}

static void a_proof_is_worth_nothing_under_another_nonce(void)
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
	   "a proof for an earlier nonce is refused under another nonce");
}

static void only_the_session_key_proves_an_attach(void)
{
	struct wire_hello hello = hello_make();

	hello.role = WIRE_ATTACH;
	hello.counter = 5;
	auth_attach_mac(key_one, hello.id, 5, hello.mac);
	ok(handshake_attach_proved(key_one, &hello), "an attach proved with the session key is accepted");
	ok(!handshake_attach_proved(key_two, &hello), "an attach proved with another session's key is refused");
	hello.counter = 6;
	ok(!handshake_attach_proved(key_one, &hello), "an attach with another counter than the proved one is refused");
	hello.counter = 5;
	hello.id[0] ^= 1;
	ok(!handshake_attach_proved(key_one, &hello),
	   "an attach with another client id than the proved one is refused");
}

static void only_a_valid_hello_begins_a_handshake(void)
{
	struct wire_hello hello = hello_make(), out;
	uint8_t bytes[WIRE_HELLO_SIZE];
	struct wire_reject reject;
	size_t size = wire_encode_hello(&hello, bytes);

	ok(handshake_hello(bytes, size, &out, &reject) == 0 && out.role == WIRE_SESSION, "a valid hello is accepted");
	ok(handshake_hello(bytes, size - 1, &out, &reject) == WIRE_REASON_MALFORMED,
	   "a hello that is too short is refused as malformed");
	ok(handshake_hello("GET / HTTP/1.1", 14, &out, &reject) == WIRE_REASON_MALFORMED &&
	       reject.reason == WIRE_REASON_MALFORMED,
	   "an HTTP request is refused as malformed");
	hello.version = WIRE_VERSION + 1;
	wire_encode_hello(&hello, bytes);
	ok(handshake_hello(bytes, size, &out, &reject) == WIRE_REASON_VERSION && reject.detail == WIRE_VERSION,
	   "a hello of another version is refused with the donor's version");
}

int main(void)
{
	only_a_client_with_the_donors_key_is_welcome();
	a_key_tells_name_and_rights_of_its_client();
	messages_out_of_order_are_refused();
	a_proof_is_worth_nothing_under_another_nonce();
	only_the_session_key_proves_an_attach();
	only_a_valid_hello_begins_a_handshake();
	return tap_done();
}

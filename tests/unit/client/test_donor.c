/* donor: the session machine, message by message, against a donor made of the same wire and auth functions. */
#include "client/donor/donor.h"
#include "tests/tap.h"

#include <errno.h>

#define MS UINT64_C(1000000)
#define CONNECT_NS (2000 * MS)
#define TIMEOUT_NS (5000 * MS)
#define HEARTBEAT_MS 1000u

static const uint8_t key[AUTH_KEY_SIZE] = {1, 2, 3}, other_key[AUTH_KEY_SIZE] = {4};

/* The other end of the session's connection. */
static struct channel channel;

static void start(struct donor *donor, const uint8_t *client_key)
{
	struct donor_config config = {.key = client_key,
				      .id = {9},
				      .nonce = {8},
				      .grace_ms = 777,
				      .connect_ns = CONNECT_NS,
				      .timeout_ns = TIMEOUT_NS};

	donor_init(donor, &config, 0);
	channel.begun = false;
}

static void receive(struct donor *donor, const struct wire_message *message, uint64_t now, struct donor_answer *answer)
{
	uint8_t bytes[WIRE_SEALED_MAX];

	donor_received(donor, bytes, channel_seal(&channel, bytes, wire_encode(message, bytes)), now, answer);
}

static void challenge(struct donor *donor, bool needs_key, uint64_t now, struct donor_answer *answer)
{
	struct wire_message message = {.type = WIRE_CHALLENGE};

	message.challenge.needs_key = needs_key;
	message.challenge.nonce[0] = 5;
	receive(donor, &message, now, answer);
}

static struct auth_session session_of(void)
{
	return (struct auth_session){.client_id = {9}, .client_nonce = {8}, .donor_nonce = {5}};
}

static void welcome(struct donor *donor, const uint8_t *donor_key, uint64_t now, struct donor_answer *answer)
{
	struct wire_message message = {.type = WIRE_WELCOME};
	struct auth_session session = session_of();

	uint8_t session_key[AUTH_KEY_SIZE];

	auth_session_key(donor_key, &session, session_key);
	channel_begin(&channel, session_key, false);
	message.welcome.heartbeat_ms = HEARTBEAT_MS;
	message.welcome.incarnation = 77;
	message.welcome.slabs = 3;
	message.welcome.capacity = (struct wire_capacity){.donated = 1 << 20, .leased = 1 << 19, .slab_bytes = 1 << 16};
	auth_donor_mac(donor_key, &session, message.welcome.mac);
	receive(donor, &message, now, answer);
}

/* Up to READY at @now. */
static void make_ready(struct donor *donor, uint64_t now)
{
	struct donor_answer answer;

	start(donor, key);
	donor_connected(donor, now);
	challenge(donor, true, now, &answer);
	welcome(donor, key, now, &answer);
}

static void test_handshake(const uint8_t *client_key, const char *name)
{
	struct auth_session session = session_of();
	uint8_t mac[WIRE_MAC_SIZE], session_key[AUTH_KEY_SIZE], hello_bytes[WIRE_HELLO_SIZE];
	struct wire_hello hello;
	struct donor_answer answer;
	struct donor donor;

	start(&donor, client_key);
	donor_hello(&donor, hello_bytes);
	ok(wire_decode_hello(hello_bytes, sizeof hello_bytes, &hello) == 0 && hello.role == WIRE_SESSION &&
	       hello.id[0] == 9 && hello.nonce[0] == 8,
	   "%s: the hello asks for a session", name);
	ok(donor_due(&donor) == CONNECT_NS, "%s: the handshake has a deadline", name);
	donor_connected(&donor, MS);
	ok(donor.state == DONOR_GREETED, "%s: connected", name);
	challenge(&donor, client_key != NULL, 2 * MS, &answer);
	auth_client_mac(client_key, &session, mac);
	ok(answer.send && answer.reply.type == WIRE_PROOF && !memcmp(answer.reply.proof.mac, mac, sizeof mac) &&
	       answer.reply.proof.has_key == (client_key != NULL) && answer.reply.proof.grace_ms == 777 &&
	       donor.state == DONOR_PROVING,
	   "%s: challenged, it proves", name);
	welcome(&donor, client_key, 3 * MS, &answer);
	auth_session_key(client_key, &session, session_key);
	ok(answer.news == DONOR_IS_READY && donor.state == DONOR_READY && donor.capacity.donated == 1 << 20 &&
	       donor.incarnation == 77 && donor.slabs == 3 &&
	       !memcmp(donor.session_key, session_key, sizeof session_key),
	   "%s: welcomed, it is ready", name);
}

static bool lost(const struct donor *donor, const struct donor_answer *answer, int status)
{
	return answer->news == DONOR_IS_LOST && donor->state == DONOR_LOST && donor->status == status &&
	       donor_due(donor) == UINT64_MAX;
}

static void test_keys(void)
{
	char text[DONOR_EXPLAIN_MAX];
	struct donor_answer answer;
	struct donor donor;

	start(&donor, NULL);
	donor_connected(&donor, 0);
	challenge(&donor, true, 0, &answer);
	ok(lost(&donor, &answer, -EKEYREJECTED) && !answer.send && strstr(donor_explain(&donor, text), "--key"),
	   "no key where one is needed");
	start(&donor, key);
	donor_connected(&donor, 0);
	challenge(&donor, false, 0, &answer);
	ok(lost(&donor, &answer, -EKEYREJECTED) && strstr(donor_explain(&donor, text), "leave --key out"),
	   "a key where none is needed");
	start(&donor, key);
	donor_connected(&donor, 0);
	challenge(&donor, true, 0, &answer);
	welcome(&donor, other_key, 0, &answer);
	ok(lost(&donor, &answer, -EKEYREJECTED), "a donor that cannot prove that it has the key");
}

static void test_refusals(void)
{
	static const struct {
		uint16_t reason;
		int status;
	} cases[] = {
	    {WIRE_REASON_VERSION, -EPROTONOSUPPORT},
	    {WIRE_REASON_KEY, -EKEYREJECTED},
	    {WIRE_REASON_KEY_NEEDED, -EKEYREJECTED},
	    {WIRE_REASON_KEY_UNKNOWN, -EKEYREJECTED},
	    {WIRE_REASON_FULL, -EBUSY},
	    {WIRE_REASON_LEAVING, -ECONNREFUSED},
	    {WIRE_REASON_MALFORMED, -EPROTO},
	    {WIRE_REASON_NO_SESSION, -EPROTO},
	};
	char text[DONOR_EXPLAIN_MAX];
	struct donor_answer answer;
	struct donor donor;

	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wire_reject reject = {.reason = cases[i].reason, .detail = 42};
		struct wire_message refused = {.type = WIRE_REFUSED};
		uint8_t bytes[WIRE_REJECT_SIZE];

		start(&donor, key);
		donor_disconnected(&donor, -ECONNREFUSED, bytes, wire_encode_reject(&reject, bytes), &answer);
		ok(lost(&donor, &answer, cases[i].status) && donor.reason == cases[i].reason &&
		       strlen(donor_explain(&donor, text)) > 10,
		   "rejected: %s", text);
		start(&donor, key);
		donor_connected(&donor, 0);
		challenge(&donor, true, 0, &answer);
		refused.refused.reason = cases[i].reason;
		channel_begin(&channel, donor.session_key, false);
		receive(&donor, &refused, 0, &answer);
		ok(lost(&donor, &answer, cases[i].status) && donor.reason == cases[i].reason, "refused: %s",
		   wire_reason_name(cases[i].reason));
		start(&donor, key);
		donor_connected(&donor, 0);
		challenge(&donor, true, 0, &answer);
		receive(&donor, &refused, 0, &answer);
		ok(cases[i].status == -EKEYREJECTED ? lost(&donor, &answer, -EKEYREJECTED)
						    : lost(&donor, &answer, -EPROTO) && !donor.reason,
		   "by who does not know our key: %s",
		   cases[i].status == -EKEYREJECTED ? "for that it may" : "not believed");
	}
}

/* The donor's messages on the way here: said once more, changed, or by somebody else. */
static void test_tampering(void)
{
	const struct wire_message ping = {.type = WIRE_PING};
	uint8_t bytes[WIRE_SEALED_MAX];
	struct donor_answer answer;
	struct donor donor;
	size_t size;

	for (unsigned how = 0; how < 3; how++) {
		make_ready(&donor, 0);
		size = channel_seal(&channel, bytes, wire_encode(&ping, bytes));
		if (how == 1)
			bytes[size - 1] ^= 1;
		if (how == 2)
			size = wire_encode(&ping, bytes);
		donor_received(&donor, bytes, size, 1, &answer);
		if (how == 0) {
			ok(donor.state == DONOR_READY && answer.send, "what the donor says is taken");
			donor_received(&donor, bytes, size, 2, &answer);
			ok(lost(&donor, &answer, -EPROTO), "but not twice");
			continue;
		}
		ok(lost(&donor, &answer, -EPROTO), how == 1 ? "nor when it was changed" : "nor from anybody else");
	}
}

/* Every message in every state: taken where it belongs, else the donor is lost; and never anything worse. */
static void test_out_of_turn(void)
{
	unsigned wrong = 0;

	for (unsigned state = DONOR_CONNECTING; state <= DONOR_LOST; state++) {
		for (uint16_t type = 1; type < WIRE_TYPE_COUNT; type++) {
			struct wire_message message = {.type = type};
			struct donor_answer answer;
			struct donor donor;
			bool fits;

			make_ready(&donor, 0);
			donor.state = (enum donor_state)state;
			donor.waiting = 1;
			if (type == WIRE_GRANTED) {
				message.granted.bytes = 1 << 16;
				message.granted.capacity = donor.capacity;
			}
			receive(&donor, &message, 0, &answer);
			fits = (state == DONOR_GREETED && type == WIRE_CHALLENGE) ||
			       (state == DONOR_PROVING && type == WIRE_WELCOME) ||
			       (state == DONOR_READY &&
				(type == WIRE_GRANTED || type == WIRE_DENIED || type == WIRE_RELEASED ||
				 type == WIRE_STATUS_REPLY || type == WIRE_PING || type == WIRE_PONG ||
				 type == WIRE_REVOKE || type == WIRE_REVOKED || type == WIRE_KEEP ||
				 type == WIRE_DRAINING || type == WIRE_HOLDER_REPLY));
			/* With a wrong proof in them a challenge without key, and a welcome, end it too. */
			if (state == DONOR_LOST)
				wrong += answer.news != DONOR_NOTHING || answer.send;
			else if (fits && state == DONOR_READY)
				wrong += donor.state != DONOR_READY;
			else
				wrong += donor.state != DONOR_LOST || answer.news != DONOR_IS_LOST;
		}
	}
	ok(!wrong, "messages out of turn end the session, others do not");
}

static void test_garbage(void)
{
	uint8_t bytes[64] = {1};
	struct donor_answer answer;
	struct donor donor;

	make_ready(&donor, 0);
	donor_received(&donor, bytes, sizeof bytes, 0, &answer);
	ok(lost(&donor, &answer, -EPROTO), "garbage ends the session");
	make_ready(&donor, 0);
	receive(&donor, &(struct wire_message){.type = WIRE_RELEASED, .released = {.capacity = donor.capacity}}, 0,
		&answer);
	ok(lost(&donor, &answer, -EPROTO), "so does an answer nobody asked for");
}

static void test_heartbeats(void)
{
	const uint64_t beat = HEARTBEAT_MS * MS;
	struct wire_message pong = {.type = WIRE_PONG}, ping = {.type = WIRE_PING, .request = 5};
	struct donor_answer answer;
	struct donor donor;

	make_ready(&donor, 0);
	ok(donor_due(&donor) == beat, "a heartbeat is due");
	donor_tick(&donor, beat - 1, &answer);
	ok(!answer.send && answer.news == DONOR_NOTHING, "but not before its time");
	donor_tick(&donor, beat, &answer);
	ok(answer.send && answer.reply.type == WIRE_PING, "then it is sent");
	donor_tick(&donor, beat, &answer);
	ok(!answer.send, "once");
	receive(&donor, &pong, beat + 10, &answer);
	ok(answer.news == DONOR_NOTHING && !answer.send, "its answer needs none");
	donor_tick(&donor, 5 * beat, &answer);
	ok(donor.state == DONOR_READY, "a sign of life counts from when it came");
	donor_tick(&donor, 5 * beat + 10, &answer);
	ok(lost(&donor, &answer, -ETIMEDOUT), "four heartbeats of silence, and it is lost");
	make_ready(&donor, 0);
	receive(&donor, &ping, 10, &answer);
	ok(answer.send && answer.reply.type == WIRE_PONG && answer.reply.request == 5, "a ping is answered");
}

static void test_requests(void)
{
	struct wire_message granted = {.type = WIRE_GRANTED, .request = 3};
	struct wire_message ping = {.type = WIRE_PING};
	struct donor_answer answer;
	struct donor donor;

	make_ready(&donor, 0);
	donor_requested(&donor, 100);
	donor_requested(&donor, 200);
	granted.granted.capacity = (struct wire_capacity){.donated = 1 << 20, .leased = 1 << 16, .slab_bytes = 1 << 16};
	granted.granted.bytes = 1 << 16;
	granted.granted.address = 1 << 20;
	receive(&donor, &granted, 1000, &answer);
	ok(answer.news == DONOR_ANSWERED && answer.message.request == 3 && donor.capacity.leased == 1 << 16,
	   "an answer is passed on, with the figures in it");
	for (uint64_t now = 0; now < TIMEOUT_NS; now += 100 * MS)
		receive(&donor, &ping, now, &answer);
	donor_tick(&donor, 1000 + TIMEOUT_NS - 1, &answer);
	ok(donor.state == DONOR_READY && donor_due(&donor) <= 1000 + TIMEOUT_NS, "the other one may take its time");
	donor_tick(&donor, 1000 + TIMEOUT_NS, &answer);
	ok(lost(&donor, &answer, -ETIMEDOUT), "but no more than the timeout, however alive the donor looks");
}

static void test_ends(void)
{
	struct donor_answer answer;
	struct donor donor;

	start(&donor, NULL);
	donor_tick(&donor, CONNECT_NS - 1, &answer);
	ok(donor.state == DONOR_CONNECTING, "it may connect until the deadline");
	donor_tick(&donor, CONNECT_NS, &answer);
	ok(lost(&donor, &answer, -ETIMEDOUT), "no longer");
	make_ready(&donor, 0);
	donor_disconnected(&donor, -ECONNRESET, NULL, 0, &answer);
	ok(lost(&donor, &answer, -ECONNRESET), "broken off");
	donor_disconnected(&donor, -EPROTO, NULL, 0, &answer);
	ok(answer.news == DONOR_NOTHING && donor.status == -ECONNRESET, "the first reason stays");
}

static void test_recalls(void)
{
	static const enum wire_type types[] = {WIRE_REVOKE, WIRE_REVOKED, WIRE_KEEP};
	const struct wire_capacity capacity = {.donated = 1 << 18, .leased = 1 << 18, .slab_bytes = 1 << 16};
	struct wire_message message;
	struct donor_answer answer;
	struct donor donor;

	for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
		make_ready(&donor, 0);
		message = (struct wire_message){.type = types[i]};
		message.revoke.slab = 99; /* at the same place in each */
		if (types[i] == WIRE_REVOKE)
			message.revoke.capacity = capacity;
		else if (types[i] == WIRE_REVOKED)
			message.revoked.capacity = capacity;
		receive(&donor, &message, MS, &answer);
		ok(answer.news == DONOR_RECALLS && answer.message.type == types[i] &&
		       answer.message.revoke.slab == 99 && donor.state == DONOR_READY,
		   "%s: passed on, though nothing was asked", wire_type_name(types[i]));
		ok(donor.capacity.donated == (types[i] == WIRE_KEEP ? 1 << 20 : 1 << 18), "and its figures taken");
	}
	make_ready(&donor, 0);
	message = (struct wire_message){.type = WIRE_DRAINING};
	receive(&donor, &message, MS, &answer);
	ok(lost(&donor, &answer, -EPROTO), "an answer that nobody asked for");
	make_ready(&donor, 0);
	donor_requested(&donor, 0);
	message.draining.capacity = capacity;
	receive(&donor, &message, MS, &answer);
	ok(answer.news == DONOR_ANSWERED && donor.capacity.donated == 1 << 18, "one that an operator asked for");
}

int main(void)
{
	test_handshake(key, "with key");
	test_handshake(NULL, "without key");
	test_keys();
	test_refusals();
	test_tampering();
	test_out_of_turn();
	test_garbage();
	test_heartbeats();
	test_requests();
	test_ends();
	test_recalls();
	return tap_done();
}

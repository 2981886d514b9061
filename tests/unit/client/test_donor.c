/* donor: the session state machine, message by message, against a donor made of the same wire and auth functions. */
#include "client/donor/donor.h"
#include "tests/lib/tap.h"

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
				      .about = {.host = "node7", .user = "alice", .command = "python3", .pid = 4711},
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

/* Runs the handshake, so that the session is READY at @now. */
static void make_ready(struct donor *donor, uint64_t now)
{
	struct donor_answer answer;

	start(donor, key);
	donor_connected(donor, now);
	challenge(donor, true, now, &answer);
	welcome(donor, key, now, &answer);
}

static void handshake_makes_a_session_ready(const uint8_t *client_key, const char *name)
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
	ok(donor.state == DONOR_GREETED, "%s: a connected session has greeted the donor", name);
	challenge(&donor, client_key != NULL, 2 * MS, &answer);
	auth_client_mac(client_key, &session, mac);
	ok(answer.send && answer.reply.type == WIRE_PROOF && !memcmp(answer.reply.proof.mac, mac, sizeof mac) &&
	       answer.reply.proof.has_key == (client_key != NULL) && answer.reply.proof.grace_ms == 777 &&
	       donor.state == DONOR_PROVING,
	   "%s: a challenged session answers with its proof", name);
	ok(!memcmp(&answer.reply.proof.about, &donor.config.about, sizeof donor.config.about) &&
	       answer.reply.proof.about.pid == 4711,
	   "%s: the proof says which process the client is", name);
	welcome(&donor, client_key, 3 * MS, &answer);
	auth_session_key(client_key, &session, session_key);
	ok(answer.news == DONOR_IS_READY && donor.state == DONOR_READY && donor.capacity.donated == 1 << 20 &&
	       donor.incarnation == 77 && donor.slabs == 3 &&
	       !memcmp(donor.session_key, session_key, sizeof session_key),
	   "%s: a welcomed session is ready and has the donor's figures", name);
}

static bool lost(const struct donor *donor, const struct donor_answer *answer, int status)
{
	return answer->news == DONOR_IS_LOST && donor->state == DONOR_LOST && donor->status == status &&
	       donor_due(donor) == UINT64_MAX;
}

static void wrong_use_of_a_key_ends_the_session(void)
{
	char text[DONOR_EXPLAIN_MAX];
	struct donor_answer answer;
	struct donor donor;

	start(&donor, NULL);
	donor_connected(&donor, 0);
	challenge(&donor, true, 0, &answer);
	ok(lost(&donor, &answer, -EKEYREJECTED) && !answer.send && strstr(donor_explain(&donor, text), "--key"),
	   "a session without a key ends if the donor needs one");
	start(&donor, key);
	donor_connected(&donor, 0);
	challenge(&donor, false, 0, &answer);
	ok(lost(&donor, &answer, -EKEYREJECTED) && strstr(donor_explain(&donor, text), "leave --key out"),
	   "a session with a key ends if the donor needs none");
	start(&donor, key);
	donor_connected(&donor, 0);
	challenge(&donor, true, 0, &answer);
	welcome(&donor, other_key, 0, &answer);
	ok(lost(&donor, &answer, -EKEYREJECTED), "a donor that cannot prove that it has the key ends the session");
}

static void refusal_ends_the_session_with_its_reason(void)
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
		   "a rejection ends the session: %s", text);
		start(&donor, key);
		donor_connected(&donor, 0);
		challenge(&donor, true, 0, &answer);
		refused.refused.reason = cases[i].reason;
		channel_begin(&channel, donor.session_key, false);
		receive(&donor, &refused, 0, &answer);
		ok(lost(&donor, &answer, cases[i].status) && donor.reason == cases[i].reason,
		   "an authenticated refusal ends the session with its reason: %s", wire_reason_name(cases[i].reason));
		start(&donor, key);
		donor_connected(&donor, 0);
		challenge(&donor, true, 0, &answer);
		receive(&donor, &refused, 0, &answer);
		ok(cases[i].status == -EKEYREJECTED ? lost(&donor, &answer, -EKEYREJECTED)
						    : lost(&donor, &answer, -EPROTO) && !donor.reason,
		   "a refusal from a donor that does not know the key ends the session: %s",
		   cases[i].status == -EKEYREJECTED ? "the reason is taken" : "the reason is not believed");
	}
}

/* Messages of the donor that are repeated, changed, or not sealed. */
static void repeated_or_changed_messages_end_the_session(void)
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
			ok(donor.state == DONOR_READY && answer.send, "a message that the donor sealed is accepted");
			donor_received(&donor, bytes, size, 2, &answer);
			ok(lost(&donor, &answer, -EPROTO), "a repeated message ends the session");
			continue;
		}
		ok(lost(&donor, &answer, -EPROTO),
		   how == 1 ? "a changed message ends the session" : "an unsealed message ends the session");
	}
}

/*
 * Tries every message in every state. A message that does not belong there must end the session, and do nothing worse.
 */
static void messages_out_of_turn_end_the_session(void)
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
			/* A challenge and a welcome end the session here too, because their proofs are wrong. */
			if (state == DONOR_LOST)
				wrong += answer.news != DONOR_NOTHING || answer.send;
			else if (fits && state == DONOR_READY)
				wrong += donor.state != DONOR_READY;
			else
				wrong += donor.state != DONOR_LOST || answer.news != DONOR_IS_LOST;
		}
	}
	ok(!wrong, "exactly the messages out of turn end the session, in every state");
}

static void garbage_ends_the_session(void)
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
	ok(lost(&donor, &answer, -EPROTO), "an answer to no request ends the session");
}

static void silence_of_four_heartbeats_ends_the_session(void)
{
	const uint64_t beat = HEARTBEAT_MS * MS;
	struct wire_message pong = {.type = WIRE_PONG}, ping = {.type = WIRE_PING, .request = 5};
	struct donor_answer answer;
	struct donor donor;

	make_ready(&donor, 0);
	ok(donor_due(&donor) == beat, "a ready session has a heartbeat due");
	donor_tick(&donor, beat - 1, &answer);
	ok(!answer.send && answer.news == DONOR_NOTHING, "a heartbeat is not sent before its time");
	donor_tick(&donor, beat, &answer);
	ok(answer.send && answer.reply.type == WIRE_PING, "a heartbeat is sent at its time");
	donor_tick(&donor, beat, &answer);
	ok(!answer.send, "a heartbeat is sent only once");
	receive(&donor, &pong, beat + 10, &answer);
	ok(answer.news == DONOR_NOTHING && !answer.send, "the answer to a heartbeat is not answered itself");
	donor_tick(&donor, 5 * beat, &answer);
	ok(donor.state == DONOR_READY, "a sign of life counts from the time it came");
	donor_tick(&donor, 5 * beat + 10, &answer);
	ok(lost(&donor, &answer, -ETIMEDOUT), "four heartbeats of silence end the session with -ETIMEDOUT");
	make_ready(&donor, 0);
	receive(&donor, &ping, 10, &answer);
	ok(answer.send && answer.reply.type == WIRE_PONG && answer.reply.request == 5,
	   "a ping is answered with a pong of the same number");
}

static void unanswered_request_ends_the_session_at_its_timeout(void)
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
	   "an answer is passed on, and the capacity in it is taken over");
	for (uint64_t now = 0; now < TIMEOUT_NS; now += 100 * MS)
		receive(&donor, &ping, now, &answer);
	donor_tick(&donor, 1000 + TIMEOUT_NS - 1, &answer);
	ok(donor.state == DONOR_READY && donor_due(&donor) <= 1000 + TIMEOUT_NS,
	   "a second request may wait until its own timeout");
	donor_tick(&donor, 1000 + TIMEOUT_NS, &answer);
	ok(lost(&donor, &answer, -ETIMEDOUT),
	   "a request unanswered at its timeout ends the session, although the donor is alive");
}

static void lost_session_keeps_its_first_status(void)
{
	struct donor_answer answer;
	struct donor donor;

	start(&donor, NULL);
	donor_tick(&donor, CONNECT_NS - 1, &answer);
	ok(donor.state == DONOR_CONNECTING, "a session may connect until the deadline");
	donor_tick(&donor, CONNECT_NS, &answer);
	ok(lost(&donor, &answer, -ETIMEDOUT), "a session not connected at the deadline is lost with -ETIMEDOUT");
	make_ready(&donor, 0);
	donor_disconnected(&donor, -ECONNRESET, NULL, 0, &answer);
	ok(lost(&donor, &answer, -ECONNRESET), "a broken connection ends the session with its status");
	donor_disconnected(&donor, -EPROTO, NULL, 0, &answer);
	ok(answer.news == DONOR_NOTHING && donor.status == -ECONNRESET, "a lost session keeps its first status");
}

static void recalls_are_passed_on_unasked(void)
{
	static const enum wire_type types[] = {WIRE_REVOKE, WIRE_REVOKED, WIRE_KEEP};
	const struct wire_capacity capacity = {.donated = 1 << 18, .leased = 1 << 18, .slab_bytes = 1 << 16};
	struct wire_message message;
	struct donor_answer answer;
	struct donor donor;

	for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
		make_ready(&donor, 0);
		message = (struct wire_message){.type = types[i]};
		message.revoke.slab = 99; /* all three kinds have the slab at the same place */
		if (types[i] == WIRE_REVOKE)
			message.revoke.capacity = capacity;
		else if (types[i] == WIRE_REVOKED)
			message.revoked.capacity = capacity;
		receive(&donor, &message, MS, &answer);
		ok(answer.news == DONOR_RECALLS && answer.message.type == types[i] &&
		       answer.message.revoke.slab == 99 && donor.state == DONOR_READY,
		   "%s: a recall message is passed on without a request", wire_type_name(types[i]));
		ok(donor.capacity.donated == (types[i] == WIRE_KEEP ? 1 << 20 : 1 << 18),
		   "a recall message that has a capacity updates the donor's capacity");
	}
	make_ready(&donor, 0);
	message = (struct wire_message){.type = WIRE_DRAINING};
	receive(&donor, &message, MS, &answer);
	ok(lost(&donor, &answer, -EPROTO), "a DRAINING message without a request ends the session");
	make_ready(&donor, 0);
	donor_requested(&donor, 0);
	message.draining.capacity = capacity;
	receive(&donor, &message, MS, &answer);
	ok(answer.news == DONOR_ANSWERED && donor.capacity.donated == 1 << 18,
	   "a DRAINING message that answers a request is passed on and updates the capacity");
}

int main(void)
{
	handshake_makes_a_session_ready(key, "with key");
	handshake_makes_a_session_ready(NULL, "without key");
	wrong_use_of_a_key_ends_the_session();
	refusal_ends_the_session_with_its_reason();
	repeated_or_changed_messages_end_the_session();
	messages_out_of_turn_end_the_session();
	garbage_ends_the_session();
	silence_of_four_heartbeats_ends_the_session();
	unanswered_request_ends_the_session_at_its_timeout();
	lost_session_keeps_its_first_status();
	recalls_are_passed_on_unasked();
	return tap_done();
}

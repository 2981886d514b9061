/*
 * Fuzzes the client's end of a session with any messages and events in any order. The state machine moves only forward.
 * It reports once that the donor is lost, and then sends nothing more.
 *
 * Input: a list of steps. A step is a byte for its kind, a byte for its length, and its bytes. The input cannot guess
 * the messages of a donor that knows the key. So the donor's challenge and its welcome are steps of their own, and
 * another step seals bytes with the session key.
 */
#include "client/donor/donor.h"

#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)

enum step {
	STEP_CONNECTED,
	STEP_CHALLENGE,
	STEP_WELCOME,
	STEP_RECEIVE,
	STEP_TICK,
	STEP_REQUEST,
	STEP_DISCONNECT,
	STEP_RECEIVE_SEALED,
	STEPS
};

static const uint8_t key[AUTH_KEY_SIZE] = {1};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
	if (!good)
		abort();
}

/* The donor's end of the channel. */
static struct channel channel;

static void receive(struct donor *donor, const uint8_t *data, size_t size, uint64_t now, struct donor_answer *answer)
{
	uint8_t bytes[WIRE_SEALED_MAX];

	if (!channel.begun && donor->channel.begun)
		channel_begin(&channel, donor->session_key, false);
	memcpy(bytes, data, size);
	donor_received(donor, bytes, channel_seal(&channel, bytes, size), now, answer);
}

static void say(struct donor *donor, const struct wire_message *message, uint64_t now, struct donor_answer *answer)
{
	uint8_t bytes[WIRE_MESSAGE_MAX];

	receive(donor, bytes, wire_encode(message, bytes), now, answer);
}

static void challenge(struct donor *donor, uint64_t now, struct donor_answer *answer)
{
	struct wire_message message = {.type = WIRE_CHALLENGE};

	message.challenge.needs_key = 1;
	say(donor, &message, now, answer);
}

static void welcome(struct donor *donor, uint32_t heartbeat_ms, uint64_t now, struct donor_answer *answer)
{
	struct wire_message message = {.type = WIRE_WELCOME};

	message.welcome.heartbeat_ms = heartbeat_ms;
	auth_donor_mac(key, &donor->session, message.welcome.mac);
	say(donor, &message, now, answer);
}

static void step(struct donor *donor, enum step kind, const uint8_t *data, size_t size, uint64_t *now,
		 struct donor_answer *answer)
{
	switch (kind) {
	case STEP_CONNECTED:
		donor_connected(donor, *now);
		return;
	case STEP_CHALLENGE:
		challenge(donor, *now, answer);
		return;
	case STEP_WELCOME:
		welcome(donor, size ? data[0] * 10u : 1000, *now, answer);
		return;
	case STEP_RECEIVE:
		donor_received(donor, data, size, *now, answer);
		return;
	case STEP_RECEIVE_SEALED:
		receive(donor, data, size < WIRE_MESSAGE_MAX ? size : WIRE_MESSAGE_MAX, *now, answer);
		return;
	case STEP_TICK:
		*now += size ? data[0] * 10 * MS : donor_due(donor) != UINT64_MAX ? donor_due(donor) - *now : 0;
		donor_tick(donor, *now, answer);
		return;
	case STEP_REQUEST:
		if (donor->state == DONOR_READY)
			donor_requested(donor, *now);
		return;
	case STEP_DISCONNECT:
		donor_disconnected(donor, size > 8 ? -(int)data[8] : 0, data, size, answer);
		return;
	case STEPS:
		return;
	}
}

static void check(const struct donor *donor, enum donor_state before, const struct donor_answer *answer, uint64_t now)
{
	char text[DONOR_EXPLAIN_MAX];

	must(donor->state >= before);
	must((answer->news == DONOR_IS_LOST) == (donor->state == DONOR_LOST && before != DONOR_LOST));
	must(answer->news != DONOR_IS_READY || (before == DONOR_PROVING && donor->state == DONOR_READY));
	must((answer->news != DONOR_ANSWERED && answer->news != DONOR_RECALLS) || before == DONOR_READY);
	must(!answer->send || (donor->state != DONOR_LOST && donor->state != DONOR_CONNECTING));
	if (donor->state == DONOR_LOST) {
		must(donor->status < 0 && donor_due(donor) == UINT64_MAX);
		must(strlen(donor_explain(donor, text)) < sizeof text);
	} else {
		must(donor_due(donor) != UINT64_MAX);
	}
	(void)now;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct donor_config config = {
	    .key = key, .id = {1}, .nonce = {2}, .connect_ns = 2000 * MS, .timeout_ns = 5000 * MS};
	uint64_t now = 1;
	struct donor donor;

	donor_init(&donor, &config, now);
	channel.begun = false;
	while (size >= 2) {
		enum step kind = data[0] % STEPS;
		size_t length = data[1] < size - 2 ? data[1] : size - 2;
		struct donor_answer answer = {0};
		enum donor_state before = donor.state;

		step(&donor, kind, data + 2, length, &now, &answer);
		check(&donor, before, &answer, now);
		data += 2 + length;
		size -= 2 + length;
	}
	return 0;
}

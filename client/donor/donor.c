#include "client/donor/donor.h"

#include "common/format.h"
#include "common/least.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* After this many heartbeats of silence, the session is LOST. */
#define DONOR_SILENCE 4
/* The limits for a donor's heartbeat. A shorter heartbeat would wake both sides too often. With a longer heartbeat,
   the client would notice the death of a donor too late. */
#define HEARTBEAT_MIN_MS 50u
#define HEARTBEAT_MAX_MS 60000u

static const uint8_t transitions[] = {
    [DONOR_CONNECTING] = 1 << DONOR_GREETED | 1 << DONOR_LOST,
    [DONOR_GREETED] = 1 << DONOR_PROVING | 1 << DONOR_LOST,
    [DONOR_PROVING] = 1 << DONOR_READY | 1 << DONOR_LOST,
    [DONOR_READY] = 1 << DONOR_LOST,
    [DONOR_LOST] = 0,
};

static void donor_move(struct donor *donor, enum donor_state state)
{
	assert(transitions[donor->state] >> state & 1);
	donor->state = state;
}

void donor_init(struct donor *donor, const struct donor_config *config, uint64_t now)
{
	*donor = (struct donor){.config = *config, .state = DONOR_CONNECTING, .deadline = now + config->connect_ns};
	memcpy(donor->session.client_id, config->id, WIRE_ID_SIZE);
	memcpy(donor->session.client_nonce, config->nonce, WIRE_NONCE_SIZE);
}

void donor_hello(const struct donor *donor, uint8_t bytes[WIRE_HELLO_SIZE])
{
	struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_SESSION};

	memcpy(hello.id, donor->config.id, WIRE_ID_SIZE);
	memcpy(hello.nonce, donor->config.nonce, WIRE_NONCE_SIZE);
	wire_encode_hello(&hello, bytes);
}

void donor_fail(struct donor *donor, int status)
{
	if (donor->state == DONOR_LOST)
		return;
	donor->status = status;
	donor_move(donor, DONOR_LOST);
}

static void donor_lose(struct donor *donor, int status, struct donor_answer *answer)
{
	donor_fail(donor, status);
	answer->news = DONOR_IS_LOST;
}

static void donor_refused(struct donor *donor, uint16_t reason, uint16_t detail, struct donor_answer *answer)
{
	static const int statuses[WIRE_REASON_COUNT] = {
	    [WIRE_REASON_VERSION] = -EPROTONOSUPPORT,
	    [WIRE_REASON_KEY] = -EKEYREJECTED,
	    [WIRE_REASON_KEY_NEEDED] = -EKEYREJECTED,
	    [WIRE_REASON_KEY_UNKNOWN] = -EKEYREJECTED,
	    [WIRE_REASON_FULL] = -EBUSY,
	    [WIRE_REASON_LEAVING] = -ECONNREFUSED,
	};
	int status = reason < WIRE_REASON_COUNT ? statuses[reason] : 0;

	donor->reason = reason;
	donor->detail = detail;
	donor_lose(donor, status ? status : -EPROTO, answer);
}

void donor_connected(struct donor *donor, uint64_t now)
{
	if (donor->state != DONOR_CONNECTING)
		return;
	donor->heard = donor->said = now;
	donor_move(donor, DONOR_GREETED);
}

static void donor_challenged(struct donor *donor, const struct wire_message *message, uint64_t now,
			     struct donor_answer *answer)
{
	bool has_key = donor->config.key != NULL;

	/* If only one side has a key, refuses at once, so that neither side sees a proof that cannot be right. */
	if (message->challenge.needs_key && !has_key) {
		donor_refused(donor, WIRE_REASON_KEY_NEEDED, 0, answer);
		return;
	}
	if (!message->challenge.needs_key && has_key) {
		donor_refused(donor, WIRE_REASON_KEY_UNKNOWN, 0, answer);
		return;
	}
	memcpy(donor->session.donor_nonce, message->challenge.nonce, WIRE_NONCE_SIZE);
	answer->reply = (struct wire_message){.type = WIRE_PROOF};
	answer->reply.proof.has_key = has_key;
	answer->reply.proof.grace_ms = donor->config.grace_ms;
	answer->reply.proof.closed_ms = donor->config.closed_ms;
	answer->reply.proof.about = donor->config.about;
	auth_client_mac(donor->config.key, &donor->session, answer->reply.proof.mac);
	auth_session_key(donor->config.key, &donor->session, donor->session_key);
	channel_begin(&donor->channel, donor->session_key, true);
	answer->send = true;
	donor->said = now;
	donor->proved = true;
	donor_move(donor, DONOR_PROVING);
}

static void donor_welcomed(struct donor *donor, const struct wire_message *message, uint64_t now,
			   struct donor_answer *answer)
{
	uint32_t heartbeat_ms = message->welcome.heartbeat_ms;
	uint8_t mac[WIRE_MAC_SIZE];

	auth_donor_mac(donor->config.key, &donor->session, mac);
	if (!auth_mac_equal(mac, message->welcome.mac, WIRE_MAC_SIZE)) {
		donor_refused(donor, WIRE_REASON_KEY, 0, answer);
		return;
	}
	if (heartbeat_ms < HEARTBEAT_MIN_MS)
		heartbeat_ms = HEARTBEAT_MIN_MS;
	if (heartbeat_ms > HEARTBEAT_MAX_MS)
		heartbeat_ms = HEARTBEAT_MAX_MS;
	donor->heartbeat_ns = heartbeat_ms * UINT64_C(1000000);
	donor->capacity = message->welcome.capacity;
	donor->incarnation = message->welcome.incarnation;
	donor->slabs = message->welcome.slabs;
	donor->grace_ms = message->welcome.grace_ms;
	memcpy(donor->failure_domain, message->welcome.failure_domain, sizeof donor->failure_domain);
	donor->said = now;
	donor_move(donor, DONOR_READY);
	answer->news = DONOR_IS_READY;
}

static void donor_answered(struct donor *donor, const struct wire_message *message, uint64_t now,
			   struct donor_answer *answer)
{
	if (!donor->waiting) {
		donor_lose(donor, -EPROTO, answer);
		return;
	}
	donor->waiting--;
	donor->waiting_since = now;
	switch (message->type) {
	case WIRE_GRANTED:
		donor->capacity = message->granted.capacity;
		break;
	case WIRE_DENIED:
		donor->capacity = message->denied.capacity;
		break;
	case WIRE_RELEASED:
		donor->capacity = message->released.capacity;
		break;
	case WIRE_STATUS_REPLY:
		donor->capacity = message->status_reply.capacity;
		break;
	case WIRE_DRAINING:
		donor->capacity = message->draining.capacity;
		break;
	default: /* the message has no figures */
		break;
	}
	answer->message = *message;
	answer->news = DONOR_ANSWERED;
}

static void donor_recalled(struct donor *donor, const struct wire_message *message, struct donor_answer *answer)
{
	if (message->type == WIRE_REVOKE)
		donor->capacity = message->revoke.capacity;
	else if (message->type == WIRE_REVOKED)
		donor->capacity = message->revoked.capacity;
	answer->message = *message;
	answer->news = DONOR_RECALLS;
}

static void donor_ready_received(struct donor *donor, const struct wire_message *message, uint64_t now,
				 struct donor_answer *answer)
{
	switch (message->type) {
	case WIRE_GRANTED:
	case WIRE_DENIED:
	case WIRE_RELEASED:
	case WIRE_STATUS_REPLY:
	case WIRE_DRAINING:
	case WIRE_HOLDER_REPLY:
		donor_answered(donor, message, now, answer);
		return;
	case WIRE_REVOKE:
	case WIRE_REVOKED:
	case WIRE_KEEP:
		donor_recalled(donor, message, answer);
		return;
	case WIRE_PING:
		answer->reply = (struct wire_message){.type = WIRE_PONG, .request = message->request};
		answer->send = true;
		donor->said = now;
		return;
	case WIRE_PONG:
		return;
	case WIRE_SUSPEND:
		donor_lose(donor, -ERESTART, answer);
		return;
	case WIRE_REFUSED:
		donor_refused(donor, message->refused.reason, 0, answer);
		return;
	default:
		donor_lose(donor, -EPROTO, answer);
		return;
	}
}

/* Returns true for the messages with which a donor that lacks our key may refuse us. */
static bool refuses_key(const struct wire_message *message)
{
	return message->type == WIRE_REFUSED &&
	       (message->refused.reason == WIRE_REASON_KEY || message->refused.reason == WIRE_REASON_KEY_NEEDED ||
		message->refused.reason == WIRE_REASON_KEY_UNKNOWN);
}

/* Decodes a message. Returns true if the message is valid and is the donor's next message. During PROVING, a donor
   that lacks our key may refuse without a valid MAC. A WELCOME with a wrong MAC means that the donor has another
   key. */
static bool message_take(struct donor *donor, const void *bytes, size_t size, struct wire_message *message)
{
	int length;

	if (donor->state == DONOR_PROVING && !wire_decode(bytes, size, message) && refuses_key(message))
		return true;
	length = channel_open(&donor->channel, bytes, size);
	if (length >= 0)
		return !wire_decode(bytes, (size_t)length, message);
	if (donor->state == DONOR_PROVING && size > WIRE_SEAL_SIZE &&
	    !wire_decode(bytes, size - WIRE_SEAL_SIZE, message) && message->type == WIRE_WELCOME)
		donor->reason = WIRE_REASON_KEY;
	return false;
}

void donor_received(struct donor *donor, const void *bytes, size_t size, uint64_t now, struct donor_answer *answer)
{
	struct wire_message message;

	*answer = (struct donor_answer){0};
	if (donor->state == DONOR_LOST)
		return;
	if (donor->state == DONOR_CONNECTING || !message_take(donor, bytes, size, &message)) {
		if (donor->reason)
			donor_refused(donor, donor->reason, 0, answer);
		else
			donor_lose(donor, -EPROTO, answer);
		return;
	}
	donor->heard = now;
	if (donor->state == DONOR_READY)
		donor_ready_received(donor, &message, now, answer);
	else if (message.type == WIRE_REFUSED)
		donor_refused(donor, message.refused.reason, 0, answer);
	else if (donor->state == DONOR_GREETED && message.type == WIRE_CHALLENGE)
		donor_challenged(donor, &message, now, answer);
	else if (donor->state == DONOR_PROVING && message.type == WIRE_WELCOME)
		donor_welcomed(donor, &message, now, answer);
	else
		donor_lose(donor, -EPROTO, answer);
}

void donor_disconnected(struct donor *donor, int status, const void *data, size_t size, struct donor_answer *answer)
{
	struct wire_reject reject;

	*answer = (struct donor_answer){0};
	if (donor->state == DONOR_LOST)
		return;
	if (donor->state == DONOR_CONNECTING && size && !wire_decode_reject(data, size, &reject))
		donor_refused(donor, reject.reason, reject.detail, answer);
	else
		donor_lose(donor, status ? status : -ECONNRESET, answer);
}

void donor_tick(struct donor *donor, uint64_t now, struct donor_answer *answer)
{
	*answer = (struct donor_answer){0};
	if (donor->state == DONOR_LOST)
		return;
	if (donor->state != DONOR_READY) {
		if (now >= donor->deadline)
			donor_lose(donor, -ETIMEDOUT, answer);
		return;
	}
	if (now >= donor->heard + DONOR_SILENCE * donor->heartbeat_ns ||
	    (donor->waiting && now >= donor->waiting_since + donor->config.timeout_ns)) {
		donor_lose(donor, -ETIMEDOUT, answer);
		return;
	}
	if (now >= donor->said + donor->heartbeat_ns) {
		answer->reply = (struct wire_message){.type = WIRE_PING};
		answer->send = true;
		donor->said = now;
	}
}

uint64_t donor_due(const struct donor *donor)
{
	uint64_t due;

	if (donor->state == DONOR_LOST)
		return UINT64_MAX;
	if (donor->state != DONOR_READY)
		return donor->deadline;
	due = least(donor->said + donor->heartbeat_ns, donor->heard + DONOR_SILENCE * donor->heartbeat_ns);
	if (donor->waiting)
		due = least(due, donor->waiting_since + donor->config.timeout_ns);
	return due;
}

void donor_requested(struct donor *donor, uint64_t now)
{
	assert(donor->state == DONOR_READY);
	if (!donor->waiting++)
		donor->waiting_since = now;
	donor->said = now;
}

static const char *explain_reason(const struct donor *donor, char text[DONOR_EXPLAIN_MAX])
{
	const char *advice = "";

	switch (donor->reason) {
	case WIRE_REASON_VERSION:
		format_text(text, DONOR_EXPLAIN_MAX,
			    "speaks protocol version %u, this farpage version %u: install the same farpage on both",
			    donor->detail, WIRE_VERSION);
		return text;
	case WIRE_REASON_KEY:
		advice = ": check --key, both sides need the same key file";
		break;
	case WIRE_REASON_KEY_NEEDED:
		advice = ": give its key file with --key";
		break;
	case WIRE_REASON_KEY_UNKNOWN:
		advice = ": start it with --key, or leave --key out here";
		break;
	case WIRE_REASON_FULL:
		advice = ": stop another client, or use another donor";
		break;
	case WIRE_REASON_LEAVING:
		advice = ": use another donor";
		break;
	default:
		break;
	}
	format_text(text, DONOR_EXPLAIN_MAX, "refuses this client (%s)%s", wire_reason_name(donor->reason), advice);
	return text;
}

const char *donor_explain(const struct donor *donor, char text[DONOR_EXPLAIN_MAX])
{
	if (donor->reason)
		return explain_reason(donor, text);
	switch (donor->status) {
	case -ECONNREFUSED:
		return strcpy(text, "refuses the connection: is farpage-memserver running there?");
	case -ENOENT:
		return strcpy(text, "has no address: check the name");
	case -EINVAL:
		return strcpy(text, "is not an address: write auto://HOST:PORT, rdma://HOST:PORT or tcp://HOST:PORT");
	case -ENODEV:
		return strcpy(text, "cannot be reached: this host has no RDMA device; write auto:// or tcp://");
	case -EPROTO:
		return strcpy(text, "is not a farpage donor, or broke the protocol: check address and port");
	case -ETIMEDOUT:
		return strcpy(text, "does not answer in time: check that it runs and can be reached");
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		return strcpy(text, "cannot be reached: check address and network");
	case -ERESTART:
		return strcpy(text, "is being upgraded: try again in a moment");
	case -ECONNRESET:
		return strcpy(text, "broke off the connection: is it a farpage donor of the same version?");
	default:
		format_text(text, DONOR_EXPLAIN_MAX, "cannot be used: %s", format_errno(donor->status));
		return text;
	}
}

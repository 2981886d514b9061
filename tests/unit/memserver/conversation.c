/* conversation: see conversation.h. conversation_world.h has the simulated fabric, slabs and clock. */
#include "common/log.h"
#include "memserver/connection.h"
#include "tests/unit/memserver/conversation_world.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- What clients do ------------------------------------------------------------------------------------- */

struct reader {
	const uint8_t *bytes;
	size_t left;
};

static uint8_t take(struct reader *reader)
{
	if (!reader->left)
		return 0;
	reader->left--;
	return *reader->bytes++;
}

static void event(struct donor *donor, struct fabric_conn *conn, enum fabric_event_kind kind, const void *data,
		  size_t size)
{
	const struct fabric_event e = {
	    .kind = kind, .conn = conn, .user = conn->user, .data = data, .size = size, .status = -ECONNRESET};
	const enum conn_state state = conn->state;

	if (world.pressed) {
		world.pressed = false;
		donor_target(donor, world.now, world.target, true);
		world_expect(conn->state == state && conn->user == e.user,
			     "a connection ends before its event is handled");
	}
	if (!world.wrong)
		connection_event(donor, &e);
}

/* Sends a connect request, honest or not. */
static void client_connect(struct donor *donor, struct reader *reader)
{
	struct wire_hello hello = {.version = WIRE_VERSION};
	uint8_t dice = take(reader), bytes[WIRE_HELLO_SIZE];
	int who = take(reader) % CLIENTS;
	struct client *client = &world.clients[who];
	struct fabric_conn *conn = NULL;

	for (int i = 0; i < CONNS && !conn; i++)
		if (world.conns[i].state == CONN_UNUSED)
			conn = &world.conns[i];
	if (!conn)
		return;
	hello.role = (dice & 1) && (dice & 4) ? WIRE_SESSION : WIRE_ATTACH;
	memset(hello.id, who + 1, sizeof hello.id);
	hello.counter = dice & 2 ? client->counter : ++client->counter;
	auth_attach_mac(client->session_key, hello.id, hello.counter, hello.mac);
	if ((dice & 0x1c) == 0x1c)
		hello.mac[0] ^= 1;
	wire_encode_hello(&hello, bytes);
	if ((dice & 0xe0) == 0xe0)
		bytes[take(reader) % sizeof bytes] ^= take(reader);
	*conn = (struct fabric_conn){.state = CONN_REQUESTED, .client = who, .is_session = hello.role == WIRE_SESSION};
	event(donor, conn, FABRIC_CONNECT_REQUEST, bytes, sizeof bytes);
	world_expect(conn->state != CONN_REQUESTED, "a connect request is not answered");
	if (conn->state != CONN_ACCEPTED)
		return;
	world.counts->attached += !conn->is_session;
	conn->established = true;
	event(donor, conn, FABRIC_ESTABLISHED, NULL, 0);
}

static struct fabric_conn *conn_pick(struct reader *reader)
{
	struct fabric_conn *conn = &world.conns[take(reader) % CONNS];

	return conn->state == CONN_ACCEPTED ? conn : NULL;
}

/* Makes a proof. It is valid if the donor's last message was a challenge. */
static void proof_make(struct fabric_conn *conn, struct wire_message *message)
{
	struct client *client = &world.clients[conn->client];

	message->type = WIRE_PROOF;
	message->proof.grace_ms = 3000;
	message->proof.closed_ms = 1000;
	snprintf(message->proof.about.user, sizeof message->proof.about.user, "user%d", conn->client);
	message->proof.about.pid = (uint32_t)conn->client;
	if (!conn->said || conn->last.type != WIRE_CHALLENGE)
		return;
	memset(&client->auth, 0, sizeof client->auth);
	memset(client->auth.client_id, conn->client + 1, WIRE_ID_SIZE);
	memcpy(client->auth.donor_nonce, conn->last.challenge.nonce, WIRE_NONCE_SIZE);
	auth_client_mac(NULL, &client->auth, message->proof.mac);
	auth_session_key(NULL, &client->auth, client->session_key);
	channel_begin(&conn->channel, client->session_key, true);
	client->counter = 0;
}

/* Returns what a well-behaved client would send next on this connection, or WIRE_TYPE_COUNT on a data connection. */
static enum wire_type civil(const struct fabric_conn *conn, uint8_t dice)
{
	static const enum wire_type types[16] = {
	    WIRE_LEASE,   WIRE_LEASE,   WIRE_LEASE,  WIRE_LEASE, WIRE_LEASE,   WIRE_LEASE, WIRE_LEASE, WIRE_RELEASE,
	    WIRE_RELEASE, WIRE_RELEASE, WIRE_STATUS, WIRE_CLAIM, WIRE_CLAIMED, WIRE_PING,  WIRE_PONG,  WIRE_BYE};

	if (!conn->is_session)
		return WIRE_TYPE_COUNT;
	return conn->said && conn->last.type == WIRE_CHALLENGE ? WIRE_PROOF : types[dice % 16];
}

/* Returns the name of a slab that the client has or had. If it never had one, returns any number. */
static uint64_t name_pick(const struct client *client, struct reader *reader)
{
	unsigned count = client->name_count < 8 ? client->name_count : 8;

	return count ? client->names[take(reader) % count] : take(reader);
}

static void client_say(struct donor *donor, struct reader *reader)
{
	struct fabric_conn *conn = conn_pick(reader);
	uint8_t dice = take(reader), rude = take(reader), bytes[WIRE_SEALED_MAX];
	struct wire_message message = {.request = dice};
	size_t size;

	if (!conn)
		return;
	message.type = rude < 8 ? (uint16_t)(1 + dice % (WIRE_TYPE_COUNT - 1)) : (uint16_t)civil(conn, dice);
	if (message.type == WIRE_TYPE_COUNT)
		return;
	if (message.type == WIRE_PROOF)
		proof_make(conn, &message);
	if (message.type == WIRE_DRAIN) {
		message.drain.what = take(reader) % WIRE_DRAIN_COUNT;
		message.drain.deadline_ms = take(reader) * 10u;
	}
	if (message.type == WIRE_WARM)
		message.warm.of[0].slab = name_pick(&world.clients[conn->client], reader);
	if (message.type == WIRE_RELEASE || message.type == WIRE_CLAIM)
		message.release.slab =
		    name_pick(&world.clients[dice >= 224 ? take(reader) % CLIENTS : conn->client], reader);
	size = wire_encode(&message, bytes);
	if (rude != 249)
		size = channel_seal(&conn->channel, bytes, size);
	if (rude >= 250)
		bytes[take(reader) % size] ^= take(reader);
	event(donor, conn, FABRIC_MESSAGE, bytes, size);
}

/* Drains, ends a drain, or asks which clients hold slabs, over a session that exists. */
static void operator_say(struct donor *donor, struct reader *reader)
{
	struct fabric_conn *conn = conn_pick(reader);
	struct wire_message message = {.request = 1};
	uint8_t dice = take(reader), bytes[WIRE_SEALED_MAX];

	if (!conn || !conn->is_session)
		return;
	message.type = dice & 1 ? WIRE_DRAIN : WIRE_HOLDER;
	if (dice & 1) {
		message.drain.what = dice / 2 % WIRE_DRAIN_COUNT;
		message.drain.deadline_ms = dice;
	} else {
		message.holder.from = dice / 64;
	}
	event(donor, conn, FABRIC_MESSAGE, bytes, channel_seal(&conn->channel, bytes, wire_encode(&message, bytes)));
}

static void client_lose(struct donor *donor, struct reader *reader)
{
	struct fabric_conn *conn = conn_pick(reader);

	if (!conn)
		return;
	conn->state = CONN_LOST;
	event(donor, conn, FABRIC_DISCONNECTED, NULL, 0);
	world_expect(conn->state == CONN_UNUSED, "a lost connection is not ended");
}

/* Checks that each data connection is in the domain of its client's session and is counted there. */
static void check(const struct donor *donor)
{
	for (uint32_t i = 0; i < donor->config.limits.sessions; i++) {
		const struct lease_session *session = &donor->book->sessions[i];
		unsigned conns = 0;

		for (int j = 0; j < CONNS; j++) {
			const struct fabric_conn *conn = &world.conns[j];

			if (conn->state != CONN_ACCEPTED || conn->is_session ||
			    conn->domain != donor->sessions[i].domain)
				continue;
			conns++;
			world_expect(session->id[0] == conn->client + 1,
				     "a data connection is in another client's domain");
		}
		world_expect(conns == session->conns, "the data connections of a session are miscounted");
	}
}

static void step(struct donor *donor, struct reader *reader)
{
	uint8_t dice = take(reader);

	switch (dice % 16) {
	case 0:
		client_connect(donor, reader);
		break;
	case 1:
	case 2:
		if (dice < 64)
			client_lose(donor, reader);
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		world_worker_step(donor, dice / 16 % SLABS, dice < 240);
		break;
	case 7:
		world.now += take(reader) * (dice >= 240 ? 40 * MS : MS);
		break;
	case 8:
		world.fail_next = dice >= 192;
		if (dice < 64)
			donor_target(donor, world.now, take(reader) % (SLABS + 1), dice & 32);
		else if (dice < 128)
			operator_say(donor, reader);
		else
			world.pressed = dice & 16;
		world.target = dice / 32 % 2;
		break;
	default:
		client_say(donor, reader);
	}
	if (world.now >= donor_deadline(donor))
		donor_tick(donor, world.now);
	donor_end_deaf(donor);
	world_expect(donor_deadline(donor) > world.now, "a deadline that has passed stays pending");
	check(donor);
}

const char *conversation_run(const uint8_t *bytes, size_t size, struct conversation_counts *counts)
{
	static const struct donor_config config = {
	    .limits = {.slabs = SLABS,
		       .slab_bytes = SLAB_BYTES,
		       .sessions = CLIENTS - 1,
		       .session_conns = 3,
		       .grace_ns = 2000 * MS,
		       .heartbeat_ns = 1000 * MS,
		       .revoke_ns = 500 * MS},
	    .slabs = {.slabs = SLABS, .bytes = SLAB_BYTES},
	};
	struct reader reader = {bytes, size};
	struct donor *donor;

	memset(&world, 0, sizeof world);
	world.counts = counts;
	world.now = 1000 * MS;
	if (donor_open(&config, &donor) < 0)
		return "the donor cannot be opened";
	while (reader.left && !world.wrong)
		step(donor, &reader);
	world.fail_next = false;
	donor_leave(donor);
	donor_close(donor);
	for (int i = 0; i < CONNS; i++)
		world_expect(world.conns[i].state == CONN_UNUSED, "a connection is left at the end");
	world_expect(!world.domains && !world.regions, "a domain or a region is left at the end");
	return world.wrong;
}

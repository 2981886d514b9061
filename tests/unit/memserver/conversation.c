/*
 * conversation: see conversation.h. This file defines the functions of fabric.h, slab.h and clock.h in place of the
 * real ones. They check that the donor keeps to the rules of these headers.
 */
#include "tests/unit/memserver/conversation.h"

#include "common/clock.h"
#include "common/log.h"
#include "memserver/connection.h"
#include "memserver/donor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNS 24
#define CLIENTS 4
#define SLABS 4
#define SLAB_BYTES 4096u
#define MS UINT64_C(1000000)

/* --- The simulated world --------------------------------------------------------------------------------- */

struct fabric_domain {
	unsigned regions, conns;
};
struct fabric_region {
	struct fabric_domain *domain;
	char *base;
};
enum conn_state { CONN_UNUSED, CONN_REQUESTED, CONN_ACCEPTED, CONN_LOST };
struct fabric_conn {
	enum conn_state state;
	struct fabric_domain *domain;
	void *user;
	int client;
	bool is_session, established;
	struct channel channel;   /* the client's end */
	struct wire_message last; /* the donor's last message */
	bool said;
	bool gap; /* a message was lost, so all later sends fail */
};
struct fabric {
	int unused;
};
struct slab_worker {
	int unused;
};

struct client {
	uint64_t counter;
	uint8_t session_key[AUTH_KEY_SIZE];
	struct auth_session auth;
	uint64_t names[8];
	unsigned name_count;
};

static struct world {
	uint64_t now;
	struct fabric_conn conns[CONNS];
	struct client clients[CLIENTS];
	unsigned domains, regions;
	char memory[SLABS][SLAB_BYTES];
	struct fabric_domain *orders[SLABS];
	bool had[SLABS], preparing[SLABS], clearing[SLABS], abandoned[SLABS];
	struct fabric_region *over[SLABS]; /* the region registered over a slab's memory */
	struct slab_answer answers[SLABS];
	unsigned answer_count;
	bool fail_next; /* the next operation that can fail fails */
	const char *wrong;
	struct conversation_counts *counts;
	bool pressed;    /* memory becomes short just before the next event is handled */
	uint32_t target; /* slabs that may be lent while memory is short */
} w;

static void expect(bool good, const char *what)
{
	if (!good && !w.wrong)
		w.wrong = what;
}

static bool fails(void)
{
	bool fail = w.fail_next;

	w.fail_next = false;
	return fail;
}

uint64_t clock_now(void)
{
	return w.now;
}

/* --- fabric.h -------------------------------------------------------------------------------------------- */

int fabric_open(const struct fabric_config *config, struct fabric **ret_fabric)
{
	(void)config;
	*ret_fabric = calloc(1, sizeof **ret_fabric);
	return 0;
}

void fabric_close(struct fabric *fabric)
{
	free(fabric);
}

int fabric_domain_open(struct fabric_domain **ret_domain)
{
	if (fails())
		return -ENOMEM;
	*ret_domain = calloc(1, sizeof **ret_domain);
	w.domains++;
	return 0;
}

void fabric_domain_close(struct fabric_domain *domain)
{
	if (!domain)
		return;
	expect(!domain->regions, "a domain is closed while regions are in it");
	expect(!domain->conns, "a domain is closed while connections are in it");
	w.domains--;
	free(domain);
}

static int slab_at(const void *base)
{
	return (int)(((const char *)base - w.memory[0]) / SLAB_BYTES);
}

int fabric_register(struct fabric_domain *domain, void *base, size_t length, unsigned access,
		    struct fabric_region **ret_region)
{
	if (fails())
		return -ENOSPC;
	expect(length == SLAB_BYTES && access == (FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE),
	       "a slab is registered with another size or other rights");
	expect(!w.over[slab_at(base)], "a slab is registered twice");
	*ret_region = calloc(1, sizeof **ret_region);
	(*ret_region)->domain = domain;
	(*ret_region)->base = base;
	w.over[slab_at(base)] = *ret_region;
	domain->regions++;
	w.regions++;
	return 0;
}

void fabric_deregister(struct fabric_region *region)
{
	if (!region)
		return;
	if (!w.over[slab_at(region->base)]) {
		expect(false, "a slab is deregistered twice");
		return;
	}
	w.over[slab_at(region->base)] = NULL;
	region->domain->regions--;
	w.regions--;
	free(region);
}

struct fabric_remote fabric_export(const struct fabric_region *region, const struct fabric_conn *conn)
{
	expect(conn->state == CONN_ACCEPTED || conn->state == CONN_LOST,
	       "a slab is exported to a connection that was not accepted");
	if (fails()) {
		w.counts->unreachable++;
		return (struct fabric_remote){0};
	}
	return (struct fabric_remote){.address = (uintptr_t)region->base, .rkey = 1};
}

int fabric_accept(struct fabric_conn *conn, struct fabric_domain *domain, void *user)
{
	expect(conn->state == CONN_REQUESTED, "a connection without a connect request is accepted");
	if (fails()) {
		conn->state = CONN_LOST;
		return -ENOMEM;
	}
	conn->state = CONN_ACCEPTED;
	conn->domain = domain;
	conn->user = user;
	domain->conns++;
	if (conn->is_session)
		expect(!domain->regions, "a session connection is accepted in a domain with regions");
	return 0;
}

void fabric_reject(struct fabric_conn *conn, const void *private_data, size_t private_size)
{
	struct wire_reject reject;

	expect(conn->state == CONN_REQUESTED, "a connection without a connect request is rejected");
	expect(!wire_decode_reject(private_data, private_size, &reject) && reject.reason,
	       "a connection is rejected without a reason");
	conn->state = CONN_UNUSED;
	w.counts->refused++;
}

void fabric_disconnect(struct fabric_conn *conn)
{
	if (!conn)
		return;
	expect(conn->state == CONN_ACCEPTED || conn->state == CONN_LOST,
	       "a connection is ended twice, or before it began");
	if (conn->domain)
		conn->domain->conns--;
	memset(conn, 0, sizeof *conn);
	w.counts->ended++;
}

const char *fabric_conn_peer(const struct fabric_conn *conn)
{
	expect(conn->state != CONN_UNUSED, "the other end of an ended connection is asked for");
	return "sim://client";
}

uint64_t fabric_conn_origin(const struct fabric_conn *conn)
{
	expect(conn->state != CONN_UNUSED, "the origin of an ended connection is asked for");
	return (uint64_t)conn->client;
}

/* Checks that the memory of a grant is registered for the client that gets it. */
static void granted(struct fabric_conn *conn, const struct wire_message *message)
{
	struct client *client = &w.clients[conn->client];
	int slab = slab_at((void *)(uintptr_t)message->granted.address);

	expect(slab >= 0 && slab < SLABS && w.over[slab], "a slab is granted that is not registered");
	for (int i = 0; i < CONNS && !w.wrong; i++) {
		const struct fabric_conn *other = &w.conns[i];

		if (other->state == CONN_ACCEPTED && !other->is_session && other->domain == w.over[slab]->domain)
			expect(other->client == conn->client, "a slab is granted in the domain of another client");
	}
	client->names[client->name_count++ % 8] = message->granted.slab;
	w.counts->grants++;
}

int fabric_send(struct fabric_conn *conn, const void *bytes, size_t size)
{
	struct wire_message message;
	int length;

	expect(conn->state == CONN_ACCEPTED || conn->state == CONN_LOST, "a message is sent to an ended connection");
	expect(conn->established, "a message is sent before its connection is established");
	if (conn->state == CONN_LOST)
		return -ENOTCONN;
	conn->gap = conn->gap || fails();
	if (conn->gap)
		return -ENOBUFS;
	if (wire_decode(bytes, size, &message) || (message.type != WIRE_CHALLENGE && message.type != WIRE_REFUSED)) {
		length = channel_open(&conn->channel, bytes, size);
		expect(conn->channel.begun && length > 0 && !wire_decode(bytes, (size_t)length, &message),
		       "the donor sends a message that does not decode or is not sealed");
	}
	if (w.wrong)
		return 0;
	conn->last = message;
	conn->said = true;
	if (message.type == WIRE_GRANTED)
		granted(conn, &message);
	w.counts->sessions += message.type == WIRE_WELCOME;
	w.counts->returned += message.type == WIRE_RELEASED;
	w.counts->revokes += message.type == WIRE_REVOKE;
	w.counts->takens += message.type == WIRE_REVOKED;
	w.counts->drains += message.type == WIRE_DRAINING;
	return 0;
}

/* --- slab.h ---------------------------------------------------------------------------------------------- */

int slab_open(const struct slab_config *config, struct slab_worker **ret_worker)
{
	(void)config;
	*ret_worker = calloc(1, sizeof **ret_worker);
	return 0;
}

void slab_close(struct slab_worker *worker)
{
	for (uint32_t i = 0; i < SLABS; i++)
		fabric_deregister(w.over[i]);
	free(worker);
}

void slab_prepare(struct slab_worker *worker, uint32_t slab, struct fabric_domain *domain)
{
	(void)worker;
	expect(!w.had[slab] && !w.preparing[slab] && !w.clearing[slab], "memory is ordered for a slab that has memory");
	expect(domain, "memory is ordered without a domain");
	w.orders[slab] = domain;
	w.preparing[slab] = true;
}

void slab_clear(struct slab_worker *worker, uint32_t slab)
{
	(void)worker;
	expect(w.had[slab] && !w.preparing[slab] && !w.clearing[slab], "a slab without memory is cleared");
	w.clearing[slab] = true;
}

void slab_abandon(struct slab_worker *worker, uint32_t slab)
{
	(void)worker;
	/* The worker has begun all orders for even slabs, and finishes them. It drops orders for odd slabs. */
	w.abandoned[slab] |= w.preparing[slab] && slab % 2;
}

bool slab_answer(struct slab_worker *worker, struct slab_answer *ret_answer)
{
	(void)worker;
	if (!w.answer_count)
		return false;
	*ret_answer = w.answers[--w.answer_count];
	return true;
}

static void worker_step(struct donor *donor, uint32_t slab, bool memory)
{
	struct slab_answer answer = {.slab = slab, .kind = w.clearing[slab] ? SLAB_CLEAR : SLAB_PREPARE};

	if (!w.preparing[slab] && !w.clearing[slab])
		return;
	if (w.clearing[slab]) {
		fabric_deregister(w.over[slab]);
		w.had[slab] = w.clearing[slab] = false;
	} else if (memory && w.abandoned[slab]) {
		answer.status = -ECANCELED;
	} else if (memory) {
		answer.status = fabric_register(w.orders[slab], w.memory[slab], SLAB_BYTES,
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &answer.region);
		answer.memory = answer.status ? NULL : w.memory[slab];
	} else {
		answer.status = -ENOMEM;
	}
	if (answer.memory)
		w.had[slab] = true;
	w.preparing[slab] = w.abandoned[slab] = false;
	w.answers[w.answer_count++] = answer;
	donor_slabs_ready(donor);
}

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

	if (w.pressed) {
		w.pressed = false;
		donor_target(donor, w.now, w.target, true);
		expect(conn->state == state && conn->user == e.user, "a connection ends before its event is handled");
	}
	if (!w.wrong)
		connection_event(donor, &e);
}

/* Sends a connect request, honest or not. */
static void client_connect(struct donor *donor, struct reader *reader)
{
	struct wire_hello hello = {.version = WIRE_VERSION};
	uint8_t dice = take(reader), bytes[WIRE_HELLO_SIZE];
	int who = take(reader) % CLIENTS;
	struct client *client = &w.clients[who];
	struct fabric_conn *conn = NULL;

	for (int i = 0; i < CONNS && !conn; i++)
		if (w.conns[i].state == CONN_UNUSED)
			conn = &w.conns[i];
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
	expect(conn->state != CONN_REQUESTED, "a connect request is not answered");
	if (conn->state != CONN_ACCEPTED)
		return;
	w.counts->attached += !conn->is_session;
	conn->established = true;
	event(donor, conn, FABRIC_ESTABLISHED, NULL, 0);
}

static struct fabric_conn *conn_pick(struct reader *reader)
{
	struct fabric_conn *conn = &w.conns[take(reader) % CONNS];

	return conn->state == CONN_ACCEPTED ? conn : NULL;
}

/* Makes a proof. It is valid if the donor's last message was a challenge. */
static void proof_make(struct fabric_conn *conn, struct wire_message *message)
{
	struct client *client = &w.clients[conn->client];

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
		message.warm.of[0].slab = name_pick(&w.clients[conn->client], reader);
	if (message.type == WIRE_RELEASE || message.type == WIRE_CLAIM)
		message.release.slab =
		    name_pick(&w.clients[dice >= 224 ? take(reader) % CLIENTS : conn->client], reader);
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
	expect(conn->state == CONN_UNUSED, "a lost connection is not ended");
}

/* Checks that each data connection is in the domain of its client's session and is counted there. */
static void check(const struct donor *donor)
{
	for (uint32_t i = 0; i < donor->config.limits.sessions; i++) {
		const struct lease_session *session = &donor->book->sessions[i];
		unsigned conns = 0;

		for (int j = 0; j < CONNS; j++) {
			const struct fabric_conn *conn = &w.conns[j];

			if (conn->state != CONN_ACCEPTED || conn->is_session ||
			    conn->domain != donor->sessions[i].domain)
				continue;
			conns++;
			expect(session->id[0] == conn->client + 1, "a data connection is in another client's domain");
		}
		expect(conns == session->conns, "the data connections of a session are miscounted");
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
		worker_step(donor, dice / 16 % SLABS, dice < 240);
		break;
	case 7:
		w.now += take(reader) * (dice >= 240 ? 40 * MS : MS);
		break;
	case 8:
		w.fail_next = dice >= 192;
		if (dice < 64)
			donor_target(donor, w.now, take(reader) % (SLABS + 1), dice & 32);
		else if (dice < 128)
			operator_say(donor, reader);
		else
			w.pressed = dice & 16;
		w.target = dice / 32 % 2;
		break;
	default:
		client_say(donor, reader);
	}
	if (w.now >= donor_deadline(donor))
		donor_tick(donor, w.now);
	donor_end_deaf(donor);
	expect(donor_deadline(donor) > w.now, "a deadline that has passed stays pending");
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

	memset(&w, 0, sizeof w);
	w.counts = counts;
	w.now = 1000 * MS;
	if (donor_open(&config, &donor) < 0)
		return "the donor cannot be opened";
	while (reader.left && !w.wrong)
		step(donor, &reader);
	w.fail_next = false;
	donor_leave(donor);
	donor_close(donor);
	for (int i = 0; i < CONNS; i++)
		expect(w.conns[i].state == CONN_UNUSED, "a connection is left at the end");
	expect(!w.domains && !w.regions, "a domain or a region is left at the end");
	return w.wrong;
}

/* client: see client.h. */
#include "tests/func/memserver/client.h"

#include "common/clock.h"
#include "common/random.h"
#include "tests/lib/donor.h"
#include "tests/lib/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void client_init(struct client *client, const char *uri, const uint8_t *key, const char *name)
{
	const struct fabric_config config = FABRIC_CONFIG_DEFAULT;

	*client = (struct client){.key = key, .wished_grace_ms = 1000000};
	snprintf(client->uri, sizeof client->uri, "%s", uri);
	snprintf((char *)client->id, sizeof client->id, "%s", name);
	client->buffer = mmap(NULL, CLIENT_BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (client->buffer == MAP_FAILED || fabric_open(&config, &client->fabric) < 0 ||
	    fabric_domain_open(&client->domain) < 0 ||
	    fabric_register(client->domain, client->buffer, CLIENT_BUFFER, FABRIC_LOCAL, &client->region) < 0)
		tap_bail("no fabric");
}

void client_close(struct client *client)
{
	fabric_disconnect(client->data);
	fabric_disconnect(client->session);
	fabric_deregister(client->region);
	fabric_close(client->fabric);
	fabric_domain_close(client->domain);
	munmap(client->buffer, CLIENT_BUFFER);
	memset(client, 0, sizeof *client);
}

static void conn_end(struct client *client, struct fabric_conn *conn)
{
	if (conn == client->session)
		client->session = NULL;
	if (conn == client->data)
		client->data = NULL;
	fabric_disconnect(conn);
}

static int message_send(struct client *client, const struct wire_message *message)
{
	uint8_t bytes[WIRE_SEALED_MAX];

	if (!client->session)
		return -ENOTCONN;
	return fabric_send(client->session, bytes, channel_seal(&client->channel, bytes, wire_encode(message, bytes)));
}

/* Decodes the message into client->heard. A REFUSED for a wrong key is not sealed. */
static int message_open(struct client *client, const struct fabric_event *event)
{
	int size;

	client->heard_status = wire_decode(event->data, event->size, &client->heard);
	if (!client->heard_status && client->heard.type == WIRE_REFUSED)
		return 0;
	size = channel_open(&client->channel, event->data, event->size);
	client->heard_status = size < 0 ? size : wire_decode(event->data, (size_t)size, &client->heard);
	return client->heard_status;
}

/* Answers PINGs and keeps notices. Returns true if @event was a PING or a notice. */
static bool message_passes(struct client *client, const struct fabric_event *event)
{
	const struct wire_message *message = &client->heard, pong = {.type = WIRE_PONG};

	if (event->kind != FABRIC_MESSAGE || message_open(client, event))
		return false;
	if (message->type == WIRE_PING) {
		message_send(client, &pong);
		return true;
	}
	if (message->type != WIRE_REVOKE && message->type != WIRE_REVOKED && message->type != WIRE_KEEP &&
	    message->type != WIRE_SUSPEND)
		return false;
	client->notices[client->notice_count++ % CLIENT_NOTICES] = *message;
	return true;
}

/*
 * Waits for an event of @kind on @conn. Answers PINGs and ignores other events. Returns 0, or -errno if the connection
 * ended first. In that case @conn is freed, and @reason, unless NULL, gets the donor's wire_reason if there was one.
 */
static int event_wait(struct client *client, struct fabric_conn *conn, enum fabric_event_kind kind,
		      struct fabric_event *event, unsigned *reason)
{
	uint64_t end = clock_now() + UINT64_C(1000000) * WAIT_MS;

	while (clock_now() < end) {
		struct wire_reject reject;

		if (fabric_wait(client->fabric, event, 1, 1000) <= 0)
			continue;
		if (message_passes(client, event))
			continue;
		if (event->kind == FABRIC_DISCONNECTED) {
			int status = event->status;

			if (reason && event->size && !wire_decode_reject(event->data, event->size, &reject))
				*reason = reject.reason;
			if (event->conn == client->session)
				client->session_end = status;
			bool mine = event->conn == conn;

			conn_end(client, event->conn);
			if (mine)
				return status < 0 ? status : -EPROTO;
			continue;
		}
		if (event->conn == conn && event->kind == kind)
			return 0;
	}
	return -ETIME;
}

static int message_wait(struct client *client, struct fabric_conn *conn, struct wire_message *message)
{
	struct fabric_event event;
	int status = event_wait(client, conn, FABRIC_MESSAGE, &event, NULL);

	/* message_passes() has decoded the message into client->heard. */
	if (status == 0)
		*message = client->heard;
	return status < 0 ? status : client->heard_status;
}

size_t client_seal(struct client *client, enum wire_type type, uint8_t bytes[WIRE_SEALED_MAX])
{
	const struct wire_message message = {.type = type};

	return channel_seal(&client->channel, bytes, wire_encode(&message, bytes));
}

void client_send_raw(struct client *client, struct fabric_conn *conn, const void *bytes, size_t size)
{
	(void)client;
	fabric_send(conn, bytes, size);
}

static int connect_wait(struct client *client, const struct wire_hello *hello, struct fabric_conn **ret_conn)
{
	uint8_t bytes[WIRE_HELLO_SIZE];
	size_t size = wire_encode_hello(hello, bytes);
	struct fabric_event event;
	struct fabric_conn *conn;
	unsigned reason = 0;
	int status = fabric_connect(client->fabric, client->domain, client->uri, bytes, size, NULL, &conn);

	if (status < 0)
		return status;
	status = event_wait(client, conn, FABRIC_ESTABLISHED, &event, &reason);
	if (status < 0)
		return reason ? (int)reason : status;
	*ret_conn = conn;
	return 0;
}

int client_come(struct client *client)
{
	struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_SESSION};
	struct wire_message message, proof = {.type = WIRE_PROOF};
	struct auth_session auth;
	uint8_t mac[WIRE_MAC_SIZE];
	int status;

	random_secret(hello.nonce, sizeof hello.nonce);
	memcpy(hello.id, client->id, sizeof hello.id);
	client->session_end = 0;
	client->channel.begun = false;
	status = connect_wait(client, &hello, &client->session);
	if (!status)
		status = message_wait(client, client->session, &message);
	if (status)
		return status;
	if (message.type != WIRE_CHALLENGE)
		return -EPROTO;
	memcpy(auth.client_id, hello.id, sizeof auth.client_id);
	memcpy(auth.client_nonce, hello.nonce, sizeof auth.client_nonce);
	memcpy(auth.donor_nonce, message.challenge.nonce, sizeof auth.donor_nonce);
	auth_client_mac(client->key, &auth, proof.proof.mac);
	auth_session_key(client->key, &auth, client->session_key);
	channel_begin(&client->channel, client->session_key, true);
	proof.proof.has_key = client->key != NULL;
	proof.proof.grace_ms = client->wished_grace_ms;
	proof.proof.closed_ms = client->wished_closed_ms ? client->wished_closed_ms : client->wished_grace_ms;
	proof.proof.about = client->about;
	message_send(client, &proof);
	status = message_wait(client, client->session, &message);
	if (status)
		return status;
	if (message.type == WIRE_REFUSED)
		return message.refused.reason;
	auth_donor_mac(client->key, &auth, mac);
	if (message.type != WIRE_WELCOME || !auth_mac_equal(mac, message.welcome.mac, sizeof mac))
		return -EPROTO;
	client->counter = 0;
	client->welcome = message;
	return 0;
}

int client_attach(struct client *client, uint64_t counter)
{
	struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_ATTACH};

	fabric_disconnect(client->data);
	client->data = NULL;
	hello.counter = counter ? counter : ++client->counter;
	memcpy(hello.id, client->id, sizeof hello.id);
	auth_attach_mac(client->session_key, client->id, hello.counter, hello.mac);
	return connect_wait(client, &hello, &client->data);
}

/* Sends a request and waits for its answer, which is of @type or a DENIED. */
static int ask(struct client *client, struct wire_message *message, enum wire_type type)
{
	uint32_t request = message->request = ++client->request;
	int status = message_send(client, message);

	while (!status) {
		status = message_wait(client, client->session, message);
		if (status || message->request != request)
			continue;
		if (message->type == WIRE_DENIED)
			return message->denied.reason;
		return message->type == type ? 0 : -EPROTO;
	}
	return status;
}

int client_lease(struct client *client, struct wire_message *ret_granted)
{
	*ret_granted = (struct wire_message){.type = WIRE_LEASE};
	return ask(client, ret_granted, WIRE_GRANTED);
}

int client_release(struct client *client, uint64_t slab)
{
	struct wire_message message = {.type = WIRE_RELEASE};
	int status;

	message.release.slab = slab;
	status = ask(client, &message, WIRE_RELEASED);
	if (!status && message.released.slab != slab)
		return -EPROTO;
	return status;
}

int client_status(struct client *client, struct wire_capacity *ret_capacity)
{
	struct wire_message message = {.type = WIRE_STATUS};
	int status = ask(client, &message, WIRE_STATUS_REPLY);

	if (!status)
		*ret_capacity = message.status_reply.capacity;
	return status;
}

int client_drain(struct client *client, enum wire_drain what, uint32_t deadline_ms, struct wire_message *ret_draining)
{
	*ret_draining = (struct wire_message){.type = WIRE_DRAIN};
	ret_draining->drain.what = what;
	ret_draining->drain.deadline_ms = deadline_ms;
	return ask(client, ret_draining, WIRE_DRAINING);
}

int client_holder(struct client *client, uint32_t from, struct wire_message *ret_holder)
{
	*ret_holder = (struct wire_message){.type = WIRE_HOLDER};
	ret_holder->holder.from = from;
	return ask(client, ret_holder, WIRE_HOLDER_REPLY);
}

int client_claim(struct client *client, uint64_t slab, struct wire_message *ret_granted)
{
	*ret_granted = (struct wire_message){.type = WIRE_CLAIM};
	ret_granted->claim.slab = slab;
	return ask(client, ret_granted, WIRE_GRANTED);
}

static uint64_t notice_slab(const struct wire_message *notice)
{
	return notice->type == WIRE_REVOKE    ? notice->revoke.slab
	       : notice->type == WIRE_REVOKED ? notice->revoked.slab
					      : notice->keep.slab;
}

unsigned client_notices(const struct client *client, enum wire_type type)
{
	unsigned count = 0;

	for (unsigned i = 0; i < client->notice_count && i < CLIENT_NOTICES; i++)
		count += client->notices[i].type == type;
	return count;
}

bool client_noticed(const struct client *client, enum wire_type type, uint64_t slab)
{
	bool is = false;

	for (unsigned i = 0; i < client->notice_count && i < CLIENT_NOTICES; i++)
		if (notice_slab(&client->notices[i]) == slab)
			is = client->notices[i].type == type;
	return is;
}

bool client_wait_notices(struct client *client, enum wire_type type, unsigned count)
{
	uint64_t end = clock_now() + UINT64_C(1000000) * WAIT_MS;
	struct fabric_event event;

	while (client_notices(client, type) < count && clock_now() < end) {
		if (fabric_wait(client->fabric, &event, 1, 1000) <= 0 || message_passes(client, &event))
			continue;
		if (event.kind == FABRIC_DISCONNECTED)
			conn_end(client, event.conn);
		if (!client->session)
			break;
	}
	if (client_notices(client, type) >= count)
		return true;
	printf("# %u of %u notices\n", client_notices(client, type), count);
	return false;
}

void client_bye(struct client *client)
{
	struct wire_message message = {.type = WIRE_BYE};

	message_send(client, &message);
}

void client_suspend(struct client *client)
{
	struct wire_message message = {.type = WIRE_SUSPEND};

	message_send(client, &message);
	client_close(client);
}

int client_enter(struct client *client, const struct donor_process *donor, const uint8_t *key, const char *name)
{
	client_init(client, donor->uri, key, name);
	return client_come(client);
}

int client_visit(const struct donor_process *donor, const uint8_t *key, const char *name)
{
	struct client client;
	int status = client_enter(&client, donor, key, name);

	client_close(&client);
	return status;
}

void client_arrive(struct client *client, const struct donor_process *donor, const char *name)
{
	if (client_enter(client, donor, NULL, name) || client_attach(client, 0))
		tap_bail("%s cannot come", name);
}

void client_leave(struct client *client)
{
	client_bye(client);
	client_wait_end(client, client->session);
	client_close(client);
}

static int operate(struct client *client, enum fabric_op_kind kind, uint64_t address, uint32_t rkey, uint32_t length)
{
	const struct fabric_op op = {.kind = kind,
				     .length = length,
				     .local = client->buffer,
				     .region = client->region,
				     .remote = {.address = address, .rkey = rkey},
				     .cookie = 77};
	struct fabric_event event;
	int status = client->data ? fabric_post(client->data, &op, 1) : -ENOTCONN;

	if (status != 1)
		return status < 0 ? status : -EBUSY;
	status = event_wait(client, client->data, FABRIC_DONE, &event, NULL);
	if (status < 0)
		return status;
	return event.cookie == 77 ? event.status : -EPROTO;
}

int client_read(struct client *client, uint64_t address, uint32_t rkey, uint32_t length)
{
	return operate(client, FABRIC_READ, address, rkey, length);
}

int client_write(struct client *client, uint64_t address, uint32_t rkey, uint32_t length)
{
	return operate(client, FABRIC_WRITE, address, rkey, length);
}

int client_get(struct client *client, const struct wire_message *grant, uint32_t length)
{
	return client_read(client, grant->granted.address, grant->granted.rkey, length);
}

int client_put(struct client *client, const struct wire_message *grant, uint32_t length)
{
	return client_write(client, grant->granted.address, grant->granted.rkey, length);
}

bool client_wait_capacity(struct client *client, uint64_t leased, unsigned clients)
{
	uint64_t end = clock_now() + UINT64_C(1000000) * WAIT_MS;
	struct wire_capacity capacity = {0};

	while (clock_now() < end) {
		if (client_status(client, &capacity))
			break;
		if (capacity.leased == leased && capacity.clients == clients)
			return true;
	}
	printf("# leased %llu, %u clients\n", (unsigned long long)capacity.leased, capacity.clients);
	return false;
}

bool client_wait_end(struct client *client, struct fabric_conn *conn)
{
	struct fabric_event event;

	/* An event of this kind never comes on this connection, so this waits for its end. */
	return event_wait(client, conn, FABRIC_CONNECT_REQUEST, &event, NULL) != -ETIME;
}

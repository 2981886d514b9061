/* connection: see connection.h. */
#include "memserver/connection.h"

#include "common/log.h"
#include "common/random.h"
#include "memserver/drain.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Life of a connection -------------------------------------------------------------------------------- */

static void list_insert(struct connection **list, struct connection *connection)
{
	connection->next = *list;
	connection->link = list;
	if (connection->next)
		connection->next->link = &connection->next;
	*list = connection;
}

static void list_remove(struct connection *connection)
{
	if (!connection->link)
		return;
	*connection->link = connection->next;
	if (connection->next)
		connection->next->link = connection->link;
	connection->link = NULL;
	if (connection->kind == CONNECTION_HANDSHAKE)
		connection->donor->handshake_count--;
}

void connection_end(struct connection *connection)
{
	if (!connection)
		return;
	list_remove(connection);
	if (connection->kind == CONNECTION_SESSION &&
	    connection->donor->sessions[connection->session].connection == connection)
		connection->donor->sessions[connection->session].connection = NULL;
	fabric_disconnect(connection->conn);
	free(connection);
}

static void connect_reject(struct donor *donor, struct fabric_conn *conn, struct wire_reject reject)
{
	uint8_t bytes[WIRE_REJECT_SIZE];

	donor->totals.refused[reject.reason]++;
	if (donor_may_tell(donor, DONOR_REFUSALS))
		log_info("refused %s: %s", fabric_conn_peer(conn), wire_reason_name(reject.reason));
	fabric_reject(conn, bytes, wire_encode_reject(&reject, bytes));
}

/* Accepts the connection into @domain. Returns NULL on failure; the connection is then closed. */
static struct connection *connect_accept(struct donor *donor, struct fabric_conn *conn, struct fabric_domain *domain,
					 enum connection_kind kind)
{
	struct connection *connection = calloc(1, sizeof *connection);
	int status;

	if (!connection) {
		connect_reject(donor, conn, (struct wire_reject){.reason = WIRE_REASON_FULL});
		return NULL;
	}
	*connection = (struct connection){.kind = kind, .donor = donor, .conn = conn, .session = LEASE_NO_SESSION};
	status = fabric_accept(conn, domain, connection);
	if (status < 0) {
		if (donor_may_tell(donor, DONOR_REFUSALS))
			log_warning("cannot accept %s: %s", fabric_conn_peer(conn), strerror(-status));
		connection_end(connection);
		return NULL;
	}
	return connection;
}

/* --- Connect requests ------------------------------------------------------------------------------------ */

/* Makes room for a handshake of @newcomer. If there are too many handshakes, crowd_victim() chooses one to end. Returns
   false if it chooses @newcomer. */
static bool handshakes_make_room(struct donor *donor, const struct crowd_one *newcomer)
{
	struct connection *connections[CONNECTION_HANDSHAKES_MAX];
	struct crowd_one ones[CONNECTION_HANDSHAKES_MAX];
	uint32_t count = 0, victim;
	uint64_t chance;

	if (donor->handshake_count < CONNECTION_HANDSHAKES_MAX)
		return true;
	for (struct connection *connection = donor->handshakes; connection; connection = connection->next, count++) {
		connections[count] = connection;
		ones[count] = (struct crowd_one){fabric_conn_origin(connection->conn), connection->known};
	}
	random_secret(&chance, sizeof chance);
	victim = crowd_victim(ones, count, newcomer, chance);
	if (victim == CROWD_NEWCOMER)
		return false;
	donor->totals.refused[DONOR_REFUSED_CROWD]++;
	if (donor_may_tell(donor, DONOR_REFUSALS))
		log_info("refused %s: it has not proved itself, and too many are waiting",
			 fabric_conn_peer(connections[victim]->conn));
	connection_end(connections[victim]);
	return true;
}

static void request_session(struct donor *donor, struct fabric_conn *conn, const struct wire_hello *hello)
{
	const struct crowd_one newcomer = {fabric_conn_origin(conn), lease_session_is_known(donor->book, hello->id)};
	uint8_t nonce[WIRE_NONCE_SIZE];
	struct connection *connection;

	if (!handshakes_make_room(donor, &newcomer)) {
		connect_reject(donor, conn, (struct wire_reject){.reason = WIRE_REASON_FULL});
		return;
	}
	connection = connect_accept(donor, conn, donor->lobby, CONNECTION_HANDSHAKE);
	if (!connection)
		return;
	random_secret(nonce, sizeof nonce);
	handshake_begin(&connection->handshake, hello, nonce);
	connection->known = newcomer.known;
	connection->deadline = donor_now(donor) + CONNECTION_HANDSHAKE_NS;
	list_insert(&donor->handshakes, connection);
	donor->handshake_count++;
}

static void request_attach(struct donor *donor, struct fabric_conn *conn, const struct wire_hello *hello)
{
	uint32_t session = lease_session_find(donor->book, hello->id);
	unsigned reason = WIRE_REASON_NO_SESSION;
	struct connection *connection;

	if (session != LEASE_NO_SESSION)
		reason = handshake_attach_proved(donor->book->sessions[session].key, hello)
			     ? lease_attach(donor->book, session, hello->counter)
			     : WIRE_REASON_KEY;
	if (reason) {
		connect_reject(donor, conn, (struct wire_reject){.reason = (uint16_t)reason});
		return;
	}
	connection = connect_accept(donor, conn, donor->sessions[session].domain, CONNECTION_DATA);
	if (!connection) {
		lease_detach(donor->book, session);
		return;
	}
	connection->session = session;
	list_insert(&donor->sessions[session].data, connection);
	log_debug("client %s attached a data connection, %s", donor->sessions[session].name, fabric_conn_peer(conn));
}

static void request_take(struct donor *donor, const struct fabric_event *event)
{
	struct wire_hello hello;
	struct wire_reject reject;

	if (handshake_hello(event->data, event->size, &hello, &reject))
		connect_reject(donor, event->conn, reject);
	else if (donor->book->leaving)
		connect_reject(donor, event->conn, (struct wire_reject){.reason = WIRE_REASON_LEAVING});
	else if (donor->suspended && hello.role == WIRE_SESSION) /* after this reason, a client tries again */
		connect_reject(donor, event->conn, (struct wire_reject){.reason = WIRE_REASON_FULL});
	else if (hello.role == WIRE_SESSION)
		request_session(donor, event->conn, &hello);
	else
		request_attach(donor, event->conn, &hello);
}

bool connection_is_known(void *user, const void *data, size_t size)
{
	const struct donor *donor = user;
	struct wire_reject reject;
	struct wire_hello hello;

	return !handshake_hello(data, size, &hello, &reject) && lease_session_is_known(donor->book, hello.id);
}

/* --- Sending --------------------------------------------------------------------------------------------- */

/*
 * Logs why a message cannot be sent. If too many messages are unsent, the network is usually at fault: it delivers
 * nothing to the client, but still delivers the client's requests. So this is no mistake of the client.
 */
static void tell_unsent(const struct connection *connection, int status)
{
	enum donor_line kind = status == -ENOBUFS ? DONOR_VISITS : DONOR_MISTAKES;

	if (connection->kind == CONNECTION_HANDSHAKE)
		kind = DONOR_REFUSALS;
	if (donor_may_tell(connection->donor, kind))
		log_warning("cannot send to %s: %s: connection ended", fabric_conn_peer(connection->conn),
			    status == -ENOBUFS ? "it receives nothing" : strerror(-status));
}

static void message_send(struct connection *connection, const struct wire_message *message)
{
	uint8_t bytes[WIRE_SEALED_MAX];
	int status = fabric_send(connection->conn, bytes,
				 channel_seal(&connection->channel, bytes, wire_encode(message, bytes)));

	/* -ENOTCONN: the connection has ended, and the fabric reports this by FABRIC_DISCONNECTED. */
	if (status < 0 && status != -ENOTCONN && !connection->deaf) {
		tell_unsent(connection, status);
		connection->deaf = connection->donor->deaf_clients = true;
	}
}

void connection_send(struct donor *donor, uint32_t session, const struct wire_message *message)
{
	struct connection *connection = donor->sessions[session].connection;

	if (!connection)
		return;
	message_send(connection, message);
	lease_session_said(donor->book, donor_now(donor), session);
}

/* --- Messages -------------------------------------------------------------------------------------------- */

/* Ends the connection of an active session, whose leases then wait. @closed: the client's side closed it. */
static void session_vanish(struct donor *donor, struct connection *connection, bool closed)
{
	uint32_t session = connection->session;

	connection_end(connection);
	if (closed && !donor->suspended)
		lease_session_closed(donor->book, donor_now(donor), session);
	else
		lease_session_vanished(donor->book, donor_now(donor), session);
	donor_settle(donor);
}

/* Ends a connection of any kind whose client did not send BYE. */
static void connection_lost(struct connection *connection, bool closed)
{
	struct donor *donor = connection->donor;

	if (connection->kind == CONNECTION_SESSION) {
		session_vanish(donor, connection, closed);
		return;
	}
	if (connection->kind == CONNECTION_DATA)
		lease_detach(donor->book, connection->session);
	connection_end(connection);
}

/* Stores the address of a session's client, as text that is valid on the wire. */
static void session_from(struct donor_session *session, const char *from)
{
	memset(session->from, 0, sizeof session->from);
	for (size_t i = 0; i < sizeof session->from - 1 && from[i]; i++)
		session->from[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
}

static void message_bad(struct connection *connection, const char *why, bool closed)
{
	if (donor_may_tell(connection->donor,
			   connection->kind == CONNECTION_HANDSHAKE ? DONOR_REFUSALS : DONOR_MISTAKES))
		log_warning("%s sent a message that %s: connection ended", fabric_conn_peer(connection->conn), why);
	connection_lost(connection, closed);
}

static void handshake_refuse(struct connection *connection, unsigned reason)
{
	struct wire_message refused = {.type = WIRE_REFUSED};

	refused.refused.reason = (uint16_t)reason;
	connection->donor->totals.refused[reason]++;
	if (donor_may_tell(connection->donor, DONOR_REFUSALS))
		log_info("refused %s: %s", fabric_conn_peer(connection->conn), wire_reason_name(reason));
	message_send(connection, &refused);
	connection_end(connection);
}

/* Turns a successful handshake into the session connection of its client. */
static void handshake_succeed(struct connection *connection, struct wire_message *welcome)
{
	struct donor *donor = connection->donor;
	const struct handshake *handshake = &connection->handshake;
	char who[DONOR_WHO_MAX], about[WIRE_ABOUT_TEXT_MAX];
	bool back = false;
	uint32_t session;
	unsigned reason = WIRE_REASON_KEY;

	if (lease_session_may_begin(donor->book, handshake->auth.client_id, handshake->name))
		reason = lease_session_begin(donor->book, donor_now(donor), handshake->auth.client_id,
					     handshake->session_key, (uint64_t)handshake->wished_grace_ms * 1000000,
					     &session);
	if (reason) {
		handshake_refuse(connection, reason);
		return;
	}
	lease_session_own(donor->book, session, handshake->name, donor_quota_slabs(donor, handshake->quota));
	lease_session_wish_closed(donor->book, session, (uint64_t)handshake->wished_closed_ms * 1000000);
	donor_settle(donor); /* fences the session's old connections */
	back = donor->sessions[session].domain;
	if (donor_session_open(donor, session) < 0) {
		lease_session_bye(donor->book, session);
		donor_settle(donor);
		handshake_refuse(connection, WIRE_REASON_FULL);
		return;
	}
	list_remove(connection);
	connection->kind = CONNECTION_SESSION;
	connection->session = session;
	donor->sessions[session].connection = connection;
	session_from(&donor->sessions[session], fabric_conn_peer(connection->conn));
	donor->sessions[session].admin = handshake->admin;
	donor->sessions[session].about = handshake->about;
	memset(&connection->handshake, 0, sizeof connection->handshake);
	donor_who(donor, session, who);
	if (donor_may_tell(donor, DONOR_VISITS))
		log_event(LOG_LEVEL_INFO, LOG_FIELDS(.client = donor->sessions[session].name),
			  "client %s has come%s, %s, and says: %s", donor->sessions[session].name, back ? " back" : "",
			  who, wire_about_text(&donor->sessions[session].about, about));

	welcome->welcome.grace_ms = (uint32_t)(donor->book->sessions[session].grace_ns / 1000000);
	welcome->welcome.heartbeat_ms = (uint32_t)(donor->book->limits.heartbeat_ns / 1000000);
	welcome->welcome.incarnation = donor->incarnation;
	welcome->welcome.slabs = donor->book->sessions[session].slabs;
	lease_capacity(donor->book, &welcome->welcome.capacity);
	if (donor->config.failure_domain)
		snprintf(welcome->welcome.failure_domain, WIRE_FAILURE_DOMAIN_SIZE, "%s", donor->config.failure_domain);
	connection_send(donor, session, welcome);
}

/* Handles a PROOF message. The MAC after the message shows that nobody has changed the message. */
static void handshake_message(struct connection *connection, const void *data, size_t size)
{
	struct wire_message message, answer;
	unsigned reason;

	if (size < WIRE_SEAL_SIZE || wire_decode(data, size - WIRE_SEAL_SIZE, &message) < 0) {
		message_bad(connection, "cannot be understood", true);
		return;
	}
	reason = handshake_prove(&connection->handshake, connection->donor->config.keys, &message, &answer);
	if (!reason) {
		channel_begin(&connection->channel, connection->handshake.session_key, false);
		if (channel_open(&connection->channel, data, size) < 0) {
			connection->channel.begun = false;
			reason = WIRE_REASON_KEY;
		}
	}
	if (reason)
		handshake_refuse(connection, reason);
	else
		handshake_succeed(connection, &answer);
}

static void session_message(struct connection *connection, const struct wire_message *message)
{
	struct donor *donor = connection->donor;
	uint32_t session = connection->session;
	struct wire_message answer = {.request = message->request};

	lease_session_heard(donor->book, donor_now(donor), session);
	switch (message->type) {
	case WIRE_LEASE:
		lease_request(donor->book, session, message->request);
		break;
	case WIRE_RELEASE:
		lease_release(donor->book, session, message->request, message->release.slab);
		break;
	case WIRE_CLAIM:
		lease_claim(donor->book, session, message->request, message->claim.slab);
		break;
	case WIRE_CLAIMED:
		lease_claimed(donor->book, session);
		break;
	case WIRE_WARM:
		for (unsigned i = 0; i < WIRE_WARM_SLABS; i++)
			lease_warm(donor->book, session, message->warm.of[i].slab, message->warm.of[i].warmth);
		break;
	case WIRE_DRAIN:
	case WIRE_HOLDER:
		drain_take(donor, session, message);
		break;
	case WIRE_STATUS:
		answer.type = WIRE_STATUS_REPLY;
		lease_capacity(donor->book, &answer.status_reply.capacity);
		connection_send(donor, session, &answer);
		break;
	case WIRE_PING:
		answer.type = WIRE_PONG;
		connection_send(donor, session, &answer);
		break;
	case WIRE_PONG:
		break;
	case WIRE_SUSPEND:
		session_vanish(donor, connection, false);
		return;
	case WIRE_BYE:
		if (donor_may_tell(donor, DONOR_VISITS))
			log_event(LOG_LEVEL_INFO, LOG_FIELDS(.client = donor->sessions[session].name),
				  "client %s says goodbye", donor->sessions[session].name);
		lease_session_bye(donor->book, session);
		break;
	default:
		if (donor_may_tell(donor, DONOR_MISTAKES))
			log_event(LOG_LEVEL_WARNING, LOG_FIELDS(.client = donor->sessions[session].name),
				  "client %s sent a %s, which is not for a client to send: connection ended",
				  donor->sessions[session].name, wire_type_name(message->type));
		session_vanish(donor, connection, true);
		return;
	}
	donor_settle(donor);
}

static void message_take(struct connection *connection, const void *data, size_t size)
{
	struct wire_message message;
	int length;

	if (connection->kind == CONNECTION_DATA) {
		message_bad(connection, "has no place on a data connection", true);
		return;
	}
	if (connection->kind == CONNECTION_HANDSHAKE) {
		handshake_message(connection, data, size);
		return;
	}
	length = channel_open(&connection->channel, data, size);
	if (length < 0) /* The client did not send this message. Its leases keep the full grace time. */
		message_bad(connection, "is not what its client said next", false);
	else if (wire_decode(data, (size_t)length, &message) < 0)
		message_bad(connection, "cannot be understood", true);
	else
		session_message(connection, &message);
}

static void established(struct connection *connection)
{
	struct wire_message challenge;

	if (connection->kind != CONNECTION_HANDSHAKE)
		return;
	handshake_challenge(&connection->handshake, connection->donor->config.keys, &challenge);
	message_send(connection, &challenge);
}

void connection_event(struct donor *donor, const struct fabric_event *event)
{
	struct connection *connection = event->user;

	switch (event->kind) {
	case FABRIC_CONNECT_REQUEST:
		request_take(donor, event);
		break;
	case FABRIC_ESTABLISHED:
		established(connection);
		break;
	case FABRIC_MESSAGE:
		message_take(connection, event->data, event->size);
		break;
	case FABRIC_DISCONNECTED:
		log_debug("%s disconnected: %s", fabric_conn_peer(event->conn), strerror(-event->status));
		connection_lost(connection, event->status == -ECONNRESET);
		break;
	case FABRIC_DONE: /* a donor posts no operations */
	case FABRIC_READABLE:
		assert(!"not an event of a connection");
	}
}

/* --- Time ------------------------------------------------------------------------------------------------ */

void connection_expire_handshakes(struct donor *donor, uint64_t now)
{
	for (struct connection *connection = donor->handshakes, *next; connection; connection = next) {
		next = connection->next;
		if (now < connection->deadline)
			continue;
		donor->totals.refused[DONOR_REFUSED_LATE]++;
		if (donor_may_tell(donor, DONOR_REFUSALS))
			log_info("refused %s: it has not proved itself in time", fabric_conn_peer(connection->conn));
		connection_end(connection);
	}
}

void connection_give_up(struct donor *donor, uint32_t session)
{
	donor->sessions[session].connection->deaf = donor->deaf_clients = true;
}

void connection_end_deaf(struct donor *donor)
{
	donor->deaf_clients = false;
	for (uint32_t i = 0; i < donor->config.limits.sessions; i++) {
		struct connection *connection = donor->sessions[i].connection;

		if (!connection || !connection->deaf)
			continue;
		connection_end(connection);
		lease_session_vanished(donor->book, donor_now(donor), i);
	}
}

uint64_t connection_deadline(const struct donor *donor)
{
	uint64_t deadline = UINT64_MAX;

	for (const struct connection *connection = donor->handshakes; connection; connection = connection->next)
		if (connection->deadline < deadline)
			deadline = connection->deadline;
	return deadline;
}

/* peer: see peer.h. */
#include "memserver/peer.h"

#include "common/log.h"
#include "common/random.h"
#include "memserver/drain.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Life of a connection -------------------------------------------------------------------------------- */

static void list_insert(struct peer **list, struct peer *peer)
{
	peer->next = *list;
	peer->link = list;
	if (peer->next)
		peer->next->link = &peer->next;
	*list = peer;
}

static void list_remove(struct peer *peer)
{
	if (!peer->link)
		return;
	*peer->link = peer->next;
	if (peer->next)
		peer->next->link = peer->link;
	peer->link = NULL;
	if (peer->kind == PEER_HANDSHAKE)
		peer->donor->handshake_count--;
}

void peer_end(struct peer *peer)
{
	if (!peer)
		return;
	list_remove(peer);
	if (peer->kind == PEER_SESSION && peer->donor->sessions[peer->session].peer == peer)
		peer->donor->sessions[peer->session].peer = NULL;
	fabric_disconnect(peer->conn);
	free(peer);
}

static void connect_reject(struct donor *donor, struct fabric_conn *conn, struct wire_reject reject)
{
	uint8_t bytes[WIRE_REJECT_SIZE];

	donor->refused_count++;
	if (donor_may_tell(donor, DONOR_REFUSALS))
		log_info("refused %s: %s", fabric_conn_peer(conn), wire_reason_name(reject.reason));
	fabric_reject(conn, bytes, wire_encode_reject(&reject, bytes));
}

/* Accepts the connection into @domain. Returns NULL on failure; the connection is then closed. */
static struct peer *connect_accept(struct donor *donor, struct fabric_conn *conn, struct fabric_domain *domain,
				   enum peer_kind kind)
{
	struct peer *peer = calloc(1, sizeof *peer);
	int status;

	if (!peer) {
		connect_reject(donor, conn, (struct wire_reject){.reason = WIRE_REASON_FULL});
		return NULL;
	}
	*peer = (struct peer){.kind = kind, .donor = donor, .conn = conn, .session = LEASE_NO_SESSION};
	status = fabric_accept(conn, domain, peer);
	if (status < 0) {
		if (donor_may_tell(donor, DONOR_REFUSALS))
			log_warning("cannot accept %s: %s", fabric_conn_peer(conn), strerror(-status));
		peer_end(peer);
		return NULL;
	}
	return peer;
}

/* --- Connect requests ------------------------------------------------------------------------------------ */

/* Makes room for a handshake of @newcomer by ending another one if necessary. Returns false if there is no room. */
static bool handshakes_make_room(struct donor *donor, const struct crowd_one *newcomer)
{
	struct peer *peers[PEER_HANDSHAKES_MAX];
	struct crowd_one ones[PEER_HANDSHAKES_MAX];
	uint32_t count = 0, victim;
	uint64_t chance;

	if (donor->handshake_count < PEER_HANDSHAKES_MAX)
		return true;
	for (struct peer *peer = donor->handshakes; peer; peer = peer->next, count++) {
		peers[count] = peer;
		ones[count] = (struct crowd_one){fabric_conn_origin(peer->conn), peer->known};
	}
	random_secret(&chance, sizeof chance);
	victim = crowd_victim(ones, count, newcomer, chance);
	if (victim == CROWD_NEWCOMER)
		return false;
	donor->refused_count++;
	if (donor_may_tell(donor, DONOR_REFUSALS))
		log_info("refused %s: it has not proved itself, and too many are waiting",
			 fabric_conn_peer(peers[victim]->conn));
	peer_end(peers[victim]);
	return true;
}

static void request_session(struct donor *donor, struct fabric_conn *conn, const struct wire_hello *hello)
{
	const struct crowd_one newcomer = {fabric_conn_origin(conn), lease_session_is_known(donor->book, hello->id)};
	uint8_t nonce[WIRE_NONCE_SIZE];
	struct peer *peer;

	if (donor->book->leaving) {
		connect_reject(donor, conn, (struct wire_reject){.reason = WIRE_REASON_LEAVING});
		return;
	}
	if (!handshakes_make_room(donor, &newcomer)) {
		connect_reject(donor, conn, (struct wire_reject){.reason = WIRE_REASON_FULL});
		return;
	}
	peer = connect_accept(donor, conn, donor->lobby, PEER_HANDSHAKE);
	if (!peer)
		return;
	random_secret(nonce, sizeof nonce);
	handshake_begin(&peer->handshake, hello, nonce);
	peer->known = newcomer.known;
	peer->deadline = donor_now(donor) + PEER_HANDSHAKE_NS;
	list_insert(&donor->handshakes, peer);
	donor->handshake_count++;
}

static void request_attach(struct donor *donor, struct fabric_conn *conn, const struct wire_hello *hello)
{
	uint32_t session = lease_session_find(donor->book, hello->id);
	unsigned reason = WIRE_REASON_NO_SESSION;
	struct peer *peer;

	if (session != LEASE_NO_SESSION)
		reason = handshake_attach_proved(donor->book->sessions[session].key, hello)
			     ? lease_attach(donor->book, session, hello->counter)
			     : WIRE_REASON_KEY;
	if (reason) {
		connect_reject(donor, conn, (struct wire_reject){.reason = (uint16_t)reason});
		return;
	}
	peer = connect_accept(donor, conn, donor->sessions[session].domain, PEER_DATA);
	if (!peer) {
		lease_detach(donor->book, session);
		return;
	}
	peer->session = session;
	list_insert(&donor->sessions[session].data, peer);
	log_debug("client %s attached a data connection, %s", donor->sessions[session].name, fabric_conn_peer(conn));
}

static void request_take(struct donor *donor, const struct fabric_event *event)
{
	struct wire_hello hello;
	struct wire_reject reject;

	if (handshake_hello(event->data, event->size, &hello, &reject))
		connect_reject(donor, event->conn, reject);
	else if (hello.role == WIRE_SESSION)
		request_session(donor, event->conn, &hello);
	else
		request_attach(donor, event->conn, &hello);
}

/* --- Sending --------------------------------------------------------------------------------------------- */

static void message_send(struct peer *peer, const struct wire_message *message)
{
	uint8_t bytes[WIRE_SEALED_MAX];
	int status = fabric_send(peer->conn, bytes, channel_seal(&peer->channel, bytes, wire_encode(message, bytes)));

	/* The fabric reports a connection that has ended with FABRIC_DISCONNECTED. */
	if (status < 0 && status != -ENOTCONN && !peer->deaf) {
		if (donor_may_tell(peer->donor, peer->kind == PEER_HANDSHAKE ? DONOR_REFUSALS : DONOR_MISTAKES))
			log_warning("cannot send to %s: %s", fabric_conn_peer(peer->conn), strerror(-status));
		peer->deaf = peer->donor->deaf_clients = true;
	}
}

void peer_send(struct donor *donor, uint32_t session, const struct wire_message *message)
{
	struct peer *peer = donor->sessions[session].peer;

	if (!peer)
		return;
	message_send(peer, message);
	lease_session_said(donor->book, donor_now(donor), session);
}

/* --- Messages -------------------------------------------------------------------------------------------- */

/* Ends the connection of an active session, whose leases then wait. @closed: the client's end closed it. */
static void session_vanish(struct donor *donor, struct peer *peer, bool closed)
{
	uint32_t session = peer->session;

	peer_end(peer);
	if (closed)
		lease_session_closed(donor->book, donor_now(donor), session);
	else
		lease_session_vanished(donor->book, donor_now(donor), session);
	donor_settle(donor);
}

/* Ends a connection of any kind whose client did not send BYE. */
static void peer_lost(struct peer *peer, bool closed)
{
	struct donor *donor = peer->donor;

	if (peer->kind == PEER_SESSION) {
		session_vanish(donor, peer, closed);
		return;
	}
	if (peer->kind == PEER_DATA)
		lease_detach(donor->book, peer->session);
	peer_end(peer);
}

/* Stores where a session comes from, as text that is valid on the wire. */
static void session_from(struct donor_session *session, const char *from)
{
	memset(session->from, 0, sizeof session->from);
	for (size_t i = 0; i < sizeof session->from - 1 && from[i]; i++)
		session->from[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
}

static bool session_open(struct donor *donor, uint32_t session)
{
	struct donor_session *s = &donor->sessions[session];
	const uint8_t *id = donor->book->sessions[session].id;
	int status;

	if (s->domain) /* the session went on when its client returned */
		return true;
	status = fabric_domain_open(&s->domain);
	if (status < 0) {
		if (donor_may_tell(donor, DONOR_LACKS))
			log_error("no protection domain for a client: %s", strerror(-status));
		s->domain = NULL;
		return false;
	}
	snprintf(s->name, sizeof s->name, "%02x%02x%02x%02x", id[0], id[1], id[2], id[3]);
	return true;
}

static void message_bad(struct peer *peer, const char *why, bool closed)
{
	if (donor_may_tell(peer->donor, peer->kind == PEER_HANDSHAKE ? DONOR_REFUSALS : DONOR_MISTAKES))
		log_warning("%s sent a message that %s: connection ended", fabric_conn_peer(peer->conn), why);
	peer_lost(peer, closed);
}

static void handshake_refuse(struct peer *peer, unsigned reason)
{
	struct wire_message refused = {.type = WIRE_REFUSED};

	refused.refused.reason = (uint16_t)reason;
	peer->donor->refused_count++;
	if (donor_may_tell(peer->donor, DONOR_REFUSALS))
		log_info("refused %s: %s", fabric_conn_peer(peer->conn), wire_reason_name(reason));
	message_send(peer, &refused);
	peer_end(peer);
}

/* Turns the handshake of a client that proved itself into the connection of its session. */
static void handshake_succeed(struct peer *peer, struct wire_message *welcome)
{
	struct donor *donor = peer->donor;
	const struct handshake *handshake = &peer->handshake;
	char who[DONOR_WHO_MAX];
	bool back = false;
	uint32_t session;
	unsigned reason = WIRE_REASON_KEY;

	if (lease_session_may_begin(donor->book, handshake->auth.client_id, handshake->name))
		reason = lease_session_begin(donor->book, donor_now(donor), handshake->auth.client_id,
					     handshake->session_key, (uint64_t)handshake->wished_grace_ms * 1000000,
					     &session);
	if (reason) {
		handshake_refuse(peer, reason);
		return;
	}
	lease_session_own(donor->book, session, handshake->name, donor_quota_slabs(donor, handshake->quota));
	lease_session_wish_closed(donor->book, session, (uint64_t)handshake->wished_closed_ms * 1000000);
	donor_settle(donor); /* fences the session's old connections */
	back = donor->sessions[session].domain;
	if (!session_open(donor, session)) {
		lease_session_bye(donor->book, session);
		donor_settle(donor);
		handshake_refuse(peer, WIRE_REASON_FULL);
		return;
	}
	list_remove(peer);
	peer->kind = PEER_SESSION;
	peer->session = session;
	donor->sessions[session].peer = peer;
	session_from(&donor->sessions[session], fabric_conn_peer(peer->conn));
	donor->sessions[session].admin = handshake->admin;
	memset(&peer->handshake, 0, sizeof peer->handshake);
	donor_who(donor, session, who);
	if (donor_may_tell(donor, DONOR_VISITS))
		log_info("client %s has come%s, %s", donor->sessions[session].name, back ? " back" : "", who);

	welcome->welcome.grace_ms = (uint32_t)(donor->book->sessions[session].grace_ns / 1000000);
	welcome->welcome.heartbeat_ms = (uint32_t)(donor->book->limits.heartbeat_ns / 1000000);
	welcome->welcome.incarnation = donor->incarnation;
	welcome->welcome.slabs = donor->book->sessions[session].slabs;
	lease_capacity(donor->book, &welcome->welcome.capacity);
	if (donor->config.failure_domain)
		snprintf(welcome->welcome.domain, WIRE_FAILURE_DOMAIN_SIZE, "%s", donor->config.failure_domain);
	peer_send(donor, session, welcome);
}

/* Takes a PROOF, followed by a MAC that proves it unchanged. */
static void handshake_message(struct peer *peer, const void *data, size_t size)
{
	struct wire_message message, answer;
	unsigned reason;

	if (size < WIRE_SEAL_SIZE || wire_decode(data, size - WIRE_SEAL_SIZE, &message) < 0) {
		message_bad(peer, "cannot be understood", true);
		return;
	}
	reason = handshake_prove(&peer->handshake, peer->donor->config.keys, &message, &answer);
	if (!reason) {
		channel_begin(&peer->channel, peer->handshake.session_key, false);
		if (channel_open(&peer->channel, data, size) < 0) {
			peer->channel.begun = false;
			reason = WIRE_REASON_KEY;
		}
	}
	if (reason)
		handshake_refuse(peer, reason);
	else
		handshake_succeed(peer, &answer);
}

static void session_message(struct peer *peer, const struct wire_message *message)
{
	struct donor *donor = peer->donor;
	uint32_t session = peer->session;
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
		peer_send(donor, session, &answer);
		break;
	case WIRE_PING:
		answer.type = WIRE_PONG;
		peer_send(donor, session, &answer);
		break;
	case WIRE_PONG:
		break;
	case WIRE_SUSPEND:
		session_vanish(donor, peer, false);
		return;
	case WIRE_BYE:
		if (donor_may_tell(donor, DONOR_VISITS))
			log_info("client %s says goodbye", donor->sessions[session].name);
		lease_session_bye(donor->book, session);
		break;
	default:
		if (donor_may_tell(donor, DONOR_MISTAKES))
			log_warning("client %s sent a %s, which is not for a client to send: connection ended",
				    donor->sessions[session].name, wire_type_name(message->type));
		session_vanish(donor, peer, true);
		return;
	}
	donor_settle(donor);
}

static void message_take(struct peer *peer, const void *data, size_t size)
{
	struct wire_message message;
	int length;

	if (peer->kind == PEER_DATA) {
		message_bad(peer, "has no place on a data connection", true);
		return;
	}
	if (peer->kind == PEER_HANDSHAKE) {
		handshake_message(peer, data, size);
		return;
	}
	length = channel_open(&peer->channel, data, size);
	if (length < 0) /* The client did not send this message. Its leases keep the full grace time. */
		message_bad(peer, "is not what its client said next", false);
	else if (wire_decode(data, (size_t)length, &message) < 0)
		message_bad(peer, "cannot be understood", true);
	else
		session_message(peer, &message);
}

static void established(struct peer *peer)
{
	struct wire_message challenge;

	if (peer->kind != PEER_HANDSHAKE)
		return;
	handshake_challenge(&peer->handshake, peer->donor->config.keys, &challenge);
	message_send(peer, &challenge);
}

void peer_event(struct donor *donor, const struct fabric_event *event)
{
	struct peer *peer = event->user;

	switch (event->kind) {
	case FABRIC_CONNECT_REQUEST:
		request_take(donor, event);
		break;
	case FABRIC_ESTABLISHED:
		established(peer);
		break;
	case FABRIC_MESSAGE:
		message_take(peer, event->data, event->size);
		break;
	case FABRIC_DISCONNECTED:
		log_debug("%s disconnected: %s", fabric_conn_peer(event->conn), strerror(-event->status));
		peer_lost(peer, event->status == -ECONNRESET);
		break;
	case FABRIC_DONE: /* a donor posts no operations */
	case FABRIC_READABLE:
		assert(!"not an event of a peer");
	}
}

/* --- Time ------------------------------------------------------------------------------------------------ */

void peer_expire_handshakes(struct donor *donor, uint64_t now)
{
	for (struct peer *peer = donor->handshakes, *next; peer; peer = next) {
		next = peer->next;
		if (now < peer->deadline)
			continue;
		donor->refused_count++;
		if (donor_may_tell(donor, DONOR_REFUSALS))
			log_info("refused %s: it has not proved itself in time", fabric_conn_peer(peer->conn));
		peer_end(peer);
	}
}

void peer_give_up(struct donor *donor, uint32_t session)
{
	donor->sessions[session].peer->deaf = donor->deaf_clients = true;
}

void peer_end_deaf(struct donor *donor)
{
	donor->deaf_clients = false;
	for (uint32_t i = 0; i < donor->config.limits.sessions; i++) {
		struct peer *peer = donor->sessions[i].peer;

		if (!peer || !peer->deaf)
			continue;
		peer_end(peer);
		lease_session_vanished(donor->book, donor_now(donor), i);
	}
}

uint64_t peer_deadline(const struct donor *donor)
{
	uint64_t deadline = UINT64_MAX;

	for (const struct peer *peer = donor->handshakes; peer; peer = peer->next)
		if (peer->deadline < deadline)
			deadline = peer->deadline;
	return deadline;
}

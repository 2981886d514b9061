/* session: see session.h. */
#include "client/donor/session.h"

#include "common/format.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>

/* Sends a message. If the connection has ended, drops the message and returns 0, because an event of the connection
   will report its end. */
static int session_send(struct session *session, const struct wire_message *message)
{
	uint8_t bytes[WIRE_SEALED_MAX];
	size_t size = channel_seal(&session->donor.channel, bytes, wire_encode(message, bytes));
	int error = fabric_send(session->conn, bytes, size);

	return error == -ENOTCONN ? 0 : error;
}

/* --- RDMA or TCP ----------------------------------------------------------------------------------------------- */

/* Stores @address with another scheme. */
static int address_over(const char *scheme, const char *address, char ret_address[SESSION_URI_MAX])
{
	struct uri uri;
	int status = uri_parse(address, FABRIC_DEFAULT_PORT, &uri);

	if (status < 0)
		return status;
	format_text(uri.scheme, sizeof uri.scheme, "%s", scheme);
	uri_format(&uri, ret_address);
	return 0;
}

static int session_connect(struct session *session)
{
	uint8_t hello[WIRE_HELLO_SIZE];

	donor_hello(&session->donor, hello);
	return fabric_connect(session->fabric, session->domain, session->uri, hello, sizeof hello, session,
			      &session->conn);
}

/* Tries TCP after RDMA has failed. The donor has not sent a message yet. */
static int session_fall_back(struct session *session, int status, uint64_t now)
{
	char address[SESSION_URI_MAX];

	session->may_fall_back = false;
	session->rdma_status = status;
	/* TCP gets the full connect time, because the name may have several addresses to try. */
	session->donor.deadline = now + session->donor.config.connect_ns;
	fabric_disconnect(session->conn);
	session->conn = NULL;
	address_over("tcp", session->uri, address);
	memcpy(session->uri, address, sizeof session->uri);
	return session_connect(session);
}

static const char *rdma_explain(int status)
{
	switch (status) {
	case -EINVAL:
	case -ENODEV:
		return "no RDMA device here";
	case -ETIMEDOUT:
		return "no answer over RDMA";
	case -ECONNREFUSED:
		return "it does not listen on RDMA";
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -ENOENT:
		return "no RDMA route to it";
	default:
		return format_errno(status);
	}
}

/* Returns true if the connection has ended without a refusal by the donor, so that TCP can be tried. */
static bool event_is_fall_back(const struct session *session, const struct fabric_event *event)
{
	struct wire_reject reject;

	if (event->kind != FABRIC_DISCONNECTED || !session->may_fall_back || session->donor.state != DONOR_CONNECTING)
		return false;
	return !event->size || wire_decode_reject(event->data, event->size, &reject) < 0;
}

/* --- Starting and ending --------------------------------------------------------------------------------------- */

void session_start(struct session *session, struct fabric *fabric, struct fabric_domain *domain, const char *uri,
		   const struct donor_config *config, uint64_t now)
{
	int error;

	*session = (struct session){.left = session->left, .fabric = fabric, .domain = domain};
	donor_init(&session->donor, config, now);
	session->automatic = !strncmp(uri, "auto://", strlen("auto://"));
	session->may_fall_back = session->automatic;
	session->fall_back_at = now + config->connect_ns / 2;
	format_text(session->uri, sizeof session->uri, "%s", uri);
	error = strlen(uri) < sizeof session->uri ? 0 : -EINVAL;
	if (error == 0 && session->automatic)
		error = address_over("rdma", uri, session->uri);
	if (error == 0) {
		error = session_connect(session);
		if (error < 0 && session->may_fall_back)
			error = session_fall_back(session, error, now);
	}
	if (error < 0)
		donor_fail(&session->donor, error);
}

static void left_end(struct session *session)
{
	fabric_disconnect(session->left);
	session->left = NULL;
}

static void session_reply(struct session *session, struct donor_answer *answer)
{
	int error = answer->send ? session_send(session, &answer->reply) : 0;

	/* -ENOBUFS: the connection has too many unsent messages, because the donor has stopped reading. */
	if (error < 0) {
		donor_fail(&session->donor, error == -ENOBUFS ? -ETIMEDOUT : error);
		answer->news = DONOR_IS_LOST;
	}
}

static void session_connected(struct session *session, uint64_t now)
{
	if (session->automatic && session->donor.state == DONOR_CONNECTING)
		log_info("donor at %s: %s", session->uri,
			 session->may_fall_back ? "RDMA works" : rdma_explain(session->rdma_status));
	session->may_fall_back = false;
	donor_connected(&session->donor, now);
}

void session_event(struct session *session, const struct fabric_event *event, uint64_t now, struct donor_answer *answer)
{
	int error;

	*answer = (struct donor_answer){0};
	if (session->left && event->conn == session->left && event->kind == FABRIC_DISCONNECTED)
		left_end(session);
	if (!session->conn || event->conn != session->conn)
		return;
	switch (event->kind) {
	case FABRIC_ESTABLISHED:
		session_connected(session, now);
		break;
	case FABRIC_MESSAGE:
		donor_received(&session->donor, event->data, event->size, now, answer);
		/* A donor that welcomes a session has ended the client's old connections before. */
		if (session->donor.state == DONOR_READY)
			left_end(session);
		break;
	case FABRIC_DISCONNECTED:
		if (event_is_fall_back(session, event)) {
			error = session_fall_back(session, event->status, now);
			if (error < 0)
				donor_disconnected(&session->donor, error, NULL, 0, answer);
			break;
		}
		donor_disconnected(&session->donor, event->status, event->data, event->size, answer);
		break;
	default:
		break;
	}
	session_reply(session, answer);
}

void session_tick(struct session *session, uint64_t now, struct donor_answer *answer)
{
	int error = 0;

	*answer = (struct donor_answer){0};
	if (session->may_fall_back && session->donor.state == DONOR_CONNECTING && now >= session->fall_back_at)
		error = session_fall_back(session, -ETIMEDOUT, now);
	if (error < 0) {
		donor_disconnected(&session->donor, error, NULL, 0, answer);
		return;
	}
	donor_tick(&session->donor, now, answer);
	session_reply(session, answer);
}

uint64_t session_due(const struct session *session)
{
	uint64_t due = donor_due(&session->donor);

	if (session->may_fall_back && session->donor.state == DONOR_CONNECTING && session->fall_back_at < due)
		return session->fall_back_at;
	return due;
}

bool session_request(struct session *session, const struct wire_message *message, uint64_t now)
{
	int error;

	if (session->donor.state != DONOR_READY)
		return false;
	error = session_send(session, message);
	if (error < 0) {
		donor_fail(&session->donor, error == -ENOBUFS ? -ETIMEDOUT : error);
		return false;
	}
	if (message->type != WIRE_CLAIMED)
		donor_requested(&session->donor, now);
	return true;
}

void session_tell(struct session *session, const struct wire_message *message)
{
	if (session->donor.state == DONOR_READY)
		session_send(session, message);
}

void session_drop(struct session *session)
{
	left_end(session);
	fabric_disconnect(session->conn);
	session->conn = NULL;
	donor_fail(&session->donor, -ECONNRESET);
}

/* Also sends SUSPEND in a session that is LOST because of silence, because the message may still arrive. */
void session_suspend(struct session *session)
{
	const struct wire_message suspend = {.type = WIRE_SUSPEND};

	if (session->conn && session->donor.proved) {
		session_send(session, &suspend);
		left_end(session);
		session->left = session->conn;
	} else {
		fabric_disconnect(session->conn);
	}
	session->conn = NULL;
	donor_fail(&session->donor, -ECONNRESET);
}

void session_end(struct session *session)
{
	const struct wire_message bye = {.type = WIRE_BYE};

	left_end(session);
	if (!session->conn)
		return;
	if (session->donor.state == DONOR_READY)
		session_send(session, &bye);
	fabric_disconnect(session->conn);
	session->conn = NULL;
}

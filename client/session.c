#include "client/session.h"

#include <errno.h>

static int session_send(struct session *session, const struct wire_message *message)
{
	uint8_t bytes[WIRE_MESSAGE_MAX];

	return fabric_send(session->conn, bytes, wire_encode(message, bytes));
}

void session_start(struct session *session, struct fabric *fabric, struct fabric_domain *domain, const char *uri,
		   const struct donor_config *config, uint64_t now)
{
	uint8_t hello[WIRE_HELLO_SIZE];
	int error;

	*session = (struct session){0};
	donor_init(&session->donor, config, now);
	donor_hello(&session->donor, hello);
	error = fabric_connect(fabric, domain, uri, hello, sizeof hello, session, &session->conn);
	if (error < 0)
		donor_fail(&session->donor, error);
}

static void session_reply(struct session *session, struct donor_answer *answer)
{
	int error = answer->send ? session_send(session, &answer->reply) : 0;

	/* With so much unsent the donor has stopped reading; a broken connection says so by itself as well. */
	if (error < 0) {
		donor_fail(&session->donor, error == -ENOBUFS ? -ETIMEDOUT : error);
		answer->news = DONOR_IS_LOST;
	}
}

void session_event(struct session *session, const struct fabric_event *event, uint64_t now, struct donor_answer *answer)
{
	*answer = (struct donor_answer){0};
	switch (event->kind) {
	case FABRIC_ESTABLISHED:
		donor_connected(&session->donor, now);
		break;
	case FABRIC_MESSAGE:
		donor_received(&session->donor, event->data, event->size, now, answer);
		break;
	case FABRIC_DISCONNECTED:
		donor_disconnected(&session->donor, event->status, event->data, event->size, answer);
		break;
	default:
		break;
	}
	session_reply(session, answer);
}

void session_tick(struct session *session, uint64_t now, struct donor_answer *answer)
{
	donor_tick(&session->donor, now, answer);
	session_reply(session, answer);
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
	donor_requested(&session->donor, now);
	return true;
}

void session_end(struct session *session)
{
	const struct wire_message bye = {.type = WIRE_BYE};

	if (!session->conn)
		return;
	if (session->donor.state == DONOR_READY)
		session_send(session, &bye);
	fabric_disconnect(session->conn);
	session->conn = NULL;
}

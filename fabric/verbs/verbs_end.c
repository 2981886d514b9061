/* verbs_end: ends connections, see verbs.h. verbs.c explains the fence. */
#include "common/clock.h"
#include "common/log.h"
#include "fabric/verbs/verbs.h"

#include <errno.h>
#include <time.h>

/* verbs_disconnect() waits up to FLUSH_NS until the peer's device has received the last messages. The wait is short,
   because this thread serves other connections, too. After a wait in vain, a disconnect within FLUSH_VAIN_NS waits at
   most FLUSH_SHORT_NS. This suffices for a peer that still runs. */
#define FLUSH_NS (100 * 1000000ull)
#define FLUSH_VAIN_NS (1000 * 1000000ull)
#define FLUSH_SHORT_NS (3 * 1000000ull)
/* When the CM reports the end of a connection, the last answers to operations may still arrive. verbs_end_lost() waits
   for them at most this long. */
#define LAST_ANSWERS_NS (2 * 1000000ull)
#define PAUSE_NS 50000

void verbs_end(struct verbs_conn *conn, int status, int flush)
{
	if (conn->qp)
		verbs_drain(conn);
	verbs_state_set(conn, VERBS_STATE_ENDING);
	verbs_shut(conn);
	conn->status = status;
	conn->flush = flush;
	conn->announce = false;
	verbs_activate(conn);
}

/* Reads completions. If there are none, sleeps instead of yielding: a soft device's threads may need this processor,
   and a thread with real-time priority does not yield to them. */
static void drain_or_pause(struct verbs_conn *conn)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	if (!verbs_drain(conn))
		nanosleep(&pause, NULL);
}

/* Waits briefly for the last completions. One of them may have the reason of the end, such as a refusal. */
static void last_answers_await(struct verbs_conn *conn)
{
	uint64_t until = clock_now() + LAST_ANSWERS_NS;

	do {
		drain_or_pause(conn);
	} while (conn->sent_done != conn->sent_tail && !conn->failed && clock_now() < until);
}

void verbs_end_lost(struct verbs_conn *conn, int status)
{
	if (conn->state == VERBS_STATE_REQUESTED) {
		/* The user must still accept or reject the connection, and learns of its end then. */
		verbs_shut(conn);
		return;
	}
	if (conn->state == VERBS_STATE_ENDING || conn->state == VERBS_STATE_ENDED)
		return;
	if (conn->qp)
		last_answers_await(conn);
	if (conn->channel)
		verbs_device_events(conn->channel->device);
	if (conn->noted.event == IBV_EVENT_QP_ACCESS_ERR + 1)
		status = -EPROTO;
	if (conn->failed && (conn->fail_status || conn->fail_flush != -ECONNRESET))
		status = conn->fail_status ? conn->fail_status : conn->fail_flush;
	verbs_end(conn, status, conn->failed ? conn->fail_flush : status);
}

static bool messages_remain(const struct verbs_conn *conn)
{
	return !conn->failed && conn->send_head != conn->send_posted;
}

/* Waits briefly until the peer's device has the last messages. Gives up if the peer was silent for FLUSH_NS. */
static void messages_flush(struct verbs_conn *conn)
{
	struct verbs *verbs = conn->verbs;
	uint64_t now = clock_now();
	const bool vain = now < verbs->flush_vain_until;
	const uint64_t until = now + (vain ? FLUSH_SHORT_NS : FLUSH_NS);

	verbs_drain(conn);
	while (messages_remain(conn) && now < until && now < verbs_silent_since(conn) + FLUSH_NS) {
		drain_or_pause(conn);
		now = clock_now();
	}
	if (!vain && now >= until)
		verbs->flush_vain_until = now + FLUSH_VAIN_NS;
	if (conn->send_head != conn->send_tail)
		log_debug("%s: its last %u messages may be lost", conn->base.peer, conn->send_tail - conn->send_head);
}

void verbs_disconnect(struct fabric_conn *base)
{
	struct verbs_conn *conn = verbs_conn_of(base);
	struct verbs *verbs = conn->verbs;

	if (conn->state == VERBS_STATE_ESTABLISHED)
		messages_flush(conn);
	verbs_shut(conn);
	verbs_state_set(conn, VERBS_STATE_ENDED);
	verbs_deactivate(conn);
	TAILQ_REMOVE(&verbs->conns, conn, link);
	TAILQ_INSERT_TAIL(&verbs->gone, conn, link);
}

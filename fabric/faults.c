/*
 * faults: see faults.h.
 *
 * Theory of operation. A connection of this layer owns one of a real backend and remembers every operation posted on
 * it. Answers of the inner connection are noted and passed on in order, each when it is due. This suffices to delay and
 * to drop. Data to be written corrupted is sent from a copy. Data that was read is corrupted in place. Unlike a real
 * backend, this layer allocates on the data path, because it is only for tests.
 */
#include "fabric/faults.h"
#include "common/clock.h"
#include "common/random.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum op_state { OP_POSTED, OP_DROPPED, OP_ANSWERED };

struct faults_op {
	enum op_state state;
	int status;
	uint64_t cookie, posted_at, release_at; /* ns */
	struct fabric_op op;
	bool corrupt;
	uint8_t *copy; /* the corrupted copy of data to be written */
	struct fabric_region *copy_region;
};

struct faults_conn {
	struct fabric_conn base;
	TAILQ_ENTRY(faults_conn) link;
	struct faults *faults;
	struct fabric_conn *inner; /* NULL: ended by this layer */
	struct random_state random;
	struct faults_op *ops; /* a ring of FABRIC_DEPTH_MAX */
	uint32_t head, tail;   /* not masked; an index is the cookie on the inner connection */
	bool ended, told;      /* the inner end came or was forced; FABRIC_DISCONNECTED was given */
	int status, flush;
	uint8_t reject[FABRIC_PRIVATE_MAX];
	size_t reject_size;
};

struct faults {
	struct fabric *fabric;
	struct fabric_faults none, *schedule;
	TAILQ_HEAD(, faults_conn) conns;
	TAILQ_HEAD(, faults_conn) gone; /* freed at the next poll */
	bool ready;
};

static const struct fabric_backend faults_backend;

static uint64_t count_up(uint64_t *counter)
{
	return __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

static struct faults_conn *conn_of(const struct fabric_conn *conn)
{
	return (struct faults_conn *)conn;
}

static unsigned depth_of(const struct faults *faults)
{
	return fabric_get_config(faults->fabric)->depth;
}

static struct faults_op *op_at(const struct faults_conn *conn, uint32_t index)
{
	return &conn->ops[index % FABRIC_DEPTH_MAX];
}

/* --- Life of a connection --------------------------------------------------------------------------------- */

static struct faults_conn *conn_new(struct faults *faults, struct fabric_domain *domain)
{
	struct faults_conn *conn = calloc(1, sizeof *conn);

	if (!conn)
		return NULL;
	conn->ops = calloc(FABRIC_DEPTH_MAX, sizeof *conn->ops);
	if (!conn->ops) {
		free(conn);
		return NULL;
	}
	conn->base.backend = &faults_backend;
	conn->base.fabric = faults->fabric;
	conn->base.domain = domain;
	conn->faults = faults;
	random_seed(&conn->random, faults->schedule->seed + count_up(&faults->schedule->seen.connects));
	TAILQ_INSERT_TAIL(&faults->conns, conn, link);
	return conn;
}

static void conn_wrap(struct faults_conn *conn, struct fabric_conn *inner)
{
	conn->inner = inner;
	inner->outer = &conn->base;
	memcpy(conn->base.peer, inner->peer, sizeof conn->base.peer);
	conn->base.origin = inner->origin;
}

static void copy_free(struct faults_op *op)
{
	fabric_deregister(op->copy_region);
	free(op->copy);
	op->copy_region = NULL;
	op->copy = NULL;
}

static void conn_end(struct faults_conn *conn, int status)
{
	if (conn->inner)
		fabric_disconnect(conn->inner);
	conn->inner = NULL;
	conn->ended = true;
	conn->status = conn->flush = status;
	for (uint32_t i = conn->head; i != conn->tail; i++)
		copy_free(op_at(conn, i));
	conn->faults->ready = true;
}

static void faults_disconnect(struct fabric_conn *base)
{
	struct faults_conn *conn = conn_of(base);

	conn_end(conn, -ECONNRESET);
	conn->told = true;
	TAILQ_REMOVE(&conn->faults->conns, conn, link);
	TAILQ_INSERT_TAIL(&conn->faults->gone, conn, link);
}

static void gone_free(struct faults *faults)
{
	struct faults_conn *conn;

	while ((conn = TAILQ_FIRST(&faults->gone))) {
		TAILQ_REMOVE(&faults->gone, conn, link);
		free(conn->ops);
		free(conn);
	}
}

int faults_open(struct fabric *fabric, struct fabric_faults *schedule, struct faults **ret_faults)
{
	struct faults *faults = calloc(1, sizeof *faults);

	if (!faults)
		return -ENOMEM;
	faults->fabric = fabric;
	faults->schedule = schedule ? schedule : &faults->none;
	TAILQ_INIT(&faults->conns);
	TAILQ_INIT(&faults->gone);
	*ret_faults = faults;
	return 0;
}

void faults_close(struct faults *faults)
{
	struct faults_conn *conn;

	if (!faults)
		return;
	while ((conn = TAILQ_FIRST(&faults->conns)))
		faults_disconnect(&conn->base);
	gone_free(faults);
	free(faults);
}

int faults_connect(struct faults *faults, const struct fabric_backend *backend, void *state,
		   struct fabric_domain *domain, const struct uri *uri, const void *private_data, size_t private_size,
		   struct fabric_conn **ret_conn)
{
	struct faults_conn *conn = conn_new(faults, domain);
	struct fabric_conn *inner;
	int status;

	if (!conn)
		return -ENOMEM;
	status = backend->connect(state, domain, uri, private_data, private_size, &inner);
	if (status < 0) {
		faults_disconnect(&conn->base);
		return status;
	}
	conn_wrap(conn, inner);
	if (__atomic_load_n(&faults->schedule->seen.connects, __ATOMIC_RELAXED) <= faults->schedule->refuse_connects)
		conn_end(conn, -ECONNREFUSED);
	*ret_conn = &conn->base;
	return 0;
}

static int faults_accept(struct fabric_conn *base)
{
	struct faults_conn *conn = conn_of(base);

	return fabric_accept(conn->inner, base->domain, conn);
}

static void faults_reject(struct fabric_conn *base, const void *private_data, size_t private_size)
{
	struct faults_conn *conn = conn_of(base);

	fabric_reject(conn->inner, private_data, private_size);
	conn->inner = NULL;
	faults_disconnect(base);
}

/* --- Posting ---------------------------------------------------------------------------------------------- */

static struct fabric_remote faults_export(const struct fabric_region *region, const struct fabric_conn *conn)
{
	return fabric_export(region, conn_of(conn)->inner);
}

static unsigned faults_room(const struct fabric_conn *base)
{
	const struct faults_conn *conn = conn_of(base);
	unsigned room = conn->inner ? fabric_room(conn->inner) : 0;
	unsigned left = depth_of(conn->faults) - (conn->tail - conn->head);

	return room < left ? room : left;
}

static size_t faults_memory(const struct fabric_conn *base)
{
	const struct faults_conn *conn = conn_of(base);

	return sizeof *conn + (conn->inner ? fabric_conn_memory(conn->inner) : 0);
}

/* Returns true if this fault hits operation @number. Advances the random generator. */
static bool strikes(struct faults_conn *conn, uint64_t number, uint64_t at, uint32_t chance)
{
	bool by_chance = chance && random_below(&conn->random, 1000000) < chance;

	return by_chance || (at && number == at);
}

static void bit_flip(struct faults_conn *conn, void *bytes, uint32_t length)
{
	uint64_t bit = random_below(&conn->random, length * 8ull);

	((uint8_t *)bytes)[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* Replaces the data to be written by a corrupted copy. Returns 0 or -errno. */
static int write_corrupt(struct faults_conn *conn, struct faults_op *op, struct fabric_op *below)
{
	int status;

	op->copy = malloc(op->op.length);
	if (!op->copy)
		return -ENOMEM;
	status = fabric_register(conn->base.domain, op->copy, op->op.length, FABRIC_LOCAL, &op->copy_region);
	if (status < 0) {
		free(op->copy);
		op->copy = NULL;
		return status;
	}
	memcpy(op->copy, op->op.local, op->op.length);
	bit_flip(conn, op->copy, op->op.length);
	below->local = op->copy;
	below->region = op->copy_region;
	return 0;
}

/* Takes one operation and applies the schedule to it. Returns 0, or -errno if the operation was not taken. */
static int op_take(struct faults_conn *conn, const struct fabric_op *given, uint64_t now)
{
	struct fabric_faults *schedule = conn->faults->schedule;
	uint64_t number = count_up(&schedule->seen.operations);
	struct faults_op *op = op_at(conn, conn->tail);
	struct fabric_op below = *given;
	int status;

	*op = (struct faults_op){.cookie = given->cookie, .posted_at = now, .release_at = now, .op = *given};
	if (strikes(conn, number, schedule->disconnect_at, schedule->disconnect_chance)) {
		count_up(&schedule->seen.disconnected);
		conn->tail++;
		conn_end(conn, -ECONNRESET);
		return 0;
	}
	if (strikes(conn, number, schedule->drop_at, schedule->drop_chance)) {
		count_up(&schedule->seen.dropped);
		op->state = OP_DROPPED;
		conn->tail++;
		return 0;
	}
	if (strikes(conn, number, schedule->delay_at, schedule->delay_chance)) {
		uint64_t range = schedule->delay_max_us > schedule->delay_min_us
				     ? schedule->delay_max_us - schedule->delay_min_us
				     : 0;

		count_up(&schedule->seen.delayed);
		op->release_at = now + (schedule->delay_min_us + random_below(&conn->random, range + 1)) * 1000;
	}
	if (strikes(conn, number, schedule->corrupt_at, schedule->corrupt_chance)) {
		count_up(&schedule->seen.corrupted);
		op->corrupt = true;
		status = given->kind == FABRIC_WRITE ? write_corrupt(conn, op, &below) : 0;
		if (status < 0)
			return status;
	}
	below.cookie = conn->tail;
	status = fabric_post(conn->inner, &below, 1);
	if (status == 1)
		conn->tail++;
	else
		copy_free(op);
	return status == 1 ? 0 : status < 0 ? status : -EAGAIN;
}

static int faults_post(struct fabric_conn *base, const struct fabric_op *ops, unsigned count)
{
	struct faults_conn *conn = conn_of(base);
	uint64_t now = clock_now();
	unsigned taken = 0;
	int status = 0;

	while (taken < count && status == 0) {
		if (conn->ended) {
			status = -ENOTCONN;
		} else if (conn->tail - conn->head == depth_of(conn->faults)) {
			break;
		} else {
			status = op_take(conn, &ops[taken], now);
			taken += status == 0;
		}
	}
	return taken || status == -EAGAIN ? (int)taken : status;
}

static int faults_send(struct fabric_conn *base, const void *message, size_t size)
{
	struct faults_conn *conn = conn_of(base);

	return conn->inner && !conn->ended ? fabric_send(conn->inner, message, size) : -ENOTCONN;
}

/* --- Events ----------------------------------------------------------------------------------------------- */

static void answer_note(struct faults_conn *conn, const struct fabric_event *event)
{
	struct faults_op *op = op_at(conn, (uint32_t)event->cookie);

	op->state = OP_ANSWERED;
	op->status = event->status;
	copy_free(op);
	if (op->corrupt && op->op.kind == FABRIC_READ && event->status == 0)
		bit_flip(conn, op->op.local, op->op.length);
}

static void end_note(struct faults_conn *conn, const struct fabric_event *event)
{
	conn->ended = true;
	conn->status = event->status;
	conn->flush = -ECONNRESET;
	if (event->data) {
		memcpy(conn->reject, event->data, event->size);
		conn->reject_size = event->size;
	}
}

/* Wraps a connection that arrives at a listener of this layer. Without memory, rejects it and returns false. */
static bool request_wrap(struct faults *faults, struct fabric_event *event)
{
	struct faults_conn *conn = conn_new(faults, NULL);

	if (!conn) {
		fabric_reject(event->conn, NULL, 0);
		return false;
	}
	conn_wrap(conn, event->conn);
	event->conn = &conn->base;
	return true;
}

/* Adapts @event. Returns true if the user gets it. */
static bool event_filter(struct faults *faults, struct fabric_event *event)
{
	struct faults_conn *conn;

	if (event->kind == FABRIC_CONNECT_REQUEST && event->listener->faults)
		return request_wrap(faults, event);
	if (!event->conn || !event->conn->outer)
		return true;
	conn = conn_of(event->conn->outer);
	event->conn = &conn->base;
	event->user = conn->base.user;
	if (event->kind == FABRIC_DONE)
		answer_note(conn, event);
	else if (event->kind == FABRIC_DISCONNECTED)
		end_note(conn, event);
	else
		return true;
	return false;
}

void faults_filter(struct faults *faults, struct backend_events *out, unsigned first)
{
	unsigned kept = first;

	gone_free(faults);
	for (unsigned i = first; i < out->count; i++)
		if (event_filter(faults, &out->events[i]))
			out->events[kept++] = out->events[i];
	out->count = kept;
}

/* Returns when the oldest operation or the end is due. Returns BACKEND_NEVER if it waits for the inner connection. */
static uint64_t conn_due(const struct faults_conn *conn)
{
	const struct faults_op *op = op_at(conn, conn->head);

	if (conn->ended && !conn->inner)
		return conn->told ? BACKEND_NEVER : 0; /* cut by this layer: everything is due at once */
	if (conn->head == conn->tail)
		return conn->ended && !conn->told ? 0 : BACKEND_NEVER;
	if (op->state == OP_ANSWERED)
		return op->release_at;
	if (conn->ended)
		return 0;
	if (op->state == OP_DROPPED)
		return op->posted_at + fabric_get_config(conn->base.fabric)->io_ms * 1000000ull;
	return BACKEND_NEVER;
}

/* Gives the answer or the end that is due. */
static void conn_give(struct faults_conn *conn, struct backend_events *out)
{
	struct faults_op *op = op_at(conn, conn->head);
	struct fabric_event *event;

	if (conn->head != conn->tail && op->state == OP_DROPPED && !conn->ended)
		conn_end(conn, -ETIMEDOUT);
	if (conn->head != conn->tail) {
		event = backend_event(out, FABRIC_DONE, &conn->base);
		event->cookie = op->cookie;
		event->status = op->state == OP_ANSWERED && conn->inner ? op->status : conn->flush;
		conn->head++;
		return;
	}
	event = backend_event(out, FABRIC_DISCONNECTED, &conn->base);
	event->status = conn->status;
	event->data = conn->reject_size ? conn->reject : NULL;
	event->size = conn->reject_size;
	conn->told = true;
}

bool faults_poll(struct faults *faults, struct backend_events *out)
{
	struct faults_conn *conn;
	bool moved = false;
	uint64_t now = clock_now();

	faults->ready = false;
	TAILQ_FOREACH(conn, &faults->conns, link) {
		while (conn_due(conn) <= now) {
			if (backend_events_full(out)) {
				faults->ready = true;
				return moved;
			}
			conn_give(conn, out);
			moved = true;
		}
	}
	return moved;
}

bool faults_ready(const struct faults *faults)
{
	return faults->ready;
}

uint64_t faults_deadline(const struct faults *faults)
{
	const struct faults_conn *conn;
	uint64_t deadline = BACKEND_NEVER;

	TAILQ_FOREACH(conn, &faults->conns, link)
		if (conn_due(conn) < deadline)
			deadline = conn_due(conn);
	return deadline;
}

static const struct fabric_backend faults_backend = {
    .accept = faults_accept,
    .reject = faults_reject,
    .disconnect = faults_disconnect,
    .export = faults_export,
    .post = faults_post,
    .room = faults_room,
    .memory = faults_memory,
    .send = faults_send,
};

/*
 * comebacks: the whole client over a simulated world. Wires delay, cut and go dead. Donors (the real lease book and
 * handshake) stall, die and restart. The test sets the clock. One seed gives one history.
 *
 * Theory of operation. The functions of fabric.h and clock.h are defined here. The client's control thread is a real
 * thread, but runs only while the test waits for it (the baton), so that a history is the same each time. A message
 * sent on a connection may still reach the donor after the client has ended the connection, until the donor ends it
 * too. The client relies on the donor's fence.
 *
 * In some histories the store has a state file, and its process is killed now and then. Its requests are not answered,
 * and the file stays as it was at that moment. Another process adopts the store and repeats the requests that were
 * under way, as the kernel does for a block device.
 */
#include "client/far_store.h"
#include "client/rebuild/rebuild.h"
#include "common/clock.h"
#include "common/log.h"
#include "memserver/handshake.h"
#include "memserver/lease.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define DONORS 3u
#define SLABS 12u /* each donor could hold all chunks, so no request finds it full */
#define SLAB_PAGES 4u
#define SLAB (SLAB_PAGES * STORE_PAGE)
#define PAGES (10u * SLAB_PAGES)
#define DEPTH 8u
#define CONNS 64u
#define OPS 16u
#define MESSAGES 64u
#define TIMEOUT_MS 1500u
#define IO_MS 400u
#define CONNECT_MS 500u
#define HISTORIES 120u
#define HISTORIES_MORE 270u
#define STEPS 1500u

struct fabric_domain {
	int unused;
};
struct fabric_region {
	int unused;
};
struct fabric {
	int wake;
	struct far *far; /* the store of the control thread */
};

struct parcel {
	uint64_t at; /* arrival time */
	size_t size;
	uint8_t bytes[WIRE_SEALED_MAX];
};
struct post {
	struct parcel parcels[MESSAGES];
	unsigned head, tail;
};

/* An operation: posted, carried out or not, answered. */
struct operation {
	struct fabric_op op;
	uint64_t posted, at, back;
	bool done;
	uint8_t pages[SLAB]; /* data sent, or data read */
};

struct fabric_conn {
	bool used, here, there; /* not yet ended by the client, by the donor */
	bool asked, accepted, established, flushing;
	uint64_t arrives, accepted_at, broken_at, left_at, deadline;
	int status; /* status of the break at broken_at */
	struct fabric *fabric;
	void *user;
	unsigned donor;
	struct post out, in;
	struct operation operations[OPS];
	unsigned head, tail;
	uint8_t hello[WIRE_HELLO_SIZE], reject[WIRE_REJECT_SIZE];
	size_t reject_size;
	struct handshake handshake;
	struct channel channel; /* the donor's end */
	enum wire_role role;
	uint32_t session;
};

enum health { RUNS, STALLED, DEAD };
struct sim_donor {
	enum health health;
	bool silent; /* if DEAD: the machine is dead, not only the program */
	uint64_t incarnation, until, rests_until;
	struct lease_book *book;
	uint32_t salts[DONORS]; /* by session: an rkey is valid in one session only, as over another device */
	uint8_t memory[SLABS][SLAB];
};

static struct world {
	uint64_t now;
	struct random_state random;
	struct sim_donor donors[DONORS];
	uint32_t salt;
	const char *wrong;
} w;
static struct fabric_conn conns[CONNS];

/* The baton. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed = PTHREAD_COND_INITIALIZER;
static bool control_turn_now, closing;
static unsigned warm_slabs; /* slabs that donors were told are used */

static void expect(bool good, const char *what)
{
	if (!good && !w.wrong)
		w.wrong = what;
}

uint64_t clock_now(void)
{
	return w.now;
}

/* Replaces random_secret(), so that ids, nonces and seeds are the same each time. */
void __wrap_random_secret(void *bytes, uint64_t size);
void __wrap_random_secret(void *bytes, uint64_t size)
{
	for (uint64_t i = 0; i < size; i++)
		((uint8_t *)bytes)[i] = (uint8_t)random_below(&w.random, 256);
}

static uint64_t soon(void)
{
	return w.now + random_below(&w.random, 4 * MS);
}

/* --- The donors' side ------------------------------------------------------------------------------------------- */

static void conn_break(struct fabric_conn *conn, int status)
{
	conn->there = false;
	if (!conn->status) {
		conn->status = status;
		conn->broken_at = soon();
	}
}

static void conn_say(struct fabric_conn *conn, const struct wire_message *message)
{
	struct parcel *parcel = &conn->in.parcels[conn->in.tail++ % MESSAGES];
	uint64_t last = conn->in.tail - conn->in.head > 1 ? conn->in.parcels[(conn->in.tail - 2) % MESSAGES].at : 0;

	expect(conn->in.tail - conn->in.head <= MESSAGES, "the world is too small");
	parcel->at = soon();
	if (parcel->at < last)
		parcel->at = last;
	parcel->size = channel_seal(&conn->channel, parcel->bytes, wire_encode(message, parcel->bytes));
}

static struct fabric_conn *session_conn(unsigned donor, uint32_t session)
{
	for (unsigned i = 0; i < CONNS; i++)
		if (conns[i].used && conns[i].there && conns[i].donor == donor && conns[i].session == session &&
		    conns[i].role == WIRE_SESSION)
			return &conns[i];
	return NULL;
}

static void donor_say(unsigned donor, uint32_t session, const struct wire_message *message)
{
	struct fabric_conn *conn = session_conn(donor, session);

	if (conn)
		conn_say(conn, message);
	lease_session_said(w.donors[donor].book, w.now, session);
}

static void donor_do(unsigned index, const struct lease_action *action)
{
	struct sim_donor *donor = &w.donors[index];
	struct wire_message message = {.request = action->request};

	switch (action->kind) {
	case LEASE_PREPARE:
		lease_prepared(donor->book, action->slab, LEASE_READY);
		return;
	case LEASE_GRANT:
	case LEASE_CONFIRM:
		message.type = WIRE_GRANTED;
		message.granted.slab = action->name;
		message.granted.address = (uint64_t)donor->salts[action->session] << 32 | action->slab * SLAB;
		message.granted.rkey = donor->salts[action->session];
		message.granted.bytes = SLAB;
		lease_capacity(donor->book, &message.granted.capacity);
		donor_say(index, action->session, &message);
		return;
	case LEASE_DENY:
		message.type = WIRE_DENIED;
		message.denied.reason = action->reason;
		lease_capacity(donor->book, &message.denied.capacity);
		donor_say(index, action->session, &message);
		return;
	case LEASE_CLEAR:
		memset(donor->memory[action->slab], 0, SLAB);
		lease_cleared(donor->book, action->slab);
		return;
	case LEASE_RETURNED:
		message.type = WIRE_RELEASED;
		message.released.slab = action->name;
		lease_capacity(donor->book, &message.released.capacity);
		donor_say(index, action->session, &message);
		return;
	case LEASE_REVOKE: /* no donor shrinks here */
	case LEASE_KEEP:
	case LEASE_TAKEN:
		return;
	case LEASE_ABANDON:
		return;
	case LEASE_PING:
		message.type = WIRE_PING;
		donor_say(index, action->session, &message);
		return;
	case LEASE_FENCE:
		for (unsigned i = 0; i < CONNS; i++)
			if (conns[i].used && conns[i].there && conns[i].donor == index &&
			    conns[i].session == action->session)
				conn_break(&conns[i], -ECONNRESET);
		return;
	case LEASE_FORGET:
		return;
	}
}

static void donor_settle(unsigned index)
{
	struct lease_action action;

	while (lease_next(w.donors[index].book, &action))
		donor_do(index, &action);
}

static void donor_start(unsigned index)
{
	const struct lease_limits limits = {.slabs = SLABS,
					    .slab_bytes = SLAB,
					    .sessions = DONORS,
					    .session_conns = 8,
					    .grace_ns = 10000 * MS,
					    .heartbeat_ns = 200 * MS};
	struct sim_donor *donor = &w.donors[index];

	lease_close(donor->book);
	*donor = (struct sim_donor){.incarnation = random_next(&w.random)};
	if (lease_open(&limits, &donor->book))
		abort();
}

static void request_take(struct fabric_conn *conn)
{
	struct sim_donor *donor = &w.donors[conn->donor];
	struct wire_reject reject = {0};
	struct wire_message challenge;
	struct wire_hello hello;
	uint8_t nonce[WIRE_NONCE_SIZE] = {7};

	conn->asked = true;
	if (handshake_hello(conn->hello, sizeof conn->hello, &hello, &reject) == 0) {
		conn->role = hello.role;
		if (hello.role == WIRE_ATTACH) {
			conn->session = lease_session_find(donor->book, hello.id);
			reject.reason = WIRE_REASON_NO_SESSION;
			if (conn->session != LEASE_NO_SESSION)
				reject.reason =
				    handshake_attach_proved(donor->book->sessions[conn->session].key, &hello)
					? (uint16_t)lease_attach(donor->book, conn->session, hello.counter)
					: WIRE_REASON_KEY;
		}
	}
	if (reject.reason) {
		conn->session = LEASE_NO_SESSION;
		conn->reject_size = wire_encode_reject(&reject, conn->reject);
		conn_break(conn, -ECONNREFUSED);
		return;
	}
	conn->accepted = true;
	conn->accepted_at = soon();
	if (hello.role == WIRE_ATTACH)
		return;
	random_secret(nonce, sizeof nonce);
	handshake_begin(&conn->handshake, &hello, nonce);
	handshake_challenge(&conn->handshake, NULL, &challenge);
	conn_say(conn, &challenge);
}

static void proof_take(struct fabric_conn *conn, const struct parcel *parcel)
{
	struct sim_donor *donor = &w.donors[conn->donor];
	const struct handshake *handshake = &conn->handshake;
	struct wire_message proof, welcome;
	uint32_t session;

	expect(!wire_decode(parcel->bytes, parcel->size - WIRE_SEAL_SIZE, &proof),
	       "the client sent what cannot be understood");
	if (w.wrong)
		return;
	if (handshake_prove(&conn->handshake, NULL, &proof, &welcome)) {
		conn_break(conn, -ECONNRESET);
		return;
	}
	channel_begin(&conn->channel, handshake->session_key, false);
	expect(channel_open(&conn->channel, parcel->bytes, parcel->size) > 0, "the client's proof is not sealed");
	if (lease_session_begin(donor->book, w.now, handshake->auth.client_id, handshake->session_key,
				handshake->wished_grace_ms * MS, &session)) {
		conn_break(conn, -ECONNRESET);
		return;
	}
	donor_settle(conn->donor);
	conn->session = session;
	donor->salts[session] = ++w.salt;
	welcome.welcome.heartbeat_ms = 200;
	welcome.welcome.incarnation = donor->incarnation;
	welcome.welcome.slabs = donor->book->sessions[session].slabs;
	lease_capacity(donor->book, &welcome.welcome.capacity);
	conn_say(conn, &welcome);
}

static void warm_take(const struct fabric_conn *conn, const struct wire_message *message)
{
	for (unsigned i = 0; i < WIRE_WARM_SLABS; i++) {
		warm_slabs += message->warm.of[i].warmth != 0;
		lease_warm(w.donors[conn->donor].book, conn->session, message->warm.of[i].slab,
			   message->warm.of[i].warmth);
	}
}

static void message_take(struct fabric_conn *conn, const struct parcel *parcel)
{
	struct lease_book *book = w.donors[conn->donor].book;
	struct wire_message message, pong = {.type = WIRE_PONG};

	int size;

	if (conn->session == LEASE_NO_SESSION) {
		proof_take(conn, parcel);
		return;
	}
	size = channel_open(&conn->channel, parcel->bytes, parcel->size);
	expect(size > 0 && !wire_decode(parcel->bytes, (size_t)size, &message),
	       "the client sent what cannot be understood");
	if (w.wrong)
		return;
	lease_session_heard(book, w.now, conn->session);
	if (message.type == WIRE_LEASE)
		lease_request(book, conn->session, message.request);
	else if (message.type == WIRE_RELEASE)
		lease_release(book, conn->session, message.request, message.release.slab);
	else if (message.type == WIRE_CLAIM)
		lease_claim(book, conn->session, message.request, message.claim.slab);
	else if (message.type == WIRE_CLAIMED)
		lease_claimed(book, conn->session);
	else if (message.type == WIRE_PING)
		conn_say(conn, &pong);
	else if (message.type == WIRE_WARM)
		warm_take(conn, &message);
	else if (message.type == WIRE_BYE)
		lease_session_bye(book, conn->session);
	else if (message.type == WIRE_SUSPEND)
		lease_session_vanished(book, w.now, conn->session);
	else
		expect(message.type == WIRE_PONG, "the client sent what is not for it to send");
	donor_settle(conn->donor);
}

/*
 * Returns the memory of @op if the connection's session may touch it, as a device would decide. Otherwise returns NULL.
 */
static uint8_t *operation_place(const struct fabric_conn *conn, const struct fabric_op *op)
{
	struct sim_donor *donor = &w.donors[conn->donor];
	uint32_t offset = (uint32_t)op->remote.address, slab = offset / SLAB;

	if (op->remote.rkey != donor->salts[conn->session] || op->remote.address >> 32 != op->remote.rkey ||
	    slab >= SLABS || donor->book->slabs[slab].state != LEASE_SLAB_LEASED ||
	    donor->book->slabs[slab].session != conn->session)
		return NULL;
	return &donor->memory[slab][offset % SLAB];
}

static void operation_take(struct fabric_conn *conn, struct operation *operation)
{
	uint8_t *place = operation_place(conn, &operation->op);

	expect(place != NULL, "a request for what is not leased");
	if (!place)
		return;
	if (operation->op.kind == FABRIC_WRITE)
		memcpy(place, operation->pages, operation->op.length);
	else
		memcpy(operation->pages, place, operation->op.length);
	operation->done = true;
	operation->back = soon();
}

/* Lets the donor's program look at a connection. */
static void conn_serve(struct fabric_conn *conn)
{
	struct lease_book *book = w.donors[conn->donor].book;

	if (!conn->asked && conn->there && w.now >= conn->arrives)
		request_take(conn);
	while (conn->there && conn->out.head != conn->out.tail &&
	       conn->out.parcels[conn->out.head % MESSAGES].at <= w.now)
		message_take(conn, &conn->out.parcels[conn->out.head++ % MESSAGES]);
	for (unsigned i = conn->head; conn->there && i != conn->tail; i++)
		if (!conn->operations[i % OPS].done) {
			if (conn->operations[i % OPS].at > w.now)
				break;
			operation_take(conn, &conn->operations[i % OPS]);
		}
	if (!conn->there || conn->here || w.now < conn->left_at)
		return;
	conn->there = false;
	if (conn->session != LEASE_NO_SESSION && conn->role == WIRE_SESSION)
		lease_session_vanished(book, w.now, conn->session);
	else if (conn->session != LEASE_NO_SESSION)
		lease_detach(book, conn->session);
	donor_settle(conn->donor);
}

static void donor_health(unsigned index)
{
	struct sim_donor *donor = &w.donors[index];

	if (w.now < donor->until)
		return;
	if (donor->health == DEAD) {
		donor_start(index);
		/* Connections to the previous program are reset now. */
		for (unsigned i = 0; i < CONNS; i++)
			if (conns[i].used && conns[i].donor == index)
				conn_break(&conns[i], -ECONNRESET);
	}
	donor->health = RUNS;
	donor->until = UINT64_MAX;
}

static void world_step(uint64_t step)
{
	w.now += step;
	for (unsigned i = 0; i < DONORS; i++) {
		donor_health(i);
		if (w.donors[i].health != RUNS)
			continue;
		for (unsigned j = 0; j < CONNS; j++)
			if (conns[j].used && conns[j].donor == i)
				conn_serve(&conns[j]);
		if (w.now >= lease_deadline(w.donors[i].book)) {
			lease_expire(w.donors[i].book, w.now);
			donor_settle(i);
		}
	}
	for (unsigned j = 0; j < CONNS; j++)
		if (conns[j].used && !conns[j].here && !conns[j].there)
			conns[j].used = false;
}

static void donor_stall(unsigned index, uint64_t time)
{
	w.donors[index].health = STALLED;
	w.donors[index].until = w.now + time;
	w.donors[index].rests_until = w.donors[index].until + 2000 * MS;
}

static void donor_kill(unsigned index, bool silent, uint64_t time)
{
	w.donors[index].health = DEAD;
	w.donors[index].silent = silent;
	w.donors[index].until = w.now + time;
	for (unsigned i = 0; i < CONNS; i++) {
		if (!conns[i].used || conns[i].donor != index)
			continue;
		conns[i].there = false;
		if (!silent)
			conn_break(&conns[i], -ECONNRESET);
	}
}

/* --- fabric.h --------------------------------------------------------------------------------------------------- */

int fabric_open(const struct fabric_config *config, struct fabric **ret_fabric)
{
	(void)config;
	*ret_fabric = calloc(1, sizeof **ret_fabric);
	return 0;
}

void fabric_close(struct fabric *fabric)
{
	for (unsigned i = 0; fabric && i < CONNS; i++)
		if (conns[i].used && conns[i].here && conns[i].fabric == fabric)
			fabric_disconnect(&conns[i]);
	free(fabric);
}

int fabric_domain_open(struct fabric_domain **ret_domain)
{
	*ret_domain = calloc(1, sizeof **ret_domain);
	return 0;
}

void fabric_domain_close(struct fabric_domain *domain)
{
	free(domain);
}

int fabric_register(struct fabric_domain *domain, void *base, size_t length, unsigned access,
		    struct fabric_region **ret_region)
{
	(void)domain, (void)base, (void)length, (void)access;
	*ret_region = calloc(1, sizeof **ret_region);
	return 0;
}

void fabric_deregister(struct fabric_region *region)
{
	free(region);
}

int fabric_watch(struct fabric *fabric, int fd, void *user)
{
	fabric->wake = fd;
	fabric->far = user;
	return 0;
}

int fabric_connect(struct fabric *fabric, struct fabric_domain *domain, const char *uri, const void *private_data,
		   size_t private_size, void *user, struct fabric_conn **ret_conn)
{
	struct fabric_conn *conn = conns;

	(void)domain;
	while (conn < conns + CONNS && conn->used)
		conn++;
	expect(conn < conns + CONNS, "too many connections");
	if (conn == conns + CONNS)
		return -ENOMEM;
	memset(conn, 0, sizeof *conn);
	conn->used = conn->here = conn->there = true;
	conn->fabric = fabric;
	conn->user = user;
	conn->donor = (unsigned)(uri[strlen(uri) - 1] - '1');
	conn->session = LEASE_NO_SESSION;
	conn->arrives = soon();
	conn->deadline = w.now + CONNECT_MS * MS;
	memcpy(conn->hello, private_data, private_size);
	if (w.donors[conn->donor].health == DEAD) {
		conn->there = false;
		if (!w.donors[conn->donor].silent)
			conn_break(conn, -ECONNREFUSED);
	}
	*ret_conn = conn;
	return 0;
}

void fabric_disconnect(struct fabric_conn *conn)
{
	if (!conn)
		return;
	expect(conn->used && conn->here, "ended what has no beginning, or twice");
	conn->here = false;
	conn->left_at = w.now + random_below(&w.random, 200 * MS);
}

size_t fabric_conn_memory(const struct fabric_conn *conn)
{
	return sizeof *conn;
}

static bool conn_takes(const struct fabric_conn *conn)
{
	expect(conn->used && conn->here, "used after its end");
	return conn->established && !conn->flushing && !(conn->status && w.now >= conn->broken_at);
}

unsigned fabric_room(const struct fabric_conn *conn)
{
	return conn_takes(conn) ? OPS - (conn->tail - conn->head) : 0;
}

int fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count)
{
	if (!conn_takes(conn))
		return -ENOTCONN;
	for (unsigned i = 0; i < count; i++) {
		struct operation *operation = &conn->operations[conn->tail++ % OPS];

		expect(ops[i].length <= SLAB && conn->tail - conn->head <= OPS, "posted too much");
		*operation = (struct operation){.op = ops[i], .posted = w.now, .at = soon()};
		if (ops[i].kind == FABRIC_WRITE)
			memcpy(operation->pages, ops[i].local, ops[i].length);
	}
	return (int)count;
}

int fabric_send(struct fabric_conn *conn, const void *message, size_t size)
{
	struct parcel *parcel = &conn->out.parcels[conn->out.tail % MESSAGES];

	if (!conn_takes(conn))
		return -ENOTCONN;
	if (conn->out.tail - conn->out.head == MESSAGES)
		return -ENOBUFS;
	conn->out.tail++;
	parcel->at = w.now + 2 * MS;
	parcel->size = size;
	memcpy(parcel->bytes, message, size);
	return 0;
}

/* Takes the next event at the client's end. Returns false if there is none. */
static bool conn_event(struct fabric_conn *conn, struct fabric_event *event)
{
	struct operation *operation = &conn->operations[conn->head % OPS];
	bool waiting = conn->head != conn->tail;

	*event = (struct fabric_event){.conn = conn, .user = conn->user};
	if (conn->flushing && conn->status == 1)
		return false; /* all events were reported */
	if (!conn->flushing && !conn->established && conn->accepted && w.now >= conn->accepted_at) {
		conn->established = true;
		event->kind = FABRIC_ESTABLISHED;
		return true;
	}
	if (conn->established && !conn->flushing && waiting && operation->done && w.now >= operation->back) {
		if (operation->op.kind == FABRIC_READ)
			memcpy(operation->op.local, operation->pages, operation->op.length);
		event->kind = FABRIC_DONE;
		event->cookie = operation->op.cookie;
		conn->head++;
		return true;
	}
	if (conn->established && !conn->flushing && conn->in.head != conn->in.tail &&
	    conn->in.parcels[conn->in.head % MESSAGES].at <= w.now) {
		event->kind = FABRIC_MESSAGE;
		event->data = conn->in.parcels[conn->in.head % MESSAGES].bytes;
		event->size = conn->in.parcels[conn->in.head++ % MESSAGES].size;
		return true;
	}
	if (!conn->status &&
	    ((!conn->established && w.now >= conn->deadline) || (waiting && w.now >= operation->posted + IO_MS * MS))) {
		conn->status = -ETIMEDOUT;
		conn->broken_at = w.now;
	}
	if (!conn->status || w.now < conn->broken_at)
		return false;
	conn->flushing = true;
	event->status = conn->status;
	if (waiting) {
		event->kind = FABRIC_DONE;
		event->cookie = operation->op.cookie;
		conn->head++;
		return true;
	}
	event->kind = FABRIC_DISCONNECTED;
	event->data = conn->reject_size ? conn->reject : NULL;
	event->size = conn->reject_size;
	conn->status = 1;
	return true;
}

int fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max)
{
	struct pollfd wake = {.fd = fabric->wake, .events = POLLIN};
	unsigned count = 0;

	if (poll(&wake, 1, 0) == 1 && max)
		events[count++] = (struct fabric_event){.kind = FABRIC_READABLE, .user = fabric->far};
	for (unsigned i = 0; i < CONNS; i++)
		while (count < max && conns[i].used && conns[i].here && conns[i].fabric == fabric &&
		       conn_event(&conns[i], &events[count]))
			count++;
	return (int)count;
}

static void control_park(void)
{
	pthread_mutex_lock(&lock);
	control_turn_now = false;
	pthread_cond_broadcast(&passed);
	while (!control_turn_now && !closing)
		pthread_cond_wait(&passed, &lock);
	pthread_mutex_unlock(&lock);
}

/* Runs the control thread until it would sleep. */
static void control_run(void)
{
	pthread_mutex_lock(&lock);
	control_turn_now = true;
	pthread_cond_broadcast(&passed);
	while (control_turn_now)
		pthread_cond_wait(&passed, &lock);
	pthread_mutex_unlock(&lock);
}

int fabric_wait(struct fabric *fabric, struct fabric_event *events, unsigned max, int timeout_ms)
{
	uint64_t end = timeout_ms < 0 ? UINT64_MAX : w.now + (unsigned)timeout_ms * MS;

	for (;;) {
		int count = fabric_poll(fabric, events, max);

		if (count || w.now >= end)
			return count;
		if (!fabric->far) { /* a queue is being opened */
			world_step(MS);
			control_run();
		} else if (!fabric->far->open || fabric->far->adopting) {
			world_step(MS);
		} else if (closing) {
			sched_yield();
		} else {
			control_park();
		}
	}
}

int fabric_fd(const struct fabric *fabric)
{
	return fabric->wake;
}

int fabric_arm_until(struct fabric *fabric, uint64_t until)
{
	(void)fabric, (void)until;
	return 0;
}

/* --- The program ------------------------------------------------------------------------------------------------ */

static struct program {
	struct store *store;
	struct store_queue *queue;
	struct store_buffer *buffer;
	uint32_t versions[PAGES];
	bool busy[PAGES];
	struct {
		struct store_io io;
		uint32_t version;
		uint64_t since;
		bool active;
	} slots[DEPTH];
	uint8_t data[DEPTH][STORE_PAGE];
	uint32_t version;
	unsigned active, good, failed, adoptions;
	struct rebuild *rebuild; /* NULL if there are no replicas */
} p;

static void page_fill(void *data, uint64_t page, uint32_t version)
{
	uint64_t *words = data;

	for (unsigned i = 0; i < STORE_PAGE / sizeof *words; i++)
		words[i] = version ? page << 40 | (uint64_t)version << 8 | (i & 255) : 0;
}

static void slot_start(unsigned index)
{
	uint64_t page = random_below(&w.random, PAGES);
	struct store_io *io = &p.slots[index].io;
	bool write = random_below(&w.random, 2);

	if (p.busy[page])
		return;
	if (random_below(&w.random, 40) == 0) {
		store_discard(p.store, page, 1);
		p.versions[page] = 0;
		return;
	}
	*io = (struct store_io){.op = write ? STORE_WRITE : STORE_READ,
				.count = 1,
				.page = page,
				.data = p.data[index],
				.buffer = p.buffer,
				.cookie = index};
	p.slots[index].version = ++p.version;
	page_fill(io->data, page, write ? p.version : 0);
	if (store_submit(p.queue, io, 1) != 1)
		return;
	p.slots[index].since = w.now;
	p.busy[page] = p.slots[index].active = true;
	p.active++;
}

static void slot_end(const struct store_done *done)
{
	static uint8_t wanted[STORE_PAGE];
	const struct store_io *io = &p.slots[done->cookie].io;
	uint64_t page = io->page, most = TIMEOUT_MS + IO_MS + CONNECT_MS + 100;

	expect(p.slots[done->cookie].active, "a request answered twice");
	/* A write may also wait for a lease. */
	expect(w.now - p.slots[done->cookie].since <= (io->op == STORE_READ ? 1 : 2) * most * MS,
	       "a request that waited for too long");
	expect(done->status != -EBADMSG, "a page came back as it was before, or not as it was written");
	if (done->status) {
		p.failed++;
	} else if (io->op == STORE_WRITE) {
		p.versions[page] = p.slots[done->cookie].version;
		p.good++;
	} else {
		page_fill(wanted, page, p.versions[page]);
		expect(!memcmp(wanted, io->data, STORE_PAGE), "a read that is wrong");
		p.good++;
	}
	p.busy[page] = p.slots[done->cookie].active = false;
	p.active--;
}

/* The rebuild thread is not started here. The program calls rebuild_step() itself. */
int __wrap_rebuild_start(struct far *far);
void __wrap_rebuild_stop(struct far *far);

int __wrap_rebuild_start(struct far *far)
{
	(void)far;
	return 0;
}

void __wrap_rebuild_stop(struct far *far)
{
	(void)far;
}

static void program_step(bool more)
{
	struct store_done dones[DEPTH];

	for (unsigned i = 0; i < 4 && p.rebuild && rebuild_step(p.rebuild, w.now) <= w.now; i++)
		;
	for (unsigned i = 0; more && i < DEPTH; i++)
		if (!p.slots[i].active && random_below(&w.random, 3) == 0)
			slot_start(i);
	for (int i = 0, count = store_poll(p.queue, dones, DEPTH); i < count; i++)
		slot_end(&dones[i]);
}

/* Causes failures at random. */
static void trouble_step(unsigned *kills, unsigned *long_stalls)
{
	struct fabric_conn *conn = &conns[random_below(&w.random, CONNS)];
	unsigned donor = (unsigned)random_below(&w.random, DONORS);

	if (conn->used && conn->there && random_below(&w.random, 12) == 0 && w.donors[conn->donor].health == RUNS) {
		/* Each side learns of the break at its own time. */
		if (!conn->status) {
			conn->status = -ECONNRESET;
			conn->broken_at = soon();
		}
	}
	if (w.donors[donor].health != RUNS)
		return;
	/* Short stalls keep a distance, because two in a row make a long one. */
	if (random_below(&w.random, 100) == 0 && w.now > w.donors[donor].rests_until)
		donor_stall(donor, random_below(&w.random, 600 * MS));
	else if (*long_stalls && random_below(&w.random, 500) == 0 && (*long_stalls)--)
		donor_stall(donor, random_below(&w.random, 2500 * MS));
	else if (*kills && random_below(&w.random, 800) == 0 && (*kills)--)
		donor_kill(donor, random_below(&w.random, 2), random_below(&w.random, 3000 * MS));
}

static unsigned donors_lost(void)
{
	struct far_donor_info donors[DONORS];
	unsigned lost = 0;

	far_donors(p.store, donors, DONORS);
	for (unsigned i = 0; i < DONORS; i++)
		lost += donors[i].status != 0;
	return lost;
}

/* Discards everything. No known donor may keep a slab. */
static void all_comes_back(void)
{
	struct far_donor_info donors[DONORS];
	struct wire_capacity capacity;
	uint64_t left = 1;

	store_discard(p.store, 0, PAGES);
	for (unsigned i = 0; i < 1000 && left && !w.wrong; i++) {
		world_step(10 * MS);
		control_run();
		program_step(false);
		left = 0;
		far_donors(p.store, donors, DONORS);
		for (unsigned j = 0; j < DONORS; j++) {
			lease_capacity(w.donors[j].book, &capacity);
			left += donors[j].status ? 0 : capacity.leased;
		}
	}
	expect(!left, "a slab that never comes back");
}

static int state_fd = -1; /* -1 if the store has none */

/* Returns false if no donor is left to adopt from. */
static bool program_open(uint64_t seed)
{
	static const char *const uris[DONORS] = {"tcp://1:1", "tcp://1:2", "tcp://1:3"};
	char path[64];
	struct far_config config = {.donors = uris,
				    .donor_count = DONORS,
				    .pages = PAGES,
				    .replicas = 1 + (unsigned)(seed % 2),
				    .timeout_ms = TIMEOUT_MS,
				    .state_file = state_fd < 0 ? NULL : path,
				    .fabric = {.depth = OPS, .connect_ms = CONNECT_MS, .io_ms = IO_MS}};

	snprintf(path, sizeof path, "/proc/self/fd/%d", state_fd);
	closing = false;
	control_turn_now = true;
	if (far_open(&config, &p.store))
		return false;
	pthread_mutex_lock(&lock);
	while (control_turn_now)
		pthread_cond_wait(&passed, &lock);
	pthread_mutex_unlock(&lock);
	p.rebuild = ((struct far *)p.store)->rebuild;
	if (p.rebuild && rebuild_begin(p.rebuild))
		abort();
	if (store_queue_open(p.store, &p.queue) || store_register(p.store, p.data, sizeof p.data, &p.buffer))
		abort();
	return true;
}

static void world_open(uint64_t seed)
{
	for (unsigned i = 0; i < DONORS; i++)
		lease_close(w.donors[i].book);
	memset(&w, 0, sizeof w);
	memset(&p, 0, sizeof p);
	for (unsigned i = 0; i < CONNS; i++)
		conns[i].used = false;
	w.now = 1000 * MS;
	random_seed(&w.random, seed);
	for (unsigned i = 0; i < DONORS; i++) {
		donor_start(i);
		w.donors[i].until = UINT64_MAX;
	}
	state_fd = seed % 4 == 3 ? memfd_create("state", MFD_CLOEXEC) : -1;
	if (!program_open(seed))
		abort();
}

static void program_close(bool leave)
{
	store_queue_close(p.queue);
	store_deregister(p.store, p.buffer);
	if (p.rebuild)
		rebuild_end(p.rebuild);
	pthread_mutex_lock(&lock);
	closing = true;
	pthread_cond_broadcast(&passed);
	pthread_mutex_unlock(&lock);
	if (leave)
		far_leave(p.store);
	else
		store_close(p.store);
	p.store = NULL;
}

static void world_close(void)
{
	if (p.store)
		program_close(false);
	if (state_fd >= 0)
		close(state_fd);
}

/* Copies the state file as it is now. */
static int state_copy(void)
{
	int copy = memfd_create("state", MFD_CLOEXEC);
	struct stat status;
	off_t from = 0;

	if (fstat(state_fd, &status) < 0 || ftruncate(copy, status.st_size) < 0 || lseek(state_fd, 0, SEEK_SET) < 0 ||
	    sendfile(copy, state_fd, &from, (size_t)status.st_size) != status.st_size)
		abort();
	return copy;
}

/* Kills the process and lets another one adopt the store. Returns false if adoption fails. */
static bool program_kill(uint64_t seed)
{
	int state = state_copy();

	program_close(true);
	close(state_fd);
	state_fd = state;
	for (uint64_t i = random_below(&w.random, 30); i; i--)
		world_step(random_below(&w.random, 20 * MS));
	if (!program_open(seed))
		return false;
	for (unsigned i = 0; i < DEPTH; i++) {
		if (!p.slots[i].active)
			continue;
		if (store_submit(p.queue, &p.slots[i].io, 1) != 1)
			abort();
		p.slots[i].since = w.now;
	}
	p.adoptions++;
	return true;
}

static const char *history(uint64_t seed, unsigned *good, unsigned *failed, unsigned *losses, unsigned *adoptions,
			   uint64_t *rebuilt)
{
	unsigned kills = seed % 3 == 0 ? 2 : 0, long_stalls = seed % 3 == 1 ? 3 : 0;
	bool may_lose = kills || long_stalls;
	struct store_stats stats;

	world_open(seed);
	for (unsigned i = 0; i < STEPS && !w.wrong; i++) {
		trouble_step(&kills, &long_stalls);
		world_step(random_below(&w.random, 10 * MS));
		control_run();
		program_step(true);
		if (state_fd < 0 || random_below(&w.random, 150) || program_kill(seed))
			continue;
		expect(may_lose, "a store that cannot be adopted");
		world_close();
		return w.wrong;
	}
	/* No more trouble: all open requests must be answered. */
	for (unsigned i = 0; i < 1000 && p.active && !w.wrong; i++) {
		world_step(10 * MS);
		control_run();
		program_step(false);
	}
	expect(!p.active, "a request that is never answered");
	all_comes_back();
	store_stats(p.store, &stats);
	expect(!stats.checksum_errors, "a replica that was not written");
	*losses += donors_lost();
	expect(may_lose || (!donors_lost() && !p.failed), "lost what was only away");
	*good += p.good;
	*failed += p.failed;
	*adoptions += p.adoptions;
	*rebuilt += stats.rebuilt_pages;
	world_close();
	return w.wrong;
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, last = argc > 1 ? first : HISTORIES_MORE, seed;
	unsigned good = 0, failed = 0, losses = 0, adoptions = 0;
	uint64_t rebuilt = 0;
	const char *wrong = NULL;

	if (argc < 2)
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	/* After the first histories only those with replicas run. */
	for (seed = first; seed <= last && !wrong; seed += argc < 2 && seed >= HISTORIES ? 1 + seed % 2 : 1) {
		wrong = history(seed, &good, &failed, &losses, &adoptions, &rebuilt);
		if (wrong)
			printf("# seed %llu: %s\n", (unsigned long long)seed, wrong);
	}
	ok(!wrong, "no promise is broken in histories %llu to %llu", (unsigned long long)first,
	   (unsigned long long)last);
	ok(argc > 1 || (good > 100000 && failed > 100 && losses > 10),
	   "the histories carry out %u requests, fail %u, and lose %u donors", good, failed, losses);
	ok(argc > 1 || adoptions > 100, "the histories include %u processes that adopt the store of a killed one",
	   adoptions);
	ok(argc > 1 || rebuilt > 1000, "the histories copy %llu pages to rebuilt replicas",
	   (unsigned long long)rebuilt);
	ok(argc > 1 || warm_slabs > 100, "the histories report %u slabs as used to their donors", warm_slabs);
	return tap_done();
}

/* net: see net.h. */
#include "tests/sim/net.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PAGE 4096u
#define CLASSES 65u

struct net net;

/* Unused blocks of memory, one list for each size in pages. A block holds the data of an operation that is in
   flight. */
static struct spare {
	struct spare *next;
} * spares[CLASSES];

void net_open(const struct net_habits *habits)
{
	net = (struct net){.habits = *habits};
	memset(spares, 0, sizeof spares);
}

static uint8_t *pages_get(size_t bytes)
{
	size_t class = (bytes + PAGE - 1) / PAGE;
	struct spare *spare = class < CLASSES ? spares[class] : NULL;

	if (!spare)
		return world_memory(class * PAGE);
	spares[class] = spare->next;
	return (uint8_t *)spare;
}

static void pages_put(struct operation *operation)
{
	size_t class = (operation->op.length + PAGE - 1) / PAGE;
	struct spare *spare = (struct spare *)operation->pages;

	operation->pages = NULL;
	if (!spare || class >= CLASSES)
		return;
	spare->next = spares[class];
	spares[class] = spare;
}

/* --- Events of an end -------------------------------------------------------------------------------------------- */

void net_notify(struct fabric *fabric)
{
	task_wake(fabric->waiter);
	descriptor_changed(fabric->fd);
}

void net_tell(struct fabric_conn *conn, const struct fabric_event *event)
{
	struct fabric *fabric = conn->fabric;
	struct happening *happening = world_memory(sizeof *happening);

	happening->event = *event;
	happening->event.conn = conn;
	*fabric->tail = happening;
	fabric->tail = &happening->next;
	net_notify(fabric);
}

void net_untell(struct fabric_conn *conn)
{
	struct happening **link = &conn->fabric->head;

	while (*link) {
		if ((*link)->event.conn == conn)
			*link = (*link)->next;
		else
			link = &(*link)->next;
	}
	conn->fabric->tail = link;
}

void net_depart(struct fabric_conn *conn)
{
	bool leaves = true;

	for (unsigned i = conn->head; i != conn->tail; i++) {
		struct operation *operation = conn->operations[i % FABRIC_DEPTH_MAX];

		if (operation->op.kind == FABRIC_READ && world_chance(2))
			memset(operation->op.local, 0xa5, 1 + world_below(operation->op.length));
		leaves = leaves && !world_chance(6);
		if (operation->op.kind != FABRIC_WRITE || operation->pages)
			continue;
		operation->pages = pages_get(operation->op.length);
		if (leaves)
			memcpy(operation->pages, operation->op.local, operation->op.length);
		else
			operation->op.length = 0; /* neither this operation nor a later one is ever sent */
	}
}

void net_break(struct fabric_conn *conn, int first, int status, const void *data, size_t size)
{
	if (conn->state == CONN_BROKEN || conn->state == CONN_CLOSED)
		return;
	world_tell("w%u: %s's end breaks: %s, %u in flight", conn->wire->number, conn->process->name, strerror(-status),
		   conn->tail - conn->head);
	net_depart(conn);
	conn->state = CONN_BROKEN;
	for (; conn->head != conn->tail; conn->head++) {
		const struct operation *operation = conn->operations[conn->head % FABRIC_DEPTH_MAX];

		net_tell(conn,
			 &(struct fabric_event){.kind = FABRIC_DONE, .status = first, .cookie = operation->op.cookie});
		first = -ECONNRESET;
	}
	net_tell(conn,
		 &(struct fabric_event){.kind = FABRIC_DISCONNECTED, .status = status, .data = data, .size = size});
}

/* --- Pipes ------------------------------------------------------------------------------------------------------ */

static void pipe_run(void *what, uint64_t token);

static void pipe_run_at(struct wire *wire, unsigned side, uint64_t at)
{
	/* The lowest bit of the token is the side. */
	wire->pipes[side].token += 2;
	world_at(at, pipe_run, wire, wire->pipes[side].token | side);
}

void net_send(struct fabric_conn *conn, enum packet_kind kind, const void *data, size_t size,
	      struct operation *operation)
{
	struct wire *wire = conn->wire;
	struct pipe *pipe = &wire->pipes[conn->side];
	struct packet *packet;

	if (conn->process->dead || pipe->ended)
		return;
	packet = world_memory(sizeof *packet);
	packet->kind = kind;
	packet->operation = operation;
	packet->at = world_now() + net.habits.least_ns + world_below(net.habits.most_ns - net.habits.least_ns + 1);
	if (world_now() < machine_at(conn->process->host)->slow_until)
		packet->at += machine_at(conn->process->host)->slow_ns;
	if (packet->at < pipe->last_at)
		packet->at = pipe->last_at;
	pipe->last_at = packet->at;
	if (size) {
		packet->data = world_memory(size);
		packet->size = size;
		memcpy(packet->data, data, size);
	}
	pipe->messages += kind == PACKET_MESSAGE;
	pipe->ended = kind == PACKET_END;
	if (!pipe->head) {
		pipe->tail = &pipe->head;
		pipe_run_at(wire, conn->side, packet->at);
	}
	*pipe->tail = packet;
	pipe->tail = &packet->next;
}

void net_lose(struct wire *wire, unsigned side, bool torn)
{
	struct pipe *pipe = &wire->pipes[side];
	struct packet **link = &pipe->head;

	while (*link && !world_chance(4))
		link = &(*link)->next;
	if (!*link)
		return;
	world_tell("w%u: what is on the way to %s is lost in part", wire->number,
		   machine_at(wire->hosts[1 - side])->off ? "nobody" : "the other end");
	if (torn && (*link)->kind == PACKET_OPERATION) {
		(*link)->torn = true;
		link = &(*link)->next;
	}
	*link = NULL;
	pipe->tail = link;
}

void net_end(struct fabric_conn *conn)
{
	struct wire *wire = conn->wire;

	if (world_chance(net.habits.linger_in))
		net_lose(wire, conn->side, false);
	if (world_chance(net.habits.silent_in))
		wire->pipes[conn->side].ended = true;
	net_send(conn, PACKET_END, NULL, 0, NULL);
}

/* --- Requests for pages ----------------------------------------------------------------------------------------- */

uint32_t net_key(const struct fabric_region *region)
{
	return region->domain->salt << 16 ^ region->key;
}

static struct fabric_region *region_find(const struct fabric_conn *conn, const struct fabric_op *op)
{
	unsigned right = op->kind == FABRIC_READ ? FABRIC_REMOTE_READ : FABRIC_REMOTE_WRITE;

	for (struct fabric_region *region = conn->process->region_list; region; region = region->next) {
		uint64_t address = (uint64_t)region->key << 32, offset = op->remote.address - address;

		if (net_key(region) == op->remote.rkey)
			return region->domain == conn->domain && region->access & right &&
				       op->remote.address >= address && offset <= region->length &&
				       op->length <= region->length - offset
				   ? region
				   : NULL;
	}
	return NULL;
}

/* Copies the pages that a read asked for out of the donor's memory. */
static void pages_take(void *what, uint64_t token)
{
	struct operation *operation = what;
	struct fabric_region *region = (struct fabric_region *)(uintptr_t)token;

	if (region->dead)
		operation->pages = NULL; /* the region is deregistered, so the read gets no answer */
	else
		memcpy(operation->pages, region->base + (uint32_t)operation->op.remote.address, operation->op.length);
}

static void operation_take(struct fabric_conn *conn, struct packet *packet)
{
	struct operation *operation = packet->operation;
	const struct fabric_op *op = &operation->op;
	struct fabric_region *region;
	uint32_t length = op->length;

	if (!length)
		return;
	region = region_find(conn, op);
	if (!region) {
		world_tell("w%u: %s refuses a request for key %u", conn->wire->number, conn->process->name,
			   op->remote.rkey);
		if (!net.habits.takes)
			world_fail("%s: a request for what is not lent: key %u", conn->process->name, op->remote.rkey);
		net_send(conn, PACKET_REFUSAL, NULL, 0, NULL);
		net_break(conn, -ECONNRESET, -EACCES, NULL, 0);
		return;
	}
	net.operations++;
	world_tell("w%u: %s %s %u bytes of key %u at %u%s", conn->wire->number, conn->process->name,
		   op->kind == FABRIC_READ ? "reads" : "writes", length, op->remote.rkey, (uint32_t)op->remote.address,
		   packet->torn ? ", in part" : "");
	if (op->kind == FABRIC_WRITE) {
		const void *pages = operation->pages ? operation->pages : op->local;

		length = packet->torn ? (uint32_t)world_below(length) : length;
		memcpy(region->base + (uint32_t)op->remote.address, pages, length);
	} else if (!packet->torn) {
		operation->pages = pages_get(length);
		if (world_chance(4))
			world_at(world_now() + world_below(net.habits.least_ns), pages_take, operation,
				 (uintptr_t)region);
		else
			pages_take(operation, (uintptr_t)region);
	}
	if (!packet->torn)
		net_send(conn, PACKET_ANSWER, NULL, 0, operation);
}

static void answer_take(struct fabric_conn *conn, struct operation *operation)
{
	if (operation->op.kind == FABRIC_READ && !operation->pages) {
		net_break(conn, -ECONNRESET, -ECONNRESET, NULL, 0);
		return;
	}
	if (operation->op.kind == FABRIC_READ)
		memcpy(operation->op.local, operation->pages, operation->op.length);
	pages_put(operation);
	conn->head++;
	net_tell(conn, &(struct fabric_event){.kind = FABRIC_DONE, .cookie = operation->op.cookie});
}

/* --- Arriving --------------------------------------------------------------------------------------------------- */

static struct fabric_listener *listener_find(const char *uri)
{
	for (struct fabric_listener *listener = net.listeners; listener; listener = listener->next)
		if (!listener->closed && !listener->fabric->process->dead && !strcmp(listener->uri, uri))
			return listener;
	return NULL;
}

void net_answer(struct wire *wire, unsigned side, enum packet_kind kind)
{
	static struct process nobody = {.name = "nobody"};
	struct fabric_conn conn = {.wire = wire, .side = side, .process = &nobody};

	net_send(&conn, kind, NULL, 0, NULL);
}

static void connect_take(struct wire *wire, const struct packet *packet)
{
	struct fabric_listener *listener = listener_find(wire->uri);
	struct fabric_conn *conn;

	if (!listener) {
		net_answer(wire, 1, PACKET_REJECT);
		return;
	}
	conn = world_memory(sizeof *conn);
	conn->wire = wire;
	conn->side = 1;
	conn->state = CONN_REQUESTED;
	conn->fabric = listener->fabric;
	conn->process = listener->fabric->process;
	conn->process->conns++;
	wire->ends[1] = conn;
	net_tell(conn,
		 &(struct fabric_event){
		     .kind = FABRIC_CONNECT_REQUEST, .listener = listener, .data = packet->data, .size = packet->size});
}

bool net_end_lives(const struct fabric_conn *conn)
{
	return conn && !conn->process->dead && conn->state != CONN_BROKEN && conn->state != CONN_CLOSED;
}

static void packet_take(struct fabric_conn *conn, struct packet *packet)
{
	switch (packet->kind) {
	case PACKET_CONNECT:
		return;
	case PACKET_ACCEPT:
		conn->state = CONN_ESTABLISHED;
		net_send(conn, PACKET_READY, NULL, 0, NULL);
		net_tell(conn, &(struct fabric_event){.kind = FABRIC_ESTABLISHED});
		return;
	case PACKET_READY:
		conn->state = CONN_ESTABLISHED;
		net_tell(conn, &(struct fabric_event){.kind = FABRIC_ESTABLISHED});
		return;
	case PACKET_REJECT:
		net_break(conn, -ECONNREFUSED, -ECONNREFUSED, packet->data, packet->size);
		return;
	case PACKET_MESSAGE:
		net_tell(conn,
			 &(struct fabric_event){.kind = FABRIC_MESSAGE, .data = packet->data, .size = packet->size});
		return;
	case PACKET_OPERATION:
		operation_take(conn, packet);
		return;
	case PACKET_ANSWER:
		answer_take(conn, packet->operation);
		return;
	case PACKET_REFUSAL:
		net_break(conn, -EACCES, -EACCES, NULL, 0);
		return;
	case PACKET_END:
		net_break(conn, -ECONNRESET, -ECONNRESET, NULL, 0);
		return;
	}
}

static void packet_arrive(struct wire *wire, unsigned side, struct packet *packet)
{
	struct fabric_conn *conn = wire->ends[1 - side];

	wire->pipes[side].messages -= packet->kind == PACKET_MESSAGE;
	if (machine_at(wire->hosts[1 - side])->off)
		return;
	if (packet->kind == PACKET_CONNECT)
		connect_take(wire, packet);
	else if (net_end_lives(conn))
		packet_take(conn, packet);
	else if (packet->kind != PACKET_END)
		net_answer(wire, 1 - side, PACKET_END);
}

/* Returns the time until which the packet must wait in the pipe. */
static uint64_t packet_held(const struct wire *wire, unsigned side, const struct packet *packet)
{
	const struct fabric_conn *conn = wire->ends[1 - side];
	uint64_t held = machine_at(wire->hosts[side])->cut_until[wire->hosts[1 - side]];

	if (held < wire->pipes[side].cut_until)
		held = wire->pipes[side].cut_until;
	if (packet->kind == PACKET_OPERATION && net_end_lives(conn) && !machine_at(conn->process->host)->device &&
	    held < conn->process->stalled_until)
		held = conn->process->stalled_until;
	return held;
}

static void pipe_run(void *what, uint64_t token)
{
	struct wire *wire = what;
	unsigned side = token & 1;
	struct pipe *pipe = &wire->pipes[side];

	if ((token & ~UINT64_C(1)) != pipe->token)
		return;
	while (pipe->head && pipe->head->at <= world_now()) {
		struct packet *packet = pipe->head;
		uint64_t held = packet_held(wire, side, packet);

		if (held > world_now()) {
			pipe_run_at(wire, side, held + world_below(MS));
			return;
		}
		pipe->head = packet->next;
		packet_arrive(wire, side, packet);
	}
	if (pipe->head)
		pipe_run_at(wire, side, pipe->head->at);
}

/* --- Time ------------------------------------------------------------------------------------------------------- */

/* Returns the time at which this end times out, or UINT64_MAX if it waits for nothing. */
static uint64_t conn_due(const struct fabric_conn *conn)
{
	if (!net_end_lives(conn))
		return UINT64_MAX;
	if (conn->state == CONN_CONNECTING || conn->state == CONN_ACCEPTED)
		return conn->deadline;
	if (conn->head == conn->tail)
		return UINT64_MAX;
	return conn->operations[conn->head % FABRIC_DEPTH_MAX]->posted + conn->fabric->config.io_ms * MS;
}

static void conn_look(void *what, uint64_t token)
{
	struct fabric_conn *conn = what;

	(void)token;
	conn->timed = false;
	if (conn_due(conn) <= world_now())
		net_break(conn, -ETIMEDOUT, -ETIMEDOUT, NULL, 0);
	net_watch_time(conn);
}

void net_watch_time(struct fabric_conn *conn)
{
	uint64_t due = conn_due(conn);

	if (due == UINT64_MAX || conn->timed)
		return;
	conn->timed = true;
	world_at(due, conn_look, conn, 0);
}

/*
 * fabric: implements fabric/fabric.h on the simulated network (net.h).
 *
 * Each process numbers its keys and addresses from 1. So a restarted donor uses the same keys and addresses again, as
 * a device may do. A client that returns over a new connection gets other keys, as over another device, and its old
 * keys become invalid. Memory must be all zero when it is registered for peers (invariant 4).
 *
 * Threads: one. A fabric belongs to the task that opened it.
 */
#include "tests/sim/net.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- Fabrics ---------------------------------------------------------------------------------------------------- */

static bool fabric_has_news(const struct fabric *fabric)
{
	bool any = fabric->head;

	for (unsigned i = 0; i < NET_WATCHES; i++)
		any |= fabric->watches[i].fd >= 0 && descriptor_is_readable(fabric->watches[i].fd);
	return any;
}

/* Only an armed fabric has a readable descriptor. */
static bool fabric_is_readable(const void *what)
{
	const struct fabric *fabric = what;

	return fabric->armed && (fabric_has_news(fabric) || world_now() >= fabric->until);
}

int fabric_open(const struct fabric_config *config, struct fabric **ret_fabric)
{
	const struct fabric_config usual = FABRIC_CONFIG_DEFAULT;
	struct fabric *fabric = world_memory(sizeof *fabric);

	fabric->config = config ? *config : usual;
	if (!fabric->config.depth)
		fabric->config.depth = usual.depth;
	if (!fabric->config.connect_ms)
		fabric->config.connect_ms = usual.connect_ms;
	if (!fabric->config.io_ms)
		fabric->config.io_ms = usual.io_ms;
	fabric->process = task_process();
	fabric->process->fabrics++;
	fabric->tail = &fabric->head;
	fabric->until = fabric->alarm_at = UINT64_MAX;
	for (unsigned i = 0; i < NET_WATCHES; i++)
		fabric->watches[i].fd = -1;
	fabric->fd = descriptor_open(0, fabric_is_readable, fabric);
	fabric->next = net.fabrics;
	net.fabrics = fabric;
	*ret_fabric = fabric;
	return fabric->fd < 0 ? -EMFILE : 0;
}

void fabric_close(struct fabric *fabric)
{
	if (!fabric)
		return;
	for (struct wire *wire = net.wires; wire; wire = wire->next)
		for (unsigned i = 0; i < 2; i++)
			if (wire->ends[i] && wire->ends[i]->fabric == fabric && wire->ends[i]->state != CONN_CLOSED)
				fabric_disconnect(wire->ends[i]);
	for (struct fabric_listener *listener = net.listeners; listener; listener = listener->next)
		listener->closed |= listener->fabric == fabric;
	for (unsigned i = 0; i < NET_WATCHES; i++)
		if (fabric->watches[i].fd >= 0) {
			descriptor_watch(fabric->watches[i].fd, NULL, NULL);
			fabric->watches[i].fd = -1;
		}
	descriptor_close(fabric->fd);
	fabric->closed = true;
	fabric->process->fabrics--;
}

/* --- Memory ----------------------------------------------------------------------------------------------------- */

int fabric_domain_open(struct fabric_domain **ret_domain)
{
	struct fabric_domain *domain = world_memory(sizeof *domain);

	domain->process = task_process();
	domain->process->domains++;
	*ret_domain = domain;
	return 0;
}

void fabric_domain_close(struct fabric_domain *domain)
{
	if (!domain)
		return;
	if (domain->regions)
		world_fail("%s: a domain is closed with %u regions in it", domain->process->name, domain->regions);
	if (domain->closed)
		world_fail("%s: a domain is closed twice", domain->process->name);
	domain->closed = true;
	domain->process->domains--;
}

static bool memory_is_zero(const uint8_t *base, size_t length)
{
	return !length || (!base[0] && !memcmp(base, base + 1, length - 1));
}

int fabric_register(struct fabric_domain *domain, void *base, size_t length, unsigned access,
		    struct fabric_region **ret_region)
{
	struct fabric_region *region = world_memory(sizeof *region);
	struct process *process = domain->process;

	if (!length)
		return -EINVAL;
	if (domain->closed)
		world_fail("%s: registers in a domain that is closed", process->name);
	if (access && !process->adopts && !memory_is_zero(base, length))
		world_fail("%s: lends memory with something in it", process->name);
	region->process = process;
	region->domain = domain;
	region->base = base;
	region->length = length;
	region->access = access;
	region->key = ++process->keys;
	region->next = process->region_list;
	process->region_list = region;
	process->regions++;
	domain->regions++;
	world_tell("%s: key %u is %zu bytes%s", process->name, region->key, length, access ? ", lent" : "");
	*ret_region = region;
	return 0;
}

void fabric_deregister(struct fabric_region *region)
{
	struct fabric_region **link;

	if (!region)
		return;
	if (region->dead) {
		world_fail("%s: key %u is deregistered twice", region->process->name, region->key);
		return;
	}
	link = &region->process->region_list;
	world_tell("%s: key %u is dead", region->process->name, region->key);
	region->dead = true;
	while (*link != region)
		link = &(*link)->next;
	*link = region->next;
	region->process->regions--;
	region->domain->regions--;
}

struct fabric_remote fabric_export(const struct fabric_region *region, const struct fabric_conn *conn)
{
	region->domain->salt = conn->wire->number;
	return (struct fabric_remote){.address = (uint64_t)region->key << 32, .rkey = net_key(region)};
}

/* --- Connections ------------------------------------------------------------------------------------------------ */

int fabric_listen(struct fabric *fabric, const char *uri, struct fabric_listener **ret_listener)
{
	struct fabric_listener *listener = world_memory(sizeof *listener);

	snprintf(listener->uri, sizeof listener->uri, "%s", uri);
	listener->fabric = fabric;
	listener->next = net.listeners;
	net.listeners = listener;
	*ret_listener = listener;
	return 0;
}

uint16_t fabric_listener_port(const struct fabric_listener *listener)
{
	(void)listener;
	return 7470;
}

/* Returns the host of an address: "tcp://0:7470" is on host 0. */
static unsigned uri_host(const char *uri)
{
	unsigned host = MACHINES_MAX;

	sscanf(uri, "tcp://%u:", &host);
	assert(host < MACHINES_MAX);
	return host;
}

int fabric_connect(struct fabric *fabric, struct fabric_domain *domain, const char *uri, const void *private_data,
		   size_t private_size, void *user, struct fabric_conn **ret_conn)
{
	struct process *process = fabric->process;
	struct fabric_conn *conn;
	struct wire *wire;

	task_pause();
	if (process->dead)
		return -ENETDOWN;
	conn = world_memory(sizeof *conn);
	wire = world_memory(sizeof *wire);
	wire->number = ++net.wire_count;
	snprintf(wire->uri, sizeof wire->uri, "%s", uri);
	wire->hosts[0] = process->host;
	wire->hosts[1] = uri_host(uri);
	wire->ends[0] = conn;
	wire->next = net.wires;
	net.wires = wire;
	conn->wire = wire;
	conn->state = CONN_CONNECTING;
	conn->process = process;
	conn->fabric = fabric;
	conn->domain = domain;
	conn->user = user;
	conn->deadline = world_now() + fabric->config.connect_ms * MS;
	process->conns++;
	world_tell("w%u: %s connects to %s", wire->number, process->name, uri);
	net_send(conn, PACKET_CONNECT, private_data, private_size, NULL);
	net_watch_time(conn);
	*ret_conn = conn;
	return 0;
}

int fabric_accept(struct fabric_conn *conn, struct fabric_domain *domain, void *user)
{
	if (domain->closed)
		world_fail("%s: accepts into a domain that is closed", conn->process->name);
	conn->domain = domain;
	conn->user = user;
	if (conn->state != CONN_REQUESTED)
		return 0; /* the connection has ended already; the next event reports it */
	conn->state = CONN_ACCEPTED;
	conn->deadline = world_now() + conn->fabric->config.connect_ms * MS;
	net_send(conn, PACKET_ACCEPT, NULL, 0, NULL);
	net_watch_time(conn);
	return 0;
}

static void conn_close(struct fabric_conn *conn)
{
	net_untell(conn);
	conn->state = CONN_CLOSED;
	conn->head = conn->tail;
	conn->process->conns--;
}

void fabric_reject(struct fabric_conn *conn, const void *private_data, size_t private_size)
{
	net_send(conn, PACKET_REJECT, private_data, private_size, NULL);
	conn_close(conn);
}

void fabric_disconnect(struct fabric_conn *conn)
{
	if (!conn)
		return;
	if (conn->state == CONN_CLOSED) {
		world_fail("%s: w%u is ended twice", conn->process->name, conn->wire->number);
		return;
	}
	world_tell("w%u: %s ends it", conn->wire->number, conn->process->name);
	net_depart(conn);
	conn_close(conn);
	net_end(conn);
}

const char *fabric_conn_peer(const struct fabric_conn *conn)
{
	return conn->wire->ends[0] == conn ? conn->wire->uri : "a client";
}

uint64_t fabric_conn_origin(const struct fabric_conn *conn)
{
	return conn->wire->number;
}

size_t fabric_conn_memory(const struct fabric_conn *conn)
{
	return sizeof *conn;
}

/* --- Data path -------------------------------------------------------------------------------------------------- */

static bool conn_takes(const struct fabric_conn *conn)
{
	if (conn->state == CONN_CLOSED)
		world_fail("%s: w%u is used after its end", conn->process->name, conn->wire->number);
	return conn->state == CONN_ESTABLISHED;
}

unsigned fabric_room(const struct fabric_conn *conn)
{
	return conn_takes(conn) ? conn->fabric->config.depth - (conn->tail - conn->head) : 0;
}

static bool op_is_local(const struct fabric_conn *conn, const struct fabric_op *op)
{
	const struct fabric_region *region = op->region;
	const uint8_t *local = op->local;

	return !region->dead && region->domain == conn->domain && local >= region->base &&
	       local + op->length <= region->base + region->length;
}

int fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count)
{
	unsigned taken = 0;

	if (!conn_takes(conn))
		return -ENOTCONN;
	for (; taken < count && conn->tail - conn->head < conn->fabric->config.depth; taken++) {
		struct operation *operation = world_memory(sizeof *operation);

		if (!op_is_local(conn, &ops[taken]))
			world_fail("%s: posts memory that is not registered", conn->process->name);
		operation->op = ops[taken];
		operation->posted = world_now();
		conn->operations[conn->tail++ % FABRIC_DEPTH_MAX] = operation;
		net_send(conn, PACKET_OPERATION, NULL, 0, operation);
	}
	net_watch_time(conn);
	return (int)taken;
}

int fabric_send(struct fabric_conn *conn, const void *message, size_t size)
{
	if (!conn_takes(conn))
		return -ENOTCONN;
	if (conn->wire->pipes[conn->side].messages >= NET_MESSAGES_MAX)
		return -ENOBUFS;
	net_send(conn, PACKET_MESSAGE, message, size, NULL);
	return 0;
}

/* --- Events ----------------------------------------------------------------------------------------------------- */

int fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max)
{
	unsigned count = 0;

	fabric->armed = false;
	for (unsigned i = 0; i < NET_WATCHES && count < max; i++)
		if (fabric->watches[i].fd >= 0 && descriptor_is_readable(fabric->watches[i].fd))
			events[count++] =
			    (struct fabric_event){.kind = FABRIC_READABLE, .user = fabric->watches[i].user};
	while (fabric->head && count < max) {
		events[count] = fabric->head->event;
		events[count].user = events[count].conn->user;
		count++;
		fabric->head = fabric->head->next;
	}
	if (!fabric->head)
		fabric->tail = &fabric->head;
	return (int)count;
}

int fabric_wait(struct fabric *fabric, struct fabric_event *events, unsigned max, int timeout_ms)
{
	uint64_t until = timeout_ms < 0 ? UINT64_MAX : task_now() + (uint64_t)timeout_ms * MS;

	for (;;) {
		int count = fabric_poll(fabric, events, max);

		if (count || task_now() >= until)
			return count;
		if (fabric->interrupted) {
			fabric->interrupted = false;
			return -EINTR;
		}
		fabric->waiter = task_self();
		task_block(until);
		fabric->waiter = NULL;
	}
}

int fabric_fd(const struct fabric *fabric)
{
	return fabric->fd;
}

static void fabric_alarm(void *what, uint64_t token);

static void alarm_set(struct fabric *fabric)
{
	fabric->alarm_at = fabric->until;
	world_at(fabric->until, fabric_alarm, fabric, 0);
}

static void fabric_alarm(void *what, uint64_t token)
{
	struct fabric *fabric = what;

	(void)token;
	fabric->alarm_at = UINT64_MAX;
	if (fabric->closed || !fabric->armed)
		return;
	if (world_now() >= fabric->until)
		descriptor_changed(fabric->fd);
	else if (fabric->until != UINT64_MAX)
		alarm_set(fabric);
}

int fabric_arm_until(struct fabric *fabric, uint64_t until)
{
	if (fabric_has_news(fabric))
		return 1;
	fabric->armed = true;
	fabric->until = until;
	if (until < fabric->alarm_at)
		alarm_set(fabric);
	return 0;
}

static void watched_is_readable(void *what)
{
	net_notify(what);
}

int fabric_watch(struct fabric *fabric, int fd, void *user)
{
	for (unsigned i = 0; i < NET_WATCHES; i++) {
		if (fabric->watches[i].fd >= 0)
			continue;
		fabric->watches[i].fd = fd;
		fabric->watches[i].user = user;
		descriptor_watch(fd, watched_is_readable, fabric);
		return 0;
	}
	return -ENOMEM;
}

void fabric_get_served(const struct fabric *fabric, struct fabric_served *ret_served)
{
	(void)fabric;
	*ret_served = (struct fabric_served){0};
}

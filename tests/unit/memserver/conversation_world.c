/* conversation_world: see conversation_world.h. */
#include "tests/unit/memserver/conversation_world.h"

#include "common/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct world world;
struct fabric {
	int unused;
};
struct slab_worker {
	int unused;
};

void world_expect(bool good, const char *what)
{
	if (!good && !world.wrong)
		world.wrong = what;
}

static bool fails(void)
{
	bool fail = world.fail_next;

	world.fail_next = false;
	return fail;
}

uint64_t clock_now(void)
{
	return world.now;
}

/* --- fabric.h -------------------------------------------------------------------------------------------- */

int fabric_open(const struct fabric_config *config, struct fabric **ret_fabric)
{
	(void)config;
	*ret_fabric = calloc(1, sizeof **ret_fabric);
	return 0;
}

void fabric_close(struct fabric *fabric)
{
	free(fabric);
}

int fabric_domain_open(struct fabric_domain **ret_domain)
{
	if (fails())
		return -ENOMEM;
	*ret_domain = calloc(1, sizeof **ret_domain);
	world.domains++;
	return 0;
}

void fabric_domain_close(struct fabric_domain *domain)
{
	if (!domain)
		return;
	world_expect(!domain->regions, "a domain is closed while regions are in it");
	world_expect(!domain->conns, "a domain is closed while connections are in it");
	world.domains--;
	free(domain);
}

static int slab_at(const void *base)
{
	return (int)(((const char *)base - world.memory[0]) / SLAB_BYTES);
}

int fabric_register(struct fabric_domain *domain, void *base, size_t length, unsigned access,
		    struct fabric_region **ret_region)
{
	if (fails())
		return -ENOSPC;
	world_expect(length == SLAB_BYTES && access == (FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE),
		     "a slab is registered with another size or other rights");
	world_expect(!world.over[slab_at(base)], "a slab is registered twice");
	*ret_region = calloc(1, sizeof **ret_region);
	(*ret_region)->domain = domain;
	(*ret_region)->base = base;
	world.over[slab_at(base)] = *ret_region;
	domain->regions++;
	world.regions++;
	return 0;
}

void fabric_deregister(struct fabric_region *region)
{
	if (!region)
		return;
	if (!world.over[slab_at(region->base)]) {
		world_expect(false, "a slab is deregistered twice");
		return;
	}
	world.over[slab_at(region->base)] = NULL;
	region->domain->regions--;
	world.regions--;
	free(region);
}

struct fabric_remote fabric_export(const struct fabric_region *region, const struct fabric_conn *conn)
{
	world_expect(conn->state == CONN_ACCEPTED || conn->state == CONN_LOST,
		     "a slab is exported to a connection that was not accepted");
	if (fails()) {
		world.counts->unreachable++;
		return (struct fabric_remote){0};
	}
	return (struct fabric_remote){.address = (uintptr_t)region->base, .rkey = 1};
}

int fabric_accept(struct fabric_conn *conn, struct fabric_domain *domain, void *user)
{
	world_expect(conn->state == CONN_REQUESTED, "a connection without a connect request is accepted");
	if (fails()) {
		conn->state = CONN_LOST;
		return -ENOMEM;
	}
	conn->state = CONN_ACCEPTED;
	conn->domain = domain;
	conn->user = user;
	domain->conns++;
	if (conn->is_session)
		world_expect(!domain->regions, "a session connection is accepted in a domain with regions");
	return 0;
}

void fabric_reject(struct fabric_conn *conn, const void *private_data, size_t private_size)
{
	struct wire_reject reject;

	world_expect(conn->state == CONN_REQUESTED, "a connection without a connect request is rejected");
	world_expect(!wire_decode_reject(private_data, private_size, &reject) && reject.reason,
		     "a connection is rejected without a reason");
	conn->state = CONN_UNUSED;
	world.counts->refused++;
}

void fabric_disconnect(struct fabric_conn *conn)
{
	if (!conn)
		return;
	world_expect(conn->state == CONN_ACCEPTED || conn->state == CONN_LOST,
		     "a connection is ended twice, or before it began");
	if (conn->domain)
		conn->domain->conns--;
	memset(conn, 0, sizeof *conn);
	world.counts->ended++;
}

const char *fabric_conn_peer(const struct fabric_conn *conn)
{
	world_expect(conn->state != CONN_UNUSED, "the other end of an ended connection is asked for");
	return "sim://client";
}

uint64_t fabric_conn_origin(const struct fabric_conn *conn)
{
	world_expect(conn->state != CONN_UNUSED, "the origin of an ended connection is asked for");
	return (uint64_t)conn->client;
}

/* Checks that the memory of a grant is registered for the client that gets it. */
static void granted(struct fabric_conn *conn, const struct wire_message *message)
{
	struct client *client = &world.clients[conn->client];
	int slab = slab_at((void *)(uintptr_t)message->granted.address);

	world_expect(slab >= 0 && slab < SLABS && world.over[slab], "a slab is granted that is not registered");
	for (int i = 0; i < CONNS && !world.wrong; i++) {
		const struct fabric_conn *other = &world.conns[i];

		if (other->state == CONN_ACCEPTED && !other->is_session && other->domain == world.over[slab]->domain)
			world_expect(other->client == conn->client,
				     "a slab is granted in the domain of another client");
	}
	client->names[client->name_count++ % 8] = message->granted.slab;
	world.counts->grants++;
}

int fabric_send(struct fabric_conn *conn, const void *bytes, size_t size)
{
	struct wire_message message;
	int length;

	world_expect(conn->state == CONN_ACCEPTED || conn->state == CONN_LOST,
		     "a message is sent to an ended connection");
	world_expect(conn->established, "a message is sent before its connection is established");
	if (conn->state == CONN_LOST)
		return -ENOTCONN;
	conn->gap = conn->gap || fails();
	if (conn->gap)
		return -ENOBUFS;
	if (wire_decode(bytes, size, &message) || (message.type != WIRE_CHALLENGE && message.type != WIRE_REFUSED)) {
		length = channel_open(&conn->channel, bytes, size);
		world_expect(conn->channel.begun && length > 0 && !wire_decode(bytes, (size_t)length, &message),
			     "the donor sends a message that does not decode or is not sealed");
	}
	if (world.wrong)
		return 0;
	conn->last = message;
	conn->said = true;
	if (message.type == WIRE_GRANTED)
		granted(conn, &message);
	world.counts->sessions += message.type == WIRE_WELCOME;
	world.counts->returned += message.type == WIRE_RELEASED;
	world.counts->revokes += message.type == WIRE_REVOKE;
	world.counts->takens += message.type == WIRE_REVOKED;
	world.counts->drains += message.type == WIRE_DRAINING;
	return 0;
}

/* --- slab.h ---------------------------------------------------------------------------------------------- */

int slab_open(const struct slab_config *config, struct slab_worker **ret_worker)
{
	(void)config;
	*ret_worker = calloc(1, sizeof **ret_worker);
	return 0;
}

void slab_close(struct slab_worker *worker)
{
	for (uint32_t i = 0; i < SLABS; i++)
		fabric_deregister(world.over[i]);
	free(worker);
}

void slab_prepare(struct slab_worker *worker, uint32_t slab, struct fabric_domain *domain)
{
	(void)worker;
	world_expect(!world.had[slab] && !world.preparing[slab] && !world.clearing[slab],
		     "memory is ordered for a slab that has memory");
	world_expect(domain, "memory is ordered without a domain");
	world.orders[slab] = domain;
	world.preparing[slab] = true;
}

void slab_clear(struct slab_worker *worker, uint32_t slab)
{
	(void)worker;
	world_expect(world.had[slab] && !world.preparing[slab] && !world.clearing[slab],
		     "a slab without memory is cleared");
	world.clearing[slab] = true;
}

void slab_abandon(struct slab_worker *worker, uint32_t slab)
{
	(void)worker;
	/* The worker has begun all orders for even slabs, and finishes them. It drops orders for odd slabs. */
	world.abandoned[slab] |= world.preparing[slab] && slab % 2;
}

bool slab_answer(struct slab_worker *worker, struct slab_answer *ret_answer)
{
	(void)worker;
	if (!world.answer_count)
		return false;
	*ret_answer = world.answers[--world.answer_count];
	return true;
}

void world_worker_step(struct donor *donor, uint32_t slab, bool memory)
{
	struct slab_answer answer = {.slab = slab, .kind = world.clearing[slab] ? SLAB_CLEAR : SLAB_PREPARE};

	if (!world.preparing[slab] && !world.clearing[slab])
		return;
	if (world.clearing[slab]) {
		fabric_deregister(world.over[slab]);
		world.had[slab] = world.clearing[slab] = false;
	} else if (memory && world.abandoned[slab]) {
		answer.status = -ECANCELED;
	} else if (memory) {
		answer.status = fabric_register(world.orders[slab], world.memory[slab], SLAB_BYTES,
						FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &answer.region);
		answer.memory = answer.status ? NULL : world.memory[slab];
	} else {
		answer.status = -ENOMEM;
	}
	if (answer.memory)
		world.had[slab] = true;
	world.preparing[slab] = world.abandoned[slab] = false;
	world.answers[world.answer_count++] = answer;
	donor_slabs_ready(donor);
}

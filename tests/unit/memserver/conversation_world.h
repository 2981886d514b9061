/*
 * conversation_world: the functions of fabric.h, slab.h and clock.h in place of the real ones, for conversation.c. They
 * check that the donor keeps to the rules of these headers. Threads: one.
 */
#ifndef TESTS_UNIT_MEMSERVER_CONVERSATION_WORLD_H
#define TESTS_UNIT_MEMSERVER_CONVERSATION_WORLD_H

#include "memserver/donor.h"
#include "tests/unit/memserver/conversation.h"
#include "wire/auth.h"
#include "wire/channel.h"

#define CONNS 24
#define CLIENTS 4
#define SLABS 4
#define SLAB_BYTES 4096u
#define MS UINT64_C(1000000)

struct fabric_domain {
	unsigned regions, conns;
};
struct fabric_region {
	struct fabric_domain *domain;
	char *base;
};
enum conn_state { CONN_UNUSED, CONN_REQUESTED, CONN_ACCEPTED, CONN_LOST };
struct fabric_conn {
	enum conn_state state;
	struct fabric_domain *domain;
	void *user;
	int client;
	bool is_session, established;
	struct channel channel;   /* the client's end */
	struct wire_message last; /* the donor's last message */
	bool said;
	bool gap; /* a message was lost, so all later sends fail */
};

struct client {
	uint64_t counter;
	uint8_t session_key[AUTH_KEY_SIZE];
	struct auth_session auth;
	uint64_t names[8];
	unsigned name_count;
};

struct world {
	uint64_t now;
	struct fabric_conn conns[CONNS];
	struct client clients[CLIENTS];
	unsigned domains, regions;
	char memory[SLABS][SLAB_BYTES];
	struct fabric_domain *orders[SLABS];
	bool had[SLABS], preparing[SLABS], clearing[SLABS], abandoned[SLABS];
	struct fabric_region *over[SLABS]; /* the region registered over a slab's memory */
	struct slab_answer answers[SLABS];
	unsigned answer_count;
	bool fail_next; /* the next operation that can fail fails */
	const char *wrong;
	struct conversation_counts *counts;
	bool pressed;    /* memory becomes short just before the next event is handled */
	uint32_t target; /* slabs that may be lent while memory is short */
};
extern struct world world;

/* Records @what as the history's mistake, unless @good is true or a mistake is recorded already. */
void world_expect(bool good, const char *what);
/* Carries out the order for the slab's memory, if there is one. Without @memory, an order to prepare memory fails. */
void world_worker_step(struct donor *donor, uint32_t slab, bool memory);

#endif

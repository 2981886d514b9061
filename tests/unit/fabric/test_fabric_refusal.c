/* What the donor refuses: wrong keys, addresses, lengths and rights. Each ends that connection, and no other. */
#include "tests/unit/fabric/pair.h"
#include <fcntl.h>

/* Posts a good read, the bad operation, and a good read; checks what becomes of each, and of another connection. */
static void check(const char *name, struct pair *pair, struct fabric_op bad)
{
	struct fabric_op ops[3] = {pair_op(pair, FABRIC_READ, 0, 64, 1), bad, pair_op(pair, FABRIC_READ, 0, 64, 3)};
	struct fabric_conn *other = NULL;
	const struct seen *seen;
	unsigned before;

	ops[1].cookie = 2;
	ok(fabric_post(pair->client.conn, ops, 3) == 3 &&
	       pump_until(pair, side_ended(&pair->client) && side_ended(&pair->donor)),
	   "%s: the connection ends on both sides", name);
	/* Not every device tells the side that refused. */
	ok(side_ended(&pair->client) == -EACCES &&
	       (side_ended(&pair->donor) == -EPROTO || (!pair_is_tcp() && side_ended(&pair->donor) == -ECONNRESET)),
	   "%s: each knows why", name);
	ok(side_count(&pair->client, FABRIC_DONE) == 3, "%s: everything in flight is answered once", name);
	seen = side_seen(&pair->client, FABRIC_DONE, 0);
	ok(seen && seen->cookie == 1 && seen->status == 0, "%s: what was asked before is granted", name);
	seen = side_seen(&pair->client, FABRIC_DONE, 1);
	ok(seen && seen->cookie == 2 && seen->status == -EACCES, "%s: it is refused", name);
	seen = side_seen(&pair->client, FABRIC_DONE, 2);
	ok(seen && seen->cookie == 3 && seen->status == -ECONNRESET, "%s: what was asked behind it is lost", name);
	ok(fabric_post(pair->client.conn, ops, 1) == -ENOTCONN && fabric_send(pair->client.conn, "x", 1) == -ENOTCONN,
	   "%s: nothing more can be asked", name);
	fabric_disconnect(pair->client.conn);
	fabric_disconnect(pair->donor.conn);

	before = pair->client.count;
	fabric_connect(pair->client.fabric, pair->client.domain, pair->uri, NULL, 0, NULL, &other);
	pair->client.conn = other;
	ok(pump_until(pair, pair->client.count > before && pair->client.seen[before].kind == FABRIC_ESTABLISHED),
	   "%s: a new connection works", name);
}

/* What a case makes besides, given back at its end. */
static struct fabric_region *spare;
static struct fabric_domain *foreign;

static void test_one(const char *name, void (*spoil)(struct pair *pair, struct fabric_op *op))
{
	struct pair pair;
	struct fabric_op op;
	struct fabric_conn *bystander;

	pair_open(&pair, NULL);
	pair_connect(&pair);
	bystander = pair.client.conn;
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, &pair.client, &pair.client.conn);
	pump_until(&pair, side_count(&pair.client, FABRIC_ESTABLISHED) == 2 &&
			      side_count(&pair.donor, FABRIC_ESTABLISHED) == 2);
	pair.client.count = pair.donor.count = 0;

	fill(pair.client.memory + 65536, 4096, 9);
	op = pair_op(&pair, FABRIC_READ, 4096, 4096, 2);
	spoil(&pair, &op);
	check(name, &pair, op);

	pump_until(&pair, side_count(&pair.donor, FABRIC_ESTABLISHED) == 1);
	pair.client.count = 0;
	op = pair_op(&pair, FABRIC_READ, 0, 4096, 5);
	fabric_post(bystander, &op, 1);
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE)) &&
	       side_seen(&pair.client, FABRIC_DONE, 0)->status == 0,
	   "%s: the connection beside it works on", name);
	fabric_deregister(spare);
	fabric_domain_close(foreign);
	spare = NULL;
	foreign = NULL;
	pair_close(&pair);
}

static void spoil_rkey(struct pair *pair, struct fabric_op *op)
{
	(void)pair;
	op->remote.rkey ^= 0x10000;
}

static void spoil_rkey_index(struct pair *pair, struct fabric_op *op)
{
	(void)pair;
	op->remote.rkey ^= 0xffff;
}

static void spoil_rkey_zero(struct pair *pair, struct fabric_op *op)
{
	(void)pair;
	op->remote.rkey = 0;
}

static void spoil_below(struct pair *pair, struct fabric_op *op)
{
	op->remote.address = (uintptr_t)pair->donor.memory - 1;
}

static void spoil_beyond(struct pair *pair, struct fabric_op *op)
{
	op->remote.address = (uintptr_t)pair->donor.memory + PAIR_MEMORY - 4095;
}

static void spoil_beyond_write(struct pair *pair, struct fabric_op *op)
{
	op->kind = FABRIC_WRITE;
	spoil_beyond(pair, op);
}

static void spoil_wrap(struct pair *pair, struct fabric_op *op)
{
	(void)pair;
	op->remote.address = UINT64_MAX - 100;
}

/* The domain's own, but registered without the right. */
static void spoil_no_read(struct pair *pair, struct fabric_op *op)
{
	fabric_register(pair->donor.domain, pair->donor.memory, 8192, FABRIC_REMOTE_WRITE, &spare);
	op->remote = fabric_export(spare, pair->donor.conn);
}

static void spoil_no_write(struct pair *pair, struct fabric_op *op)
{
	fabric_register(pair->donor.domain, pair->donor.memory, 8192, FABRIC_REMOTE_READ, &spare);
	op->remote = fabric_export(spare, pair->donor.conn);
	op->kind = FABRIC_WRITE;
}

static void spoil_stale(struct pair *pair, struct fabric_op *op)
{
	struct fabric_region *again;

	fabric_register(pair->donor.domain, pair->donor.memory, 8192, FABRIC_REMOTE_READ, &again);
	op->remote = fabric_export(again, pair->donor.conn);
	fabric_deregister(again);
	/* Its place in the table is taken again. */
	fabric_register(pair->donor.domain, pair->donor.memory, 8192, FABRIC_REMOTE_READ, &spare);
}

static void spoil_domain(struct pair *pair, struct fabric_op *op)
{
	fabric_domain_open(&foreign);
	fabric_register(foreign, pair->donor.memory, 8192, FABRIC_REMOTE_READ, &spare);
	op->remote = fabric_export(spare, pair->donor.conn);
}

/* A refused write leaves no byte behind, also where a part of its range would have been good. */
static void test_nothing_written(void)
{
	struct pair pair;
	struct fabric_op op;
	bool untouched = true;

	pair_open(&pair, NULL);
	pair_connect(&pair);
	fill(pair.client.memory, PAIR_MEMORY, 1);
	op = pair_op(&pair, FABRIC_WRITE, PAIR_MEMORY - FABRIC_OP_MAX, FABRIC_OP_MAX, 1);
	op.remote.address += 1;
	fabric_post(pair.client.conn, &op, 1);
	ok(pump_until(&pair, side_ended(&pair.client)), "a write one byte past the end is refused");
	for (unsigned i = 0; i < PAIR_MEMORY; i++)
		untouched = untouched && pair.donor.memory[i] == 0;
	ok(untouched, "and writes nothing");
	pair_close(&pair);
}

/* Deregistered while it is being read and the answers wait in a full socket; the memory goes away at once. */
static void test_deregistered_under_way(void)
{
	struct pair pair;
	struct fabric_op ops[64];
	struct fabric_region *region;
	uint8_t *memory = mmap(NULL, FABRIC_OP_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned good = 0;

	pair_open(&pair, NULL);
	pair_connect(&pair);
	fabric_register(pair.donor.domain, memory, FABRIC_OP_MAX, FABRIC_REMOTE_READ, &region);
	for (unsigned i = 0; i < 64; i++) {
		ops[i] = pair_op(&pair, FABRIC_READ, 0, FABRIC_OP_MAX, i);
		ops[i].remote = fabric_export(region, pair.donor.conn);
	}
	fabric_post(pair.client.conn, ops, 64);
	for (unsigned i = 0; i < 1000; i++)
		side_poll(&pair.donor);
	fabric_deregister(region);
	munmap(memory, FABRIC_OP_MAX);
	ok(pump_until(&pair, side_ended(&pair.client) && side_ended(&pair.donor)),
	   "deregistering what is being read ends the connection");
	for (unsigned i = 0; i < side_count(&pair.client, FABRIC_DONE); i++)
		good += side_seen(&pair.client, FABRIC_DONE, i)->status == 0;
	ok(side_count(&pair.client, FABRIC_DONE) == 64 && good < 64, "all are answered, %u of 64 with data", good);
	pair_close(&pair);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*spoil)(struct pair *pair, struct fabric_op *op);
	} cases[] = {
	    {"unknown rkey", spoil_rkey},
	    {"rkey of no region", spoil_rkey_index},
	    {"rkey 0", spoil_rkey_zero},
	    {"address below the range", spoil_below},
	    {"range past the end", spoil_beyond},
	    {"write past the end", spoil_beyond_write},
	    {"address and length that wrap around", spoil_wrap},
	    {"read without the right", spoil_no_read},
	    {"write without the right", spoil_no_write},
	    {"rkey of a deregistered region", spoil_stale},
	    {"rkey of another domain", spoil_domain},
	};

	if (!getenv("TAP_LOG"))
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
		test_one(cases[i].name, cases[i].spoil);
	test_nothing_written();
	test_deregistered_under_way();
	return tap_done();
}

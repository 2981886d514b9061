/*
 * fabric: the donor refuses wrong keys, addresses, lengths and rights. Each refusal ends its connection and no other.
 */
#include "tests/unit/fabric/pair.h"

#include <fcntl.h>

/* Posts a good read, the bad operation and a good read. Checks the answer to each, and that a new connection works. */
static void check(const char *name, struct pair *pair, struct fabric_op bad)
{
	struct fabric_op ops[3] = {pair_op(pair, FABRIC_READ, 0, 64, 1), bad, pair_op(pair, FABRIC_READ, 0, 64, 3)};
	struct fabric_conn *other = NULL;
	const struct seen *seen;
	unsigned before;

	ops[1].cookie = 2;
	ok(fabric_post(pair->client.conn, ops, 3) == 3 &&
	       pump_until(pair, side_ended(&pair->client) && side_ended(&pair->donor)),
	   "%s ends the connection on both sides", name);
	/* Some RDMA devices do not tell the donor that they refused. It then sees a reset connection. */
	ok(side_ended(&pair->client) == -EACCES &&
	       (side_ended(&pair->donor) == -EPROTO || (!pair_is_tcp() && side_ended(&pair->donor) == -ECONNRESET)),
	   "%s is known to both sides as the reason", name);
	ok(side_count(&pair->client, FABRIC_DONE) == 3, "%s leaves each operation in flight answered once", name);
	seen = side_seen(&pair->client, FABRIC_DONE, 0);
	ok(seen && seen->cookie == 1 && seen->status == 0, "the read before %s is granted", name);
	seen = side_seen(&pair->client, FABRIC_DONE, 1);
	ok(seen && seen->cookie == 2 && seen->status == -EACCES, "%s is refused with -EACCES", name);
	seen = side_seen(&pair->client, FABRIC_DONE, 2);
	ok(seen && seen->cookie == 3 && seen->status == -ECONNRESET, "the read after %s is lost", name);
	ok(fabric_post(pair->client.conn, ops, 1) == -ENOTCONN && fabric_send(pair->client.conn, "x", 1) == -ENOTCONN,
	   "after %s the connection accepts no operation", name);
	fabric_disconnect(pair->client.conn);
	fabric_disconnect(pair->donor.conn);

	before = pair->client.count;
	fabric_connect(pair->client.fabric, pair->client.domain, pair->uri, NULL, 0, NULL, &other);
	pair->client.conn = other;
	ok(pump_until(pair, pair->client.count > before && pair->client.seen[before].kind == FABRIC_ESTABLISHED),
	   "%s does not harm a new connection", name);
}

/* A test may make a region and a domain, which are closed when the test ends. */
static struct fabric_region *spare;
static struct fabric_domain *foreign;

static void a_refused_operation_ends_only_its_connection(const char *name,
							 void (*spoil)(struct pair *pair, struct fabric_op *op))
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
	   "%s does not harm a connection beside its own", name);
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

/* The region belongs to the domain, but lacks the right. */
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
	/* The new region takes the place of the old one in the table. */
	fabric_register(pair->donor.domain, pair->donor.memory, 8192, FABRIC_REMOTE_READ, &spare);
}

static void spoil_domain(struct pair *pair, struct fabric_op *op)
{
	fabric_domain_open(&foreign);
	fabric_register(foreign, pair->donor.memory, 8192, FABRIC_REMOTE_READ, &spare);
	op->remote = fabric_export(spare, pair->donor.conn);
}

/* A refused write changes no byte, even if a part of its range is good. */
static void a_refused_write_changes_no_byte(void)
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
	ok(untouched, "a refused write changes no byte");
	pair_close(&pair);
}

/* A region is deregistered while it is read and the answers wait in a full socket. Its memory goes away at once. */
static void deregistering_a_region_ends_its_readers(void)
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
	   "deregistering a region that is being read ends the connection");
	for (unsigned i = 0; i < side_count(&pair.client, FABRIC_DONE); i++)
		good += side_seen(&pair.client, FABRIC_DONE, i)->status == 0;
	ok(side_count(&pair.client, FABRIC_DONE) == 64 && good < 64,
	   "all reads of a deregistered region are answered (%u of 64 with data)", good);
	pair_close(&pair);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*spoil)(struct pair *pair, struct fabric_op *op);
	} cases[] = {
	    {"an unknown rkey", spoil_rkey},
	    {"an rkey of no region", spoil_rkey_index},
	    {"an rkey of 0", spoil_rkey_zero},
	    {"an address below the range", spoil_below},
	    {"a range past the end", spoil_beyond},
	    {"a write past the end", spoil_beyond_write},
	    {"a range that wraps around", spoil_wrap},
	    {"a read without the right", spoil_no_read},
	    {"a write without the right", spoil_no_write},
	    {"an rkey of a deregistered region", spoil_stale},
	    {"an rkey of another domain", spoil_domain},
	};

	if (!getenv("TAP_LOG"))
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
		a_refused_operation_ends_only_its_connection(cases[i].name, cases[i].spoil);
	a_refused_write_changes_no_byte();
	deregistering_a_region_ends_its_readers();
	return tap_done();
}

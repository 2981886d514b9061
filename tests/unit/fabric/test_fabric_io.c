/* fabric: reads, writes and messages between two good sides. */
#include "tests/unit/fabric/pair.h"

static void reads_and_writes_reach_the_donors_memory(void)
{
	struct pair pair;
	struct fabric_op op;

	pair_open(&pair, NULL);
	ok(pair_connect(&pair), "a connection is established on both sides");
	ok(strcmp(fabric_conn_peer(pair.client.conn), pair.uri) == 0,
	   "the peer's name is the address that the client connected to");
	ok(side_seen(&pair.client, FABRIC_ESTABLISHED, 0)->user == &pair.client &&
	       side_seen(&pair.donor, FABRIC_ESTABLISHED, 0)->user == &pair.donor,
	   "each side's events have its connection's user pointer");

	fill(pair.client.memory, 4096, 1);
	op = pair_op(&pair, FABRIC_WRITE, 0, 4096, 77);
	ok(fabric_post(pair.client.conn, &op, 1) == 1, "an idle connection takes a write");
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == 1), "a write is answered");
	ok(side_seen(&pair.client, FABRIC_DONE, 0)->cookie == 77 &&
	       side_seen(&pair.client, FABRIC_DONE, 0)->status == 0,
	   "the answer to a write has its cookie and status 0");
	ok(memcmp(pair.client.memory, pair.donor.memory, 4096) == 0, "the bytes of a write are in the donor's memory");

	fill(pair.donor.memory + 8192, 4096, 2);
	op = pair_op(&pair, FABRIC_READ, 8192, 4096, 78);
	fabric_post(pair.client.conn, &op, 1);
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == 2), "a read is answered");
	ok(memcmp(pair.client.memory + 8192, pair.donor.memory + 8192, 4096) == 0, "a read returns the donor's bytes");
	ok(side_count(&pair.donor, FABRIC_DONE) == 0, "the donor's program gets no answer to the client's operations");
	pair_close(&pair);
}

static void operations_of_each_size_come_back_the_same(void)
{
	static const uint32_t sizes[] = {1, 23, 24, 25, 4095, 65536, 262143, 262144, 300001, FABRIC_OP_MAX};
	struct pair pair;
	bool good = true;

	pair_open(&pair, NULL);
	pair_connect(&pair);
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct fabric_op write = pair_op(&pair, FABRIC_WRITE, 100, sizes[i], 0), read = write;

		/* Writes to the donor, then reads back to another place. */
		fill(pair.client.memory + 100, sizes[i], sizes[i]);
		fabric_post(pair.client.conn, &write, 1);
		good = good && pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == 2 * i + 1);
		read.kind = FABRIC_READ;
		read.local = pair.client.memory + (4 << 20) + 1;
		fabric_post(pair.client.conn, &read, 1);
		good = good && pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == 2 * i + 2);
		good = good && memcmp(write.local, read.local, sizes[i]) == 0;
	}
	ok(good, "1 byte to 1 MiB at odd addresses come back as they were written");
	pair_close(&pair);
}

static void a_connection_takes_operations_up_to_its_depth(unsigned max)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct pair pair;
	struct fabric_op ops[100];
	bool order = true, same = true;
	unsigned posted = 0;

	config.depth = 64;
	pair_open(&pair, &config);
	pair.client.max = max;
	pair_connect(&pair);
	fill(pair.donor.memory, PAIR_MEMORY, 3);
	for (unsigned i = 0; i < 100; i++)
		ops[i] = pair_op(&pair, i % 3 == 2 ? FABRIC_WRITE : FABRIC_READ, i * 65536, i % 5 ? 4096 : 65536, i);
	for (unsigned i = 2; i < 100; i += 3)
		fill(ops[i].local, ops[i].length, i);
	ok(fabric_room(pair.client.conn) == 64, "an idle connection has room for its depth");
	ok(fabric_post(pair.client.conn, ops, 100) == 64, "a connection accepts no more operations than its depth");
	ok(fabric_room(pair.client.conn) == 0 && fabric_post(pair.client.conn, ops, 1) == 0,
	   "a full connection accepts no operation");
	posted = 64;
	ok(pump_until(&pair, ({
		   if (posted < 100)
			   posted += (unsigned)fabric_post(pair.client.conn, ops + posted, 100 - posted);
		   side_count(&pair.client, FABRIC_DONE) == 100;
	   })),
	   "all 100 operations are answered at %u event%s a poll", max, max == 1 ? "" : "s");
	for (unsigned i = 0; i < 100; i++) {
		const struct seen *seen = side_seen(&pair.client, FABRIC_DONE, i);

		order = order && seen && seen->cookie == i && seen->status == 0;
		same = same && memcmp(ops[i].local, pair.donor.memory + i * 65536, ops[i].length) == 0;
	}
	ok(order, "operations are answered in the order they were posted");
	ok(same, "each of 100 operations moves its own bytes");
	pair_close(&pair);
}

static void messages_arrive_in_order_and_whole(void)
{
	struct pair pair;
	struct fabric_op op;
	uint8_t message[FABRIC_MESSAGE_MAX];
	unsigned sent = 0, back = 0, posted = 0;
	bool good = true, arrived;

	pair_open(&pair, NULL);
	pair_connect(&pair);
	ok(fabric_send(pair.client.conn, message, 0) == -EINVAL &&
	       fabric_send(pair.client.conn, message, FABRIC_MESSAGE_MAX + 1) == -EINVAL,
	   "an empty and an overlong message are refused");
	arrived = pump_until(&pair, ({
		if (sent < 500) {
			fill(message, sizeof message, sent);
			sent += fabric_send(pair.client.conn, message, 1 + sent % FABRIC_MESSAGE_MAX) == 0;
		}
		if (back < 500) {
			fill(message, sizeof message, 1000 + back);
			back += fabric_send(pair.donor.conn, message, FABRIC_MESSAGE_MAX - back % 200) == 0;
		}
		if (posted < 500) {
			op = pair_op(&pair, posted % 2 ? FABRIC_READ : FABRIC_WRITE, posted * 8192, 8192, posted);
			posted += (unsigned)fabric_post(pair.client.conn, &op, 1);
		}
		side_count(&pair.donor, FABRIC_MESSAGE) == 500 && side_count(&pair.client, FABRIC_MESSAGE) == 500 &&
		    side_count(&pair.client, FABRIC_DONE) == 500;
	}));
	ok(arrived, "500 messages each way between 500 operations arrive (%u, %u, %u)",
	   side_count(&pair.donor, FABRIC_MESSAGE), side_count(&pair.client, FABRIC_MESSAGE),
	   side_count(&pair.client, FABRIC_DONE));
	for (unsigned i = 0; i < 500; i++) {
		const struct seen *there = side_seen(&pair.donor, FABRIC_MESSAGE, i);
		const struct seen *here = side_seen(&pair.client, FABRIC_MESSAGE, i);

		fill(message, sizeof message, i);
		good =
		    good && there->size == 1 + i % FABRIC_MESSAGE_MAX && memcmp(there->data, message, there->size) == 0;
		fill(message, sizeof message, 1000 + i);
		good =
		    good && here->size == FABRIC_MESSAGE_MAX - i % 200 && memcmp(here->data, message, here->size) == 0;
	}
	ok(good, "messages arrive in order, whole and unchanged");
	for (sent = 0; sent < 100000 && fabric_send(pair.client.conn, message, sizeof message) == 0; sent++)
		;
	ok(sent < 100000 && fabric_send(pair.client.conn, message, 1) == -ENOBUFS,
	   "messages to a side that does not read are bounded (%u were accepted)", sent);
	ok(pump_until(&pair, side_count(&pair.donor, FABRIC_MESSAGE) == 500 + sent),
	   "messages to a side that did not read arrive once it reads");
	pair_close(&pair);
}

/* Both sides ask and serve on one connection, with far more data than the socket holds. */
static void both_sides_may_read_at_once(void)
{
	struct pair pair;
	struct fabric_region *region;
	const unsigned count = pair_is_tcp() ? 100 : 20; /* an emulated device is slower than a socket */
	unsigned mine = 0, theirs = 0;

	pair_open(&pair, NULL);
	fabric_register(pair.client.domain, pair.client.memory, PAIR_MEMORY, FABRIC_REMOTE_READ, &region);
	pair_connect(&pair);
	fill(pair.donor.memory, FABRIC_OP_MAX, 4);
	ok(pump_until(&pair, ({
		   struct fabric_op op = pair_op(&pair, FABRIC_READ, 0, FABRIC_OP_MAX, mine);
		   struct fabric_op other = {.kind = FABRIC_READ,
					     .length = FABRIC_OP_MAX,
					     .local = pair.donor.memory + (4 << 20),
					     .region = pair.donor.region,
					     .remote = fabric_export(region, pair.donor.conn)};

		   if (mine < count)
			   mine += (unsigned)fabric_post(pair.client.conn, &op, 1);
		   other.remote.address += 4 << 20;
		   if (theirs < count)
			   theirs += (unsigned)fabric_post(pair.donor.conn, &other, 1);
		   side_count(&pair.client, FABRIC_DONE) == count &&side_count(&pair.donor, FABRIC_DONE) == count;
	   })),
	   "%u MiB of reads each way at once do not wait for each other", count);
	ok(memcmp(pair.client.memory, pair.donor.memory, FABRIC_OP_MAX) == 0,
	   "reads each way at once return the right bytes");
	fabric_deregister(region);
	pair_close(&pair);
}

/* One side asks for much data and does not read the answers. */
static void a_side_that_reads_late_gets_everything(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct pair pair;
	struct fabric_op ops[256];
	const unsigned count = pair_is_tcp() ? 256 : 32;
	bool same = true;

	config.depth = 256;
	config.io_ms = 30000; /* on a slow machine it may take long until the client reads */
	pair_open(&pair, &config);
	pair_connect(&pair);
	fill(pair.donor.memory, PAIR_MEMORY, 5);
	for (unsigned i = 0; i < count; i++)
		ops[i] = pair_op(&pair, FABRIC_READ, i % 8 << 20, FABRIC_OP_MAX, i);
	ok(fabric_post(pair.client.conn, ops, count) == (int)count, "%u MiB of reads are accepted at once", count);
	for (unsigned i = 0; i < 1000; i++)
		side_poll(&pair.donor); /* sends as much as it can while the client does not read */
	ok(fabric_send(pair.donor.conn, "x", 1) == 0, "a message to a side that does not read is accepted");
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == count),
	   "all reads of a side that did not read are answered once it reads");
	for (unsigned i = 0; i < 8; i++)
		same = same && memcmp(ops[i].local, pair.donor.memory + (i << 20), FABRIC_OP_MAX) == 0;
	ok(same && side_count(&pair.client, FABRIC_MESSAGE) == 1,
	   "a side that did not read gets all bytes unchanged, and the message");
	pair_close(&pair);
}

int main(void)
{
	reads_and_writes_reach_the_donors_memory();
	operations_of_each_size_come_back_the_same();
	a_connection_takes_operations_up_to_its_depth(64);
	a_connection_takes_operations_up_to_its_depth(1);
	messages_arrive_in_order_and_whole();
	both_sides_may_read_at_once();
	a_side_that_reads_late_gets_everything();
	return tap_done();
}

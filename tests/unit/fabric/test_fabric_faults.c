/* faults: the schedules of fault+SCHEME://. */
#include "tests/unit/fabric/pair.h"

static struct fabric_faults schedule;

static void faulty_open(struct pair *pair, struct fabric_faults faults)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;

	schedule = faults;
	if (faults.drop_at)
		config.io_ms = 100;
	config.depth = 32;
	config.faults = &schedule;
	pair_open_prefix(pair, &config, "fault+");
}

/* Posts @count reads of 4 KiB, with cookies from 0. Returns true when all that were posted are answered. */
static bool read_pages(struct pair *pair, unsigned count)
{
	unsigned posted = 0, answered = side_count(&pair->client, FABRIC_DONE);

	return pump_until(pair, ({
				  while (posted < count) {
					  struct fabric_op op = pair_op(pair, FABRIC_READ, posted * 4096, 4096, posted);

					  if (fabric_post(pair->client.conn, &op, 1) != 1)
						  break;
					  posted++;
				  }
				  side_count(&pair->client, FABRIC_DONE) == answered + posted &&
				      (posted == count || side_ended(&pair->client));
			  }));
}

static unsigned bits_different(const uint8_t *a, const uint8_t *b, size_t size)
{
	unsigned bits = 0;

	for (size_t i = 0; i < size; i++)
		bits += (unsigned)__builtin_popcount(a[i] ^ b[i]);
	return bits;
}

static bool answered_in_order(const struct side *side, unsigned count, int status)
{
	for (unsigned i = 0; i < count; i++) {
		const struct seen *seen = side_seen(side, FABRIC_DONE, i);

		if (!seen || seen->cookie != i || seen->status != status)
			return false;
	}
	return side_count(side, FABRIC_DONE) == count;
}

static void an_empty_schedule_changes_nothing(void)
{
	struct pair pair;

	faulty_open(&pair, (struct fabric_faults){0});
	ok(pair_connect(&pair), "a connection without faults is established");
	ok(side_seen(&pair.client, FABRIC_ESTABLISHED, 0)->user == &pair.client &&
	       side_seen(&pair.client, FABRIC_ESTABLISHED, 0)->conn == pair.client.conn,
	   "a connection of the fault layer has its own handle and the user pointer");
	fill(pair.donor.memory, 512 * 4096, 1);
	ok(read_pages(&pair, 500) && answered_in_order(&pair.client, 500, 0),
	   "reads without faults are answered in order");
	ok(memcmp(pair.client.memory, pair.donor.memory, 500 * 4096) == 0 && schedule.seen.operations == 500,
	   "reads without faults return the right bytes and are counted");
	fabric_send(pair.client.conn, "hey", 3);
	ok(pump_until(&pair, side_count(&pair.donor, FABRIC_MESSAGE) == 1), "messages pass the fault layer");
	fabric_disconnect(pair.donor.conn);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -ECONNRESET,
	   "the end of a connection passes the fault layer");
	pair_close(&pair);
}

static void corrupt_at_flips_one_bit(void)
{
	struct pair pair;
	struct fabric_op op;

	faulty_open(&pair, (struct fabric_faults){.corrupt_at = 7});
	pair_connect(&pair);
	fill(pair.donor.memory, 64 * 4096, 2);
	ok(read_pages(&pair, 20) && answered_in_order(&pair.client, 20, 0),
	   "all reads succeed although one is corrupted");
	ok(bits_different(pair.client.memory, pair.donor.memory, 20 * 4096) == 1 &&
	       bits_different(pair.client.memory + 6 * 4096, pair.donor.memory + 6 * 4096, 4096) == 1,
	   "corrupt_at 7 flips one bit of the seventh read");
	pair_close(&pair);

	faulty_open(&pair, (struct fabric_faults){.corrupt_at = 1});
	pair_connect(&pair);
	op = pair_op(&pair, FABRIC_WRITE, 0, 4096, 0);
	fabric_post(pair.client.conn, &op, 1);
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == 1) &&
	       bits_different(pair.client.memory, pair.donor.memory, 4096) == 1,
	   "corrupt_at 1 flips one bit of a write at the donor");
	ok(bits_different(pair.client.memory, pair.client.memory + 4096, 4096) == 0,
	   "a corrupted write leaves the writer's own memory unchanged");
	pair_close(&pair);
}

static void drop_at_loses_one_operation(void)
{
	struct pair pair;
	uint64_t begin = clock_now();

	faulty_open(&pair, (struct fabric_faults){.drop_at = 5});
	pair_connect(&pair);
	read_pages(&pair, 10);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -ETIMEDOUT,
	   "a dropped operation ends the connection with -ETIMEDOUT");
	ok(clock_now() - begin >= 100000000, "a dropped operation ends the connection after io_ms");
	ok(side_count(&pair.client, FABRIC_DONE) == 10 && side_seen(&pair.client, FABRIC_DONE, 3)->status == 0 &&
	       side_seen(&pair.client, FABRIC_DONE, 4)->status == -ETIMEDOUT &&
	       side_seen(&pair.client, FABRIC_DONE, 9)->status == -ETIMEDOUT,
	   "operations before a dropped one are answered, and all others are lost");
	ok(pump_until(&pair, side_ended(&pair.donor)),
	   "the donor sees the end of a connection with a dropped operation");
	pair_close(&pair);
}

static void disconnect_at_ends_the_connection(void)
{
	struct pair pair;
	struct fabric_op op;

	faulty_open(&pair, (struct fabric_faults){.disconnect_at = 50});
	pair_connect(&pair);
	ok(read_pages(&pair, 49) && answered_in_order(&pair.client, 49, 0),
	   "49 operations before disconnect_at 50 are answered");
	op = pair_op(&pair, FABRIC_READ, 0, 4096, 49);
	ok(fabric_post(pair.client.conn, &op, 1) == 1, "the 50th operation at disconnect_at 50 is taken");
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -ECONNRESET &&
	       side_count(&pair.client, FABRIC_DONE) == 50 &&
	       side_seen(&pair.client, FABRIC_DONE, 49)->status == -ECONNRESET,
	   "the 50th operation at disconnect_at 50 ends the connection");
	ok(fabric_post(pair.client.conn, &op, 1) == -ENOTCONN && fabric_room(pair.client.conn) == 0,
	   "a connection that disconnect_at has ended takes no operation");
	fabric_disconnect(pair.client.conn);
	pair.client.count = pair.donor.count = 0;
	ok(pair_connect(&pair) && read_pages(&pair, 100), "a new connection works after disconnect_at");
	pair_close(&pair);
}

static void delay_at_delays_an_operation(void)
{
	struct fabric_event events[16];
	struct pair pair;
	struct fabric_op op;
	uint64_t begin, took;
	bool good;

	faulty_open(&pair, (struct fabric_faults){.delay_at = 3, .delay_min_us = 30000, .delay_max_us = 30000});
	pair_connect(&pair);
	pair_op(&pair, FABRIC_READ, 0, 4096,
		0); /* an RDMA device pins the donor's 8 MiB when they are first exported */
	begin = clock_now();
	good = read_pages(&pair, 2);
	took = clock_now() - begin;
	ok(good && took < 30000000, "two operations before delay_at 3 are answered soon (%.1f ms)", (double)took / 1e6);
	begin = clock_now();
	op = pair_op(&pair, FABRIC_READ, 0, 4096, 2);
	fabric_post(pair.client.conn, &op, 1);
	op.cookie = 3;
	fabric_post(pair.client.conn, &op, 1);
	for (unsigned i = 0; i < 1000; i++)
		side_poll(&pair.donor);
	while (side_count(&pair.client, FABRIC_DONE) < 4 && clock_now() - begin < 5000000000ull) {
		int count = fabric_wait(pair.client.fabric, events, 16, 5000);

		for (int i = 0; i < count; i++)
			side_note(&pair.client, &events[i]);
	}
	ok(clock_now() - begin >= 30000000 && clock_now() - begin < 1000000000,
	   "a delayed operation and the one behind it are late, and fabric_wait() sleeps");
	ok(answered_in_order(&pair.client, 4, 0), "delayed operations are answered in order");
	pair_close(&pair);
}

static void refuse_connects_refuses_the_first_ones(void)
{
	struct pair pair;

	faulty_open(&pair, (struct fabric_faults){.refuse_connects = 2});
	for (unsigned i = 0; i < 2; i++) {
		pair.client.count = 0;
		fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.client.conn);
		ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -ECONNREFUSED,
		   "connect %u at refuse_connects 2 is refused", i + 1);
		fabric_disconnect(pair.client.conn);
	}
	pair.client.count = pair.donor.count = 0;
	ok(pair_connect(&pair), "connect 3 at refuse_connects 2 is established");
	pair_close(&pair);
}

/* Writes what one seed does, one letter for each read. */
static void history(uint64_t seed, char *text)
{
	struct pair pair;

	faulty_open(&pair, (struct fabric_faults){.seed = seed,
						  .corrupt_chance = 50000,
						  .delay_chance = 50000,
						  .delay_max_us = 100,
						  .disconnect_chance = 3000});
	pair_connect(&pair);
	fill(pair.donor.memory, 512 * 4096, 2);
	for (unsigned i = 0; i < 500 && !side_ended(&pair.client); i++) {
		struct fabric_op op = pair_op(&pair, FABRIC_READ, i * 4096, 4096, i);

		fabric_post(pair.client.conn, &op, 1);
		pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == i + 1);
		if (side_seen(&pair.client, FABRIC_DONE, i)->status)
			*text++ = 'x';
		else
			*text++ = bits_different(op.local, pair.donor.memory + i * 4096, 4096) ? 'c' : '.';
	}
	*text = '\0';
	pair_close(&pair);
}

static void a_seed_replays_its_history(void)
{
	char first[512], second[512], other[512];

	history(1, first);
	history(1, second);
	history(2, other);
	ok(strcmp(first, second) == 0 && strchr(first, 'c'), "a seed replays its history (%.30s, %.30s)", first,
	   second);
	ok(strcmp(first, other) != 0, "another seed has another history");
}

/* The donor's side of the connection is the faulty one. */
static void a_listener_may_be_faulty(void)
{
	struct pair pair;
	struct fabric_listener *listener;
	const struct seen *seen;

	faulty_open(&pair, (struct fabric_faults){0});
	ok(fabric_listen(pair.donor.fabric, "fault+tcp://127.0.0.1:0", &listener) == 0,
	   "a fault+tcp:// address is listened on");
	snprintf(pair.uri, sizeof pair.uri, "tcp://127.0.0.1:%u", fabric_listener_port(listener));
	ok(pair_connect(&pair) && read_pages(&pair, 10), "a faulty listener is connected to and serves reads");
	seen = side_seen(&pair.donor, FABRIC_ESTABLISHED, 0);
	ok(seen->conn == pair.donor.conn && seen->user == &pair.donor,
	   "the connections of a faulty listener are those of the fault layer");
	pair.donor.manual = true;
	pair.client.count = 0;
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, &pair.client, &pair.client.conn);
	ok(pump_until(&pair, side_count(&pair.donor, FABRIC_CONNECT_REQUEST) == 2),
	   "a second connect request arrives at a faulty listener");
	fabric_reject(pair.donor.conn, "no", 2);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_seen(&pair.client, FABRIC_DISCONNECTED, 0)->size == 2,
	   "a connect request at a faulty listener is rejected with private data");
	pair_close(&pair);
}

int main(void)
{
	an_empty_schedule_changes_nothing();
	corrupt_at_flips_one_bit();
	drop_at_loses_one_operation();
	disconnect_at_ends_the_connection();
	delay_at_delays_an_operation();
	refuse_connects_refuses_the_first_ones();
	a_seed_replays_its_history();
	a_listener_may_be_faulty();
	return tap_done();
}

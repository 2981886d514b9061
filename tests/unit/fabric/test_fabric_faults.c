/* The schedules of fault+tcp://. */
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

/* Posts @count reads of 4 KiB, cookies from 0, and waits for as many answers. */
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

static void test_none(void)
{
	struct pair pair;

	faulty_open(&pair, (struct fabric_faults){0});
	ok(pair_connect(&pair), "a connection without faults is established");
	ok(fabric_conn_user(pair.client.conn) == &pair.client &&
	       side_seen(&pair.client, FABRIC_ESTABLISHED, 0)->conn == pair.client.conn,
	   "with its user, under its own handle");
	fill(pair.donor.memory, 512 * 4096, 1);
	ok(read_pages(&pair, 500) && answered_in_order(&pair.client, 500, 0), "reads are answered in order");
	ok(memcmp(pair.client.memory, pair.donor.memory, 500 * 4096) == 0 && schedule.seen.operations == 500,
	   "with the right bytes, and counted");
	fabric_send(pair.client.conn, "hey", 3);
	ok(pump_until(&pair, side_count(&pair.donor, FABRIC_MESSAGE) == 1), "messages pass");
	fabric_disconnect(pair.donor.conn);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -ECONNRESET, "and the end");
	pair_close(&pair);
}

static void test_corrupt(void)
{
	struct pair pair;
	struct fabric_op op;

	faulty_open(&pair, (struct fabric_faults){.corrupt_at = 7});
	pair_connect(&pair);
	fill(pair.donor.memory, 64 * 4096, 2);
	ok(read_pages(&pair, 20) && answered_in_order(&pair.client, 20, 0), "all succeed");
	ok(bits_different(pair.client.memory, pair.donor.memory, 20 * 4096) == 1 &&
	       bits_different(pair.client.memory + 6 * 4096, pair.donor.memory + 6 * 4096, 4096) == 1,
	   "one bit of the seventh read is wrong");
	pair_close(&pair);

	faulty_open(&pair, (struct fabric_faults){.corrupt_at = 1});
	pair_connect(&pair);
	op = pair_op(&pair, FABRIC_WRITE, 0, 4096, 0);
	fabric_post(pair.client.conn, &op, 1);
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == 1) &&
	       bits_different(pair.client.memory, pair.donor.memory, 4096) == 1,
	   "of a write one bit at the donor");
	ok(bits_different(pair.client.memory, pair.client.memory + 4096, 4096) == 0, "and none of the writer's own");
	pair_close(&pair);
}

static void test_drop(void)
{
	struct pair pair;
	uint64_t begin = clock_now();

	faulty_open(&pair, (struct fabric_faults){.drop_at = 5});
	pair_connect(&pair);
	read_pages(&pair, 10);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -ETIMEDOUT,
	   "a dropped operation ends in a time-out");
	ok(clock_now() - begin >= 100000000, "at io_ms");
	ok(side_count(&pair.client, FABRIC_DONE) == 10 && side_seen(&pair.client, FABRIC_DONE, 3)->status == 0 &&
	       side_seen(&pair.client, FABRIC_DONE, 4)->status == -ETIMEDOUT &&
	       side_seen(&pair.client, FABRIC_DONE, 9)->status == -ETIMEDOUT,
	   "those before it are answered, it and those behind it lost");
	ok(pump_until(&pair, side_ended(&pair.donor)), "the donor sees the end");
	pair_close(&pair);
}

static void test_disconnect(void)
{
	struct pair pair;
	struct fabric_op op;

	faulty_open(&pair, (struct fabric_faults){.disconnect_at = 50});
	pair_connect(&pair);
	ok(read_pages(&pair, 49) && answered_in_order(&pair.client, 49, 0), "49 operations are answered");
	op = pair_op(&pair, FABRIC_READ, 0, 4096, 49);
	ok(fabric_post(pair.client.conn, &op, 1) == 1, "the 50th is taken");
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -ECONNRESET &&
	       side_count(&pair.client, FABRIC_DONE) == 50 &&
	       side_seen(&pair.client, FABRIC_DONE, 49)->status == -ECONNRESET,
	   "and ends the connection");
	ok(fabric_post(pair.client.conn, &op, 1) == -ENOTCONN && fabric_room(pair.client.conn) == 0,
	   "which takes no more");
	fabric_disconnect(pair.client.conn);
	pair.client.count = pair.donor.count = 0;
	ok(pair_connect(&pair) && read_pages(&pair, 100), "a new one works");
	pair_close(&pair);
}

static void test_delay(void)
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
	ok(good && took < 30000000, "two are answered soon (%.1f ms)", (double)took / 1e6);
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
	   "the third and the one behind it are late, asleep");
	ok(answered_in_order(&pair.client, 4, 0), "and in order");
	pair_close(&pair);
}

static void test_refuse(void)
{
	struct pair pair;

	faulty_open(&pair, (struct fabric_faults){.refuse_connects = 2});
	for (unsigned i = 0; i < 2; i++) {
		pair.client.count = 0;
		fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.client.conn);
		ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -ECONNREFUSED,
		   "connect %u is refused", i + 1);
		fabric_disconnect(pair.client.conn);
	}
	pair.client.count = pair.donor.count = 0;
	ok(pair_connect(&pair), "the third is not");
	pair_close(&pair);
}

/* What one seed does, as text. */
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

static void test_seed(void)
{
	char first[512], second[512], other[512];

	history(1, first);
	history(1, second);
	history(2, other);
	ok(strcmp(first, second) == 0 && strchr(first, 'c'), "a seed replays its history (%s, %s)", first, second);
	ok(strcmp(first, other) != 0, "another seed has another");
}

/* A donor whose side of the connection is faulty. */
static void test_listener(void)
{
	struct pair pair;
	struct fabric_listener *listener;
	const struct seen *seen;

	faulty_open(&pair, (struct fabric_faults){0});
	ok(fabric_listen(pair.donor.fabric, "fault+tcp://127.0.0.1:0", &listener) == 0, "a faulty listener");
	snprintf(pair.uri, sizeof pair.uri, "tcp://127.0.0.1:%u", fabric_listener_port(listener));
	ok(pair_connect(&pair) && read_pages(&pair, 10), "can be connected to and serves");
	seen = side_seen(&pair.donor, FABRIC_ESTABLISHED, 0);
	ok(seen->conn == pair.donor.conn && seen->user == &pair.donor, "its connections are the layer's");
	pair.donor.manual = true;
	pair.client.count = 0;
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, &pair.client, &pair.client.conn);
	ok(pump_until(&pair, side_count(&pair.donor, FABRIC_CONNECT_REQUEST) == 2), "another arrives");
	fabric_reject(pair.donor.conn, "no", 2);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_seen(&pair.client, FABRIC_DISCONNECTED, 0)->size == 2,
	   "and is rejected");
	pair_close(&pair);
}

int main(void)
{
	test_none();
	test_corrupt();
	test_drop();
	test_disconnect();
	test_delay();
	test_refuse();
	test_seed();
	test_listener();
	return tap_done();
}

/* fabric: fabric_wait(), fabric_arm_until() and watches wake up, time out, and use no CPU when there is
   nothing to do. */
#include "tests/unit/fabric/pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

static uint64_t thread_cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void a_wait_times_out(void)
{
	struct fabric_event event;
	struct pair pair;
	uint64_t begin;

	pair_open(&pair, NULL);
	begin = clock_now();
	ok(fabric_wait(pair.client.fabric, &event, 1, 50) == 0 && clock_now() - begin >= 50000000,
	   "a wait without events times out");
	begin = clock_now();
	ok(fabric_wait(pair.client.fabric, &event, 1, 0) == 0 && clock_now() - begin < 50000000,
	   "a wait of 0 ms returns at once");
	pair_close(&pair);
}

static void watched_descriptors_are_reported_while_readable(void)
{
	struct fabric_event event;
	struct pair pair;
	uint64_t value = 1;
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), other = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), user;

	pair_open(&pair, NULL);
	ok(fabric_watch(pair.client.fabric, fd, &user) == 0 && fabric_watch(pair.client.fabric, other, NULL) == 0,
	   "two descriptors are watched");
	ok(fabric_wait(pair.client.fabric, &event, 1, 10) == 0,
	   "a watched descriptor that cannot be read is not reported");
	ok(write(fd, &value, sizeof value) == sizeof value && fabric_wait(pair.client.fabric, &event, 1, 5000) == 1 &&
	       event.kind == FABRIC_READABLE && event.user == &user && event.conn == NULL,
	   "a watched descriptor that can be read is reported with its user pointer");
	ok(fabric_wait(pair.client.fabric, &event, 1, 5000) == 1 && event.user == &user,
	   "a watched descriptor is reported again while it can be read");
	ok(read(fd, &value, sizeof value) == sizeof value && fabric_wait(pair.client.fabric, &event, 1, 10) == 0,
	   "a watched descriptor is not reported after it was read");
	pair_close(&pair);
	close(fd);
	close(other);
}

/* The test takes one event at a time, and there is always another message under way. An emulated device may deliver
   messages so slowly that most events are of the descriptor. */
static void a_watch_is_reported_amid_a_flood(void)
{
	struct fabric_event event;
	struct pair pair;
	uint64_t value = 1, until;
	unsigned messages = 0, readable = 0;
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	pair_open(&pair, NULL);
	pair_connect(&pair);
	fabric_watch(pair.donor.fabric, fd, NULL);
	ok(write(fd, &value, sizeof value) == sizeof value, "a watched descriptor can be read");
	until = clock_now() + 30000000000;
	while ((messages <= 500 || readable <= 10) && messages < 2000 && clock_now() < until) {
		while (fabric_send(pair.client.conn, &value, sizeof value) == 0)
			;
		fabric_poll(pair.client.fabric, &event, 1);
		if (fabric_wait(pair.donor.fabric, &event, 1, 5000) != 1)
			break;
		messages += event.kind == FABRIC_MESSAGE;
		readable += event.kind == FABRIC_READABLE;
	}
	ok(messages > 500 && readable > 10,
	   "a watched descriptor is reported amid a flood of messages (%u times, %u messages)", readable, messages);
	pair_close(&pair);
	close(fd);
}

/*
 * Sleeps on fabric_fd() instead of in fabric_wait(). Returns false if no event came and the descriptor did not become
 * readable in time.
 */
static bool arm_and_sleep(struct side *side, int timeout_ms)
{
	struct pollfd poller = {.fd = fabric_fd(side->fabric), .events = POLLIN};

	unsigned before = side->count;

	for (unsigned i = 0; i < 10; i++) {
		side_poll(side);
		if (side->count != before)
			return true;
		if (fabric_arm_until(side->fabric, UINT64_MAX) == 0)
			return poll(&poller, 1, timeout_ms) == 1;
	}
	return true;
}

/* The donor does not serve a request until the client has overslept its deadline. */
static void a_thread_that_wakes_late_ends_no_connection(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct fabric_op op;
	struct pair pair;

	config.io_ms = 100;
	pair_open(&pair, &config);
	if (!pair_is_tcp()) { /* an RDMA device answers without the donor's thread, so it is never late */
		pair_close(&pair);
		return;
	}
	pair_connect(&pair);
	op = pair_op(&pair, FABRIC_READ, 0, 4096, 1);
	fabric_post(pair.client.conn, &op, 1);
	side_poll(&pair.client);
	fabric_arm_until(pair.client.fabric, UINT64_MAX);
	poll(NULL, 0, 1000); /* as if the thread had no processor */
	side_poll(&pair.client);
	side_poll(&pair.client); /* reports the events that the first poll has found */
	ok(!side_ended(&pair.client), "a thread that wakes late ends no connection at once");
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == 1), "an answer comes after a thread woke late");
	fabric_post(pair.client.conn, &op, 1);
	while (!side_ended(&pair.client) && arm_and_sleep(&pair.client, 5000))
		;
	ok(side_ended(&pair.client) == -ETIMEDOUT, "a connection ends when its donor stays silent");
	pair_close(&pair);
}

static void an_armed_fabrics_descriptor_becomes_readable(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct pair pair;
	struct fabric_op op;

	config.io_ms = 200;
	pair_open(&pair, &config);
	pair_connect(&pair);
	ok(!arm_and_sleep(&pair.client, 20), "an idle fabric's descriptor is not readable");
	fabric_send(pair.donor.conn, "x", 1);
	ok(arm_and_sleep(&pair.client, 5000), "a fabric's descriptor becomes readable when a message comes");
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_MESSAGE) == 1),
	   "a message that made the descriptor readable is there");
	ok(!arm_and_sleep(&pair.client, 20), "a fabric's descriptor is not readable after the message was taken");
	op = pair_op(&pair, FABRIC_READ, 0, 4096, 1);
	fabric_post(pair.client.conn, &op, 1);
	while (arm_and_sleep(&pair.donor, 20))
		; /* serves the read */
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == 1),
	   "a donor that sleeps on its descriptor serves a read");
	if (pair_is_tcp()) { /* a device serves without the donor's program */
		fabric_post(pair.client.conn, &op, 1);
		while (!side_ended(&pair.client) && arm_and_sleep(&pair.client, 5000))
			;
		ok(side_ended(&pair.client) == -ETIMEDOUT, "a fabric's descriptor becomes readable at a deadline");
	}
	pair_close(&pair);
}

struct donor_thread {
	struct side *side;
	atomic_bool stop;
};

static void *donor_run(void *argument)
{
	struct donor_thread *donor = argument;
	struct fabric_event events[16];

	while (!atomic_load(&donor->stop)) {
		int count = fabric_wait(donor->side->fabric, events, 16, 100);

		for (int i = 0; i < count; i++)
			side_note(donor->side, &events[i]);
	}
	return NULL;
}

/* Returns the CPU time of @thread, which stays in fabric_wait() and so cannot measure it itself. */
static uint64_t other_cpu_ns(pthread_t thread)
{
	struct timespec used;
	clockid_t clock;

	if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &used))
		abort();
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static bool client_wait(struct side *client, enum fabric_event_kind kind, unsigned count)
{
	struct fabric_event events[16];
	uint64_t deadline = clock_now() + 5000000000ull;

	while (side_count(client, kind) < count && clock_now() < deadline) {
		int got = fabric_wait(client->fabric, events, 16, 1000);

		for (int i = 0; i < got; i++)
			side_note(client, &events[i]);
	}
	return side_count(client, kind) >= count;
}

/* Both sides run fabric_wait() in threads of their own. Then both are idle for half a second. */
static void an_idle_fabric_uses_no_cpu(unsigned spin_us)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct donor_thread donor = {0};
	struct fabric_event event;
	struct pair pair;
	pthread_t thread;
	uint64_t client_before, donor_before, donor_used;
	bool good = true;

	config.spin_us = spin_us;
	pair_open(&pair, &config);
	donor.side = &pair.donor;
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.client.conn);
	pthread_create(&thread, NULL, donor_run, &donor);
	ok(client_wait(&pair.client, FABRIC_ESTABLISHED, 1), "two threads in fabric_wait() connect (spin %u us)",
	   spin_us);
	for (unsigned i = 0; i < 1000; i++) {
		struct fabric_op op = {.kind = i % 2 ? FABRIC_WRITE : FABRIC_READ,
				       .length = 4096,
				       .local = pair.client.memory,
				       .region = pair.client.region,
				       .remote = fabric_export(pair.donor.region, pair.client.conn),
				       .cookie = i};

		good =
		    good && fabric_post(pair.client.conn, &op, 1) == 1 && client_wait(&pair.client, FABRIC_DONE, i + 1);
	}
	ok(good, "1000 operations are answered one after the other (spin %u us)", spin_us);
	donor_before = other_cpu_ns(thread);
	client_before = thread_cpu_ns();
	fabric_wait(pair.client.fabric, &event, 1, 500);
	ok(thread_cpu_ns() - client_before < 25000000, "an idle client at spin %u us uses no CPU (%.1f ms of 500)",
	   spin_us, (double)(thread_cpu_ns() - client_before) / 1e6);
	donor_used = other_cpu_ns(thread) - donor_before;
	ok(donor_used < 25000000, "an idle donor at spin %u us uses no CPU (%.1f ms)", spin_us,
	   (double)donor_used / 1e6);
	atomic_store(&donor.stop, true);
	pthread_join(thread, NULL);
	pair_close(&pair);
}

/* A thread that registers and deregisters a region, while requests come for the region's place in the table. */
static void *register_run(void *argument)
{
	struct donor_thread *donor = argument;

	while (!atomic_load(&donor->stop)) {
		struct fabric_region *region;
		uint8_t *memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (fabric_register(donor->side->domain, memory, 65536, FABRIC_REMOTE_READ, &region) < 0)
			abort();
		sched_yield();
		fabric_deregister(region);
		munmap(memory, 65536);
	}
	return NULL;
}

static void another_thread_may_register_meanwhile(void)
{
	struct donor_thread donor = {0};
	struct pair pair;
	struct fabric_op op;
	pthread_t threads[2];
	unsigned granted = 0, refused = 0;
	int last = 0;

	pair_open(&pair, NULL);
	donor.side = &pair.donor;
	pthread_create(&threads[0], NULL, donor_run, &donor);
	pthread_create(&threads[1], NULL, register_run, &donor);
	for (unsigned i = 0; i < 200 && granted + refused == i; i++) {
		pair.client.count = 0;
		fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.client.conn);
		client_wait(&pair.client, FABRIC_ESTABLISHED, 1);
		op = (struct fabric_op){
		    .kind = FABRIC_READ, .length = 65536, .local = pair.client.memory, .region = pair.client.region};
		op.remote = fabric_export(pair.donor.region, pair.client.conn);
		if (i % 2)
			op.remote.rkey += 1; /* the place in the table that the other thread uses */
		fabric_post(pair.client.conn, &op, 1);
		client_wait(&pair.client, FABRIC_DONE, 1);
		granted += side_seen(&pair.client, FABRIC_DONE, 0)->status == 0;
		refused += side_seen(&pair.client, FABRIC_DONE, 0)->status == -EACCES;
		last = side_seen(&pair.client, FABRIC_DONE, 0)->status;
		fabric_disconnect(pair.client.conn);
	}
	ok(granted == 100 && refused == 100,
	   "reads are answered while another thread registers: %u granted, %u refused, the last: %s", granted, refused,
	   strerror(-last));
	atomic_store(&donor.stop, true);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	pair_close(&pair);
}

int main(void)
{
	a_wait_times_out();
	watched_descriptors_are_reported_while_readable();
	a_watch_is_reported_amid_a_flood();
	an_armed_fabrics_descriptor_becomes_readable();
	a_thread_that_wakes_late_ends_no_connection();
	an_idle_fabric_uses_no_cpu(50);
	an_idle_fabric_uses_no_cpu(0);
	if (!getenv("TAP_LOG"))
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	another_thread_may_register_meanwhile();
	return tap_done();
}

/*
 * verbs: what a device refuses and limits, and what the kernel keeps. The tests cover the fence, stale keys, small
 * limits, too little memory to lock, addresses that nobody has, and removal. Afterwards nothing is left in `rdma
 * resource`.
 */
#include "tests/unit/fabric/verbs_peer.h"

#include <linux/capability.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGES 64u

static bool iwarp;
static const char *device; /* the device of the address in FARPAGE_TEST_FABRIC */
static char host[48];

/* Returns how many resources of @kind ("qp", "cq", "mr", "pd", "cm_id") the kernel has for this process. */
static unsigned resources(const char *kind)
{
	char command[96], line[16] = "";
	FILE *pipe;

	snprintf(command, sizeof command, "rdma resource show %s | grep -c ' pid %d '", kind, getpid());
	pipe = popen(command, "re");
	if (!pipe || !fgets(line, sizeof line, pipe))
		abort();
	pclose(pipe);
	return (unsigned)atoi(line);
}

struct counts {
	unsigned qp, cq, mr, pd, cm_id;
};

static struct counts counts_now(void)
{
	return (struct counts){resources("qp"), resources("cq"), resources("mr"), resources("pd"), resources("cm_id")};
}

static bool counts_same(struct counts before)
{
	struct counts now = counts_now();
	bool same = memcmp(&now, &before, sizeof now) == 0;

	if (!same)
		printf("# qp %u->%u cq %u->%u mr %u->%u pd %u->%u cm_id %u->%u\n", before.qp, now.qp, before.cq, now.cq,
		       before.mr, now.mr, before.pd, now.pd, before.cm_id, now.cm_id);
	return same;
}

static void events_forget(struct pair *pair)
{
	pair->client.count = pair->donor.count = 0;
}

/* Waits for the end of @side's connection. Returns its status, or 0 if there was no end. */
static int end_await(struct pair *pair, const struct side *side)
{
	return pump_until(pair, side_ended(side));
}

/* Ends both sides' connections. */
static void pair_disconnect(struct pair *pair)
{
	fabric_disconnect(pair->client.conn);
	fabric_disconnect(pair->donor.conn);
	pair->client.conn = pair->donor.conn = NULL;
	events_forget(pair);
}

/* --- The fence --------------------------------------------------------------------------------------------- */

static void writes_post(struct pair *pair, enum fabric_op_kind kind)
{
	struct fabric_op ops[PAGES];

	for (unsigned i = 0; i < PAGES; i++)
		ops[i] = pair_op(pair, kind, i * 65536, 65536, i);
	if (fabric_post(pair->client.conn, ops, PAGES) != PAGES)
		abort();
}

/* Returns true if @memory does not change for 200 ms, whatever the pair still does. */
static bool stays(struct pair *pair, const uint8_t *memory)
{
	uint8_t *copy = malloc(PAIR_MEMORY);
	bool same;

	memcpy(copy, memory, PAIR_MEMORY);
	pump_for(pair, 200);
	same = memcmp(copy, memory, PAIR_MEMORY) == 0;
	free(copy);
	return same;
}

static void a_disconnect_fences_the_memory(void)
{
	struct pair pair;

	pair_open(&pair, NULL);
	fill(pair.client.memory, PAIR_MEMORY, 1);
	ok(pair_connect(&pair), "a connection for writes is established");
	writes_post(&pair, FABRIC_WRITE);
	fabric_disconnect(pair.donor.conn);
	ok(stays(&pair, pair.donor.memory), "no write changes the donor's memory after the donor has disconnected");
	ok(side_ended(&pair.client) == -ECONNRESET && side_count(&pair.client, FABRIC_DONE) == PAGES,
	   "each write is answered after the donor has disconnected");
	fabric_disconnect(pair.client.conn);
	events_forget(&pair);
	memset(pair.donor.memory, 7, PAIR_MEMORY);
	ok(pair_connect(&pair), "a second connection for writes is established");
	writes_post(&pair, FABRIC_WRITE);
	fabric_disconnect(pair.client.conn);
	ok(pump_until(&pair, side_ended(&pair.donor)) && stays(&pair, pair.donor.memory),
	   "no write changes the donor's memory after it heard of the client's disconnect");
	fabric_disconnect(pair.donor.conn);
	events_forget(&pair);
	ok(pair_connect(&pair), "a connection for reads is established");
	writes_post(&pair, FABRIC_READ);
	fabric_disconnect(pair.client.conn);
	ok(stays(&pair, pair.client.memory), "no read changes the client's memory after the client has disconnected");
	pair_close(&pair);
}

/* A slab is deregistered while it is written. */
static void a_deregistered_region_is_not_written_any_more(void)
{
	struct fabric_conn *bystander;
	struct pair pair;
	struct fabric_op op;

	pair_open(&pair, NULL);
	fill(pair.client.memory, PAIR_MEMORY, 2);
	pair_connect(&pair);
	bystander = pair.client.conn;
	ok(fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, &pair.client, &pair.client.conn) ==
		   0 &&
	       pump_until(&pair, side_count(&pair.client, FABRIC_ESTABLISHED) == 2 &&
				     side_count(&pair.donor, FABRIC_ESTABLISHED) == 2),
	   "two connections are established");
	writes_post(&pair, FABRIC_WRITE);
	fabric_deregister(pair.donor.region);
	pair.donor.region = NULL;
	ok(stays(&pair, pair.donor.memory), "no write changes memory whose registration is gone");
	/* siw forgets a request that fails at the other side. So the writer sees only the end of the stream. */
	ok(side_ended(&pair.client) == (iwarp ? -ECONNRESET : -EACCES) &&
	       side_count(&pair.client, FABRIC_DONE) == PAGES,
	   "the writer to a deregistered region is told of the end: %s", strerror(-side_ended(&pair.client)));
	if (fabric_register(pair.donor.domain, pair.donor.memory, PAIR_MEMORY, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
			    &pair.donor.region) < 0)
		abort();
	pair.client.conn = bystander;
	op = pair_op(&pair, FABRIC_WRITE, 0, 4096, 1000);
	memset(pair.client.memory, 9, 4096);
	ok(fabric_post(bystander, &op, 1) == 1 &&
	       pump_until(&pair, pair.client.seen[pair.client.count - 1].cookie == 1000) &&
	       pair.client.seen[pair.client.count - 1].status == 0 && pair.donor.memory[4095] == 9,
	   "another connection goes on after a refused write");
	pair_close(&pair);
}

/* --- Limits ------------------------------------------------------------------------------------------------ */

static void the_limits_of_a_device_bound_the_depth(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct verbs_device *limits;
	struct fabric_op ops[100];
	struct pair pair;
	unsigned work_requests, completions;

	config.depth = 100;
	pair_open(&pair, &config);
	ok(pair_connect(&pair) && fabric_room(pair.client.conn) == 100, "a connection has the requested depth");
	limits = verbs_conn_of(pair.client.conn)->channel->device;
	work_requests = limits->work_requests;
	completions = limits->completions;
	pair_disconnect(&pair);
	limits->work_requests = VERBS_SENDS + 10;
	ok(pair_connect(&pair) && fabric_room(pair.client.conn) == 10,
	   "a connection has less depth if a queue has less room");
	for (unsigned i = 0; i < 100; i++)
		ops[i] = pair_op(&pair, FABRIC_READ, 0, 4096, i);
	ok(fabric_post(pair.client.conn, ops, 100) == 10 && fabric_room(pair.client.conn) == 0,
	   "a connection of less depth accepts no more operations than its depth");
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == 10),
	   "a connection of less depth answers all operations that it accepted");
	pair_disconnect(&pair);
	limits->work_requests = work_requests;
	limits->completions = VERBS_SENDS + VERBS_RECEIVES + 5;
	ok(pair_connect(&pair) && fabric_room(pair.client.conn) == 5,
	   "a connection has less depth if a completion queue has less room");
	pair_disconnect(&pair);
	limits->completions = VERBS_RECEIVES;
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, &pair.client, &pair.client.conn);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -EOPNOTSUPP,
	   "a device with too small queues is refused with -EOPNOTSUPP");
	limits->completions = completions;
	pair_close(&pair);
}

/* --- Nobody there ------------------------------------------------------------------------------------------ */

static void unreachable_addresses_end_the_connect(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct counts before;
	struct pair pair;
	uint64_t begin;
	char uri[64];
	int status;

	config.connect_ms = 300;
	pair_open(&pair, &config);
	pair_connect(&pair);
	before = counts_now();
	/* Makes the kernel send packets to a machine that does not exist, so that they are lost. */
	if (system("ip neighbour replace 10.77.0.99 lladdr 02:00:00:00:00:99 dev far0 nud permanent") != 0)
		abort();
	events_forget(&pair);
	begin = clock_now();
	fabric_connect(pair.client.fabric, pair.client.domain, "rdma://10.77.0.99:7470", NULL, 0, NULL,
		       &pair.donor.conn);
	status = end_await(&pair, &pair.client);
	ok(status == -ETIMEDOUT && clock_now() - begin >= 290000000 && clock_now() - begin < 1000000000,
	   "a connect to a host that never answers times out: %s after %.0f ms", strerror(-status),
	   (double)(clock_now() - begin) / 1e6);
	fabric_disconnect(pair.donor.conn);
	ok(counts_same(before), "a connect that timed out leaves no resource");
	events_forget(&pair);
	snprintf(uri, sizeof uri, "rdma://%s:1", host);
	fabric_connect(pair.client.fabric, pair.client.domain, uri, NULL, 0, NULL, &pair.donor.conn);
	status = end_await(&pair, &pair.client);
	ok(status == -ECONNREFUSED, "a connect to a port that nobody listens on is refused: %s", strerror(-status));
	fabric_disconnect(pair.donor.conn);
	ok(counts_same(before), "a connect that was refused leaves no resource");
	pair_close(&pair);
}

/* --- Nothing left ------------------------------------------------------------------------------------------ */

static void ended_connections_leave_no_resource(void)
{
	struct counts before;
	struct pair pair;
	unsigned cycle = 0;
	bool good = true;

	pair_open(&pair, NULL);
	good &= pair_connect(&pair);
	fabric_export(pair.donor.region, pair.donor.conn);
	pair_disconnect(&pair);
	before = counts_now();
	for (unsigned i = 0; i < 100 && good; cycle = ++i) {
		struct fabric_op op;

		good &= pair_connect(&pair);
		op = pair_op(&pair, FABRIC_READ, 0, 4096, i);
		fabric_post(pair.client.conn, &op, 1);
		if (i % 2)
			fabric_disconnect(pair.client.conn);
		else
			fabric_disconnect(pair.donor.conn);
		good &= end_await(&pair, i % 2 ? &pair.donor : &pair.client) != 0;
		fabric_disconnect(i % 2 ? pair.donor.conn : pair.client.conn);
		events_forget(&pair);
	}
	ok(good, "100 connections are established and ended by either side (%u)", cycle);
	ok(counts_same(before), "100 ended connections leave no resource");
	pair.donor.manual = true;
	for (unsigned i = 0; i < 50 && good; i++) {
		fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.client.conn);
		good &= pump_until(&pair, side_count(&pair.donor, FABRIC_CONNECT_REQUEST));
		fabric_reject(pair.donor.conn, "no", 2);
		good &= pump_until(&pair, side_ended(&pair.client) == -ECONNREFUSED);
		fabric_disconnect(pair.client.conn);
		events_forget(&pair);
	}
	ok(good, "50 connections are rejected");
	ok(counts_same(before), "50 rejected connections leave no resource");
	for (unsigned i = 0; i < 20; i++) {
		fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.client.conn);
		pump_for(&pair, i);
		fabric_disconnect(pair.client.conn);
		pump_for(&pair, 10);
		for (unsigned j = 0; j < pair.donor.count; j++)
			if (pair.donor.seen[j].kind == FABRIC_CONNECT_REQUEST)
				fabric_reject(pair.donor.seen[j].conn, NULL, 0);
		events_forget(&pair);
	}
	ok(counts_same(before), "20 connects given up half way leave no resource");
	pair_close(&pair);
	ok(resources("qp") + resources("cq") + resources("mr") + resources("cm_id") == 0,
	   "a closed pair leaves no resource");
}

/* --- Locked memory ----------------------------------------------------------------------------------------- */

static void lock_privilege_drop(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0)
		abort();
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	if (syscall(SYS_capset, &header, data) < 0)
		abort();
}

/* Sets a limit on locked memory that is reached while regions are registered. */
static void the_limit_on_locked_memory_is_respected(void)
{
	struct rlimit before, limit = {.rlim_cur = PAIR_MEMORY * 3 / 2, .rlim_max = RLIM_INFINITY};
	struct fabric_region *regions[100] = {NULL};
	struct counts counts;
	struct pair pair;
	uint8_t *memory = mmap(NULL, PAIR_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned made = 0;
	int status = 0;

	pair_open(&pair, NULL);
	ok(pair_connect(&pair), "a connection with registered memory is established");
	counts = counts_now();
	getrlimit(RLIMIT_MEMLOCK, &before);
	limit.rlim_cur = 2 * PAIR_MEMORY + PAIR_MEMORY / 2;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	while (made < 100) {
		status =
		    fabric_register(pair.client.domain, memory + made * 65536, 65536 * 4, FABRIC_LOCAL, &regions[made]);
		if (status < 0)
			break;
		made++;
	}
	ok(made > 0 && made < 100 && status == -EPERM, "the limit on locked memory is reached after %u regions: %s",
	   made, strerror(-status));
	for (unsigned i = 0; i < made; i++)
		fabric_deregister(regions[i]);
	ok(counts_same(counts), "regions at the limit on locked memory leave no resource");
	/* With this limit a connection cannot register its own buffers. */
	limit.rlim_cur = 65536;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	events_forget(&pair);
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.donor.conn);
	status = end_await(&pair, &pair.client);
	ok(status == -EPERM, "a connection without lockable memory for its messages ends: %s", strerror(-status));
	fabric_disconnect(pair.donor.conn);
	ok(counts_same(counts), "a connection without lockable memory leaves no resource");
	setrlimit(RLIMIT_MEMLOCK, &before);
	pair_close(&pair);
	munmap(memory, PAIR_MEMORY);
}

/* --- Removal ----------------------------------------------------------------------------------------------- */

static pid_t shell(const char *command)
{
	pid_t pid = vfork();

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* Returns true if the shell has ended. *@status must be -1 before the first call. */
static bool shell_ended(pid_t pid, int *status)
{
	return *status != -1 || waitpid(pid, status, WNOHANG) == pid;
}

/* Another fabric of this process on the same device. Its thread sleeps, and it has no connection there any more. */
struct idler {
	struct pair pair;
	pthread_t thread;
	_Atomic bool stop;
};

static void *idler_run(void *argument)
{
	struct idler *idler = argument;
	struct fabric_event events[4];

	while (!idler->stop)
		fabric_wait(idler->pair.client.fabric, events, 4, 100);
	return NULL;
}

static void a_device_may_be_removed_and_added_again(void)
{
	struct idler idler = {.stop = false};
	char remove[96], add[128];
	struct pair pair;
	pid_t removal;
	int status = -1, ended;

	snprintf(remove, sizeof remove, "exec rdma link delete %s", device);
	snprintf(add, sizeof add, "exec rdma link add %s type %s netdev far0", device, iwarp ? "siw" : "rxe");
	pair_open(&idler.pair, NULL);
	ok(pair_connect(&idler.pair), "another fabric has a connection over the device");
	pair_disconnect(&idler.pair);
	pthread_create(&idler.thread, NULL, idler_run, &idler);
	pair_open(&pair, NULL);
	fill(pair.client.memory, PAIR_MEMORY, 5);
	ok(pair_connect(&pair), "a connection for writes is established before the removal");
	writes_post(&pair, FABRIC_WRITE);
	removal = shell(remove);
	ok(pump_until(&pair, side_ended(&pair.client) && side_ended(&pair.donor)),
	   "the removal of a device ends the connection on both sides");
	/* A side may hear of the end from the other side before its device reports -ENODEV. */
	ok((side_ended(&pair.client) == -ENODEV || side_ended(&pair.donor) == -ENODEV),
	   "the removal of a device is told as -ENODEV to one side at least: %s, %s",
	   strerror(-side_ended(&pair.client)), strerror(-side_ended(&pair.donor)));
	ok(side_count(&pair.client, FABRIC_DONE) == PAGES, "each write is answered when its device is removed");
	pump_for(&idler.pair, 0);
	ok(pump_until(&pair, ({
		   side_poll(&idler.pair.donor);
		   shell_ended(removal, &status);
	   })) &&
	       status == 0,
	   "the removal of a device is not held up (status %d)", status);
	fabric_disconnect(pair.client.conn);
	fabric_disconnect(pair.donor.conn);
	events_forget(&pair);
	if (fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.client.conn) < 0)
		abort();
	ended = end_await(&pair, &pair.client);
	ok(ended < 0, "a connect over a removed device fails: %s", strerror(-ended));
	fabric_disconnect(pair.client.conn);
	events_forget(&pair);
	removal = shell(add);
	status = -1;
	ok(pump_until(&pair, shell_ended(removal, &status)) && status == 0, "a device of the same name is added");
	pump_for(&pair, 1000);
	ok(pair_connect(&pair), "a device that was added again is listened on at the same port");
	writes_post(&pair, FABRIC_WRITE);
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == PAGES) &&
	       memcmp(pair.client.memory, pair.donor.memory, PAGES * 65536) == 0,
	   "a device that was added again carries writes");
	pair_close(&pair);
	idler.stop = true;
	pthread_join(idler.thread, NULL);
	pair_close(&idler.pair);
}

int main(void)
{
	struct pair pair;

	if (pair_is_tcp())
		return tap_skip_all("FARPAGE_TEST_FABRIC names no RDMA address");
	sscanf(getenv("FARPAGE_TEST_FABRIC"), "%*s %47s", host);
	/* First, because rdma_cm and uverbs refuse a process whose privileges changed since it opened them. */
	lock_privilege_drop();
	pair_open(&pair, NULL);
	if (!pair_connect(&pair))
		abort();
	iwarp = peer_is_iwarp(pair.client.conn);
	device = strdup(verbs_conn_of(pair.client.conn)->channel->device->name);
	pair_close(&pair);
	if (!getenv("TAP_LOG"))
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	a_disconnect_fences_the_memory();
	a_deregistered_region_is_not_written_any_more();
	the_limits_of_a_device_bound_the_depth();
	unreachable_addresses_end_the_connect();
	ended_connections_leave_no_resource();
	a_device_may_be_removed_and_added_again();
	the_limit_on_locked_memory_is_respected();
	return tap_done();
}

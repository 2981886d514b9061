/*
 * What a device refuses and limits, and what the kernel keeps: the fence, stale keys, small limits, too little memory
 * to lock, addresses that nobody has, removal; nothing of any of it is left in `rdma resource`.
 */
#include "tests/unit/fabric/verbs_peer.h"
#include <linux/capability.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGES 64u

static bool iwarp;
static const char *device; /* of FARPAGE_TEST_FABRIC's address */
static char host[48];

/* What the kernel has for this process of @kind ("qp", "cq", "mr", "pd", "cm_id"). */
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

/* Why @side's connection ended; 0: it did not. */
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

/* @memory stays as it is from here on, whatever the pair still does. */
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

static void test_fence(void)
{
	struct pair pair;

	pair_open(&pair, NULL);
	fill(pair.client.memory, PAIR_MEMORY, 1);
	ok(pair_connect(&pair), "writes under way");
	writes_post(&pair, FABRIC_WRITE);
	fabric_disconnect(pair.donor.conn);
	ok(stays(&pair, pair.donor.memory), "nothing is written once the donor has disconnected");
	ok(side_ended(&pair.client) == -ECONNRESET && side_count(&pair.client, FABRIC_DONE) == PAGES,
	   "and each write is answered");
	fabric_disconnect(pair.client.conn);
	events_forget(&pair);
	memset(pair.donor.memory, 7, PAIR_MEMORY);
	ok(pair_connect(&pair), "again");
	writes_post(&pair, FABRIC_WRITE);
	fabric_disconnect(pair.client.conn);
	ok(pump_until(&pair, side_ended(&pair.donor)) && stays(&pair, pair.donor.memory),
	   "nor once the client has, and the donor has heard of it");
	fabric_disconnect(pair.donor.conn);
	events_forget(&pair);
	ok(pair_connect(&pair), "reads under way");
	writes_post(&pair, FABRIC_READ);
	fabric_disconnect(pair.client.conn);
	ok(stays(&pair, pair.client.memory), "nothing arrives once the client has disconnected");
	pair_close(&pair);
}

/* A slab is taken away while it is written. */
static void test_deregister(void)
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
	   "two connections");
	writes_post(&pair, FABRIC_WRITE);
	fabric_deregister(pair.donor.region);
	pair.donor.region = NULL;
	ok(stays(&pair, pair.donor.memory), "nothing is written once its registration is gone");
	/* siw forgets a request that fails at the other side: what came of it is the end of the stream. */
	ok(side_ended(&pair.client) == (iwarp ? -ECONNRESET : -EACCES) &&
	       side_count(&pair.client, FABRIC_DONE) == PAGES,
	   "the writer is told: %s", strerror(-side_ended(&pair.client)));
	if (fabric_register(pair.donor.domain, pair.donor.memory, PAIR_MEMORY, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
			    &pair.donor.region) < 0)
		abort();
	pair.client.conn = bystander;
	op = pair_op(&pair, FABRIC_WRITE, 0, 4096, 1000);
	memset(pair.client.memory, 9, 4096);
	ok(fabric_post(bystander, &op, 1) == 1 &&
	       pump_until(&pair, pair.client.seen[pair.client.count - 1].cookie == 1000) &&
	       pair.client.seen[pair.client.count - 1].status == 0 && pair.donor.memory[4095] == 9,
	   "the other connection goes on");
	pair_close(&pair);
}

/* --- Limits ------------------------------------------------------------------------------------------------ */

static void test_depth(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct verbs_device *limits;
	struct fabric_op ops[100];
	struct pair pair;
	unsigned work_requests, completions;

	config.depth = 100;
	pair_open(&pair, &config);
	ok(pair_connect(&pair) && fabric_room(pair.client.conn) == 100, "as deep as asked for");
	limits = verbs_conn_of(pair.client.conn)->channel->device;
	work_requests = limits->work_requests;
	completions = limits->completions;
	pair_disconnect(&pair);
	limits->work_requests = VERBS_SENDS + 10;
	ok(pair_connect(&pair) && fabric_room(pair.client.conn) == 10, "less where a queue takes less");
	for (unsigned i = 0; i < 100; i++)
		ops[i] = pair_op(&pair, FABRIC_READ, 0, 4096, i);
	ok(fabric_post(pair.client.conn, ops, 100) == 10 && fabric_room(pair.client.conn) == 0, "no more are taken");
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == 10), "and all of them answered");
	pair_disconnect(&pair);
	limits->work_requests = work_requests;
	limits->completions = VERBS_SENDS + VERBS_RECEIVES + 5;
	ok(pair_connect(&pair) && fabric_room(pair.client.conn) == 5, "less where a completion queue takes less");
	pair_disconnect(&pair);
	limits->completions = VERBS_RECEIVES;
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, &pair.client, &pair.client.conn);
	ok(pump_until(&pair, side_ended(&pair.client)) && side_ended(&pair.client) == -EOPNOTSUPP,
	   "a device that takes too little is not used");
	limits->completions = completions;
	pair_close(&pair);
}

/* --- Nobody there ------------------------------------------------------------------------------------------ */

static void test_unreachable(void)
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
	/* A neighbour that nobody is: what is sent to it is lost. */
	if (system("ip neighbour replace 10.77.0.99 lladdr 02:00:00:00:00:99 dev far0 nud permanent") != 0)
		abort();
	events_forget(&pair);
	begin = clock_now();
	fabric_connect(pair.client.fabric, pair.client.domain, "rdma://10.77.0.99:7470", NULL, 0, NULL,
		       &pair.donor.conn);
	status = end_await(&pair, &pair.client);
	ok(status == -ETIMEDOUT && clock_now() - begin >= 290000000 && clock_now() - begin < 1000000000,
	   "a CM that never answers: %s after %.0f ms", strerror(-status), (double)(clock_now() - begin) / 1e6);
	fabric_disconnect(pair.donor.conn);
	ok(counts_same(before), "nothing is left of it");
	events_forget(&pair);
	snprintf(uri, sizeof uri, "rdma://%s:1", host);
	fabric_connect(pair.client.fabric, pair.client.domain, uri, NULL, 0, NULL, &pair.donor.conn);
	status = end_await(&pair, &pair.client);
	ok(status == -ECONNREFUSED, "a port that nobody listens on: %s", strerror(-status));
	fabric_disconnect(pair.donor.conn);
	ok(counts_same(before), "nothing is left of it");
	pair_close(&pair);
}

/* --- Nothing left ------------------------------------------------------------------------------------------ */

static void test_cycles(void)
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
	ok(good, "100 connections, ended by either side (%u)", cycle);
	ok(counts_same(before), "leave nothing");
	pair.donor.manual = true;
	for (unsigned i = 0; i < 50 && good; i++) {
		fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.client.conn);
		good &= pump_until(&pair, side_count(&pair.donor, FABRIC_CONNECT_REQUEST));
		fabric_reject(pair.donor.conn, "no", 2);
		good &= pump_until(&pair, side_ended(&pair.client) == -ECONNREFUSED);
		fabric_disconnect(pair.client.conn);
		events_forget(&pair);
	}
	ok(good, "50 that are rejected");
	ok(counts_same(before), "leave nothing");
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
	ok(counts_same(before), "20 given up half way leave nothing");
	pair_close(&pair);
	ok(resources("qp") + resources("cq") + resources("mr") + resources("cm_id") == 0,
	   "and nothing at all is left in the end");
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

/* A limit in the middle of what is to be registered. */
static void test_memlock(void)
{
	struct rlimit before, limit = {.rlim_cur = PAIR_MEMORY * 3 / 2, .rlim_max = RLIM_INFINITY};
	struct fabric_region *regions[100] = {NULL};
	struct counts counts;
	struct pair pair;
	uint8_t *memory = mmap(NULL, PAIR_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned made = 0;
	int status = 0;

	pair_open(&pair, NULL);
	ok(pair_connect(&pair), "a connection with memory registered");
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
	ok(made > 0 && made < 100 && status == -EPERM, "the limit on locked memory is reached after %u: %s", made,
	   strerror(-status));
	for (unsigned i = 0; i < made; i++)
		fabric_deregister(regions[i]);
	ok(counts_same(counts), "nothing is left of it");
	/* A connection whose own buffers cannot be registered. */
	limit.rlim_cur = 65536;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	events_forget(&pair);
	fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.donor.conn);
	status = end_await(&pair, &pair.client);
	ok(status == -EPERM, "a connection without memory for its messages: %s", strerror(-status));
	fabric_disconnect(pair.donor.conn);
	ok(counts_same(counts), "nothing is left of it");
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

/* @status is -1 until it has ended. */
static bool shell_ended(pid_t pid, int *status)
{
	return *status != -1 || waitpid(pid, status, WNOHANG) == pid;
}

/* A fabric of the same process and device whose thread sleeps and has nothing there but a channel. */
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

static void test_removal(void)
{
	struct idler idler = {.stop = false};
	char remove[96], add[128];
	struct pair pair;
	pid_t removal;
	int status = -1, ended;

	snprintf(remove, sizeof remove, "exec rdma link delete %s", device);
	snprintf(add, sizeof add, "exec rdma link add %s type %s netdev far0", device, iwarp ? "siw" : "rxe");
	pair_open(&idler.pair, NULL);
	ok(pair_connect(&idler.pair), "another fabric that had a connection");
	pair_disconnect(&idler.pair);
	pthread_create(&idler.thread, NULL, idler_run, &idler);
	pair_open(&pair, NULL);
	fill(pair.client.memory, PAIR_MEMORY, 5);
	ok(pair_connect(&pair), "writes under way");
	writes_post(&pair, FABRIC_WRITE);
	removal = shell(remove);
	ok(pump_until(&pair, side_ended(&pair.client) && side_ended(&pair.donor)),
	   "the device is removed: both ends end");
	/* The first of the two may tell the second before the device does. */
	ok((side_ended(&pair.client) == -ENODEV || side_ended(&pair.donor) == -ENODEV), "%s, %s",
	   strerror(-side_ended(&pair.client)), strerror(-side_ended(&pair.donor)));
	ok(side_count(&pair.client, FABRIC_DONE) == PAGES, "each write is answered");
	pump_for(&idler.pair, 0);
	ok(pump_until(&pair, ({
		   side_poll(&idler.pair.donor);
		   shell_ended(removal, &status);
	   })) &&
	       status == 0,
	   "the removal is not held up (status %d)", status);
	fabric_disconnect(pair.client.conn);
	fabric_disconnect(pair.donor.conn);
	events_forget(&pair);
	if (fabric_connect(pair.client.fabric, pair.client.domain, pair.uri, NULL, 0, NULL, &pair.client.conn) < 0)
		abort();
	ended = end_await(&pair, &pair.client);
	ok(ended < 0, "meanwhile nobody can be reached: %s", strerror(-ended));
	fabric_disconnect(pair.client.conn);
	events_forget(&pair);
	removal = shell(add);
	status = -1;
	ok(pump_until(&pair, shell_ended(removal, &status)) && status == 0, "a device of the same name");
	pump_for(&pair, 1000);
	ok(pair_connect(&pair), "is listened on again, at the same port");
	writes_post(&pair, FABRIC_WRITE);
	ok(pump_until(&pair, side_count(&pair.client, FABRIC_DONE) == PAGES) &&
	       memcmp(pair.client.memory, pair.donor.memory, PAGES * 65536) == 0,
	   "and used");
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
	lock_privilege_drop(); /* now: rdma_cm and uverbs take no commands from who has changed since opening them */
	pair_open(&pair, NULL);
	if (!pair_connect(&pair))
		abort();
	iwarp = peer_is_iwarp(pair.client.conn);
	device = strdup(verbs_conn_of(pair.client.conn)->channel->device->name);
	pair_close(&pair);
	if (!getenv("TAP_LOG"))
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	test_fence();
	test_deregister();
	test_depth();
	test_unreachable();
	test_cycles();
	test_removal();
	test_memlock();
	return tap_done();
}

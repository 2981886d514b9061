/*
 * bench_verbs: one-sided page reads and writes over the fabric, for a machine with an RDMA device. rdma.py runs it.
 *
 *     bench_verbs URI SECONDS READS     a donor at URI (rdma://10.77.0.1:0) in a forked process, a client in this one
 *
 * Prints one figure a line, "name value":
 *     read_us, read_p99_us, write_us, write_p99_us    latency with one operation at a time, for SECONDS each
 *     read32_pages_s, write32_pages_s                 rate with 32 in flight, for SECONDS each
 *     donor_cpu_ms    processor time of the donor's process for READS reads and as many writes, 32 in flight
 *     idle_cpu_ms     processor time of the donor's process in the same time without requests
 */
#include "common/clock.h"
#include "fabric/fabric.h"
#include "tests/bench/figures.h"
#include "tests/lib/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u
#define MEMORY (64ul << 20)
#define DEPTH 32u

/* --- The donor ---------------------------------------------------------------------------------------------- */

static _Noreturn void donor_run(const char *uri, int port_fd)
{
	struct fabric *fabric;
	struct fabric_domain *domain;
	struct fabric_region *region;
	struct fabric_listener *listener;
	struct fabric_event event;
	struct fabric_remote remote;
	uint16_t port;
	void *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	needed(memory != MAP_FAILED);
	needed(fabric_open(NULL, &fabric) == 0 && fabric_domain_open(&domain) == 0);
	needed(fabric_register(domain, memory, MEMORY, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &region) == 0);
	needed(fabric_listen(fabric, uri, &listener) == 0);
	port = fabric_listener_port(listener);
	needed(write(port_fd, &port, sizeof port) == sizeof port);
	for (;;) {
		if (!fabric_wait(fabric, &event, 1, -1))
			continue;
		if (event.kind == FABRIC_CONNECT_REQUEST)
			needed(fabric_accept(event.conn, domain, NULL) == 0);
		if (event.kind == FABRIC_ESTABLISHED) {
			remote = fabric_export(region, event.conn);
			needed(fabric_send(event.conn, &remote, sizeof remote) == 0);
		}
		if (event.kind == FABRIC_DISCONNECTED)
			exit(EXIT_SUCCESS);
	}
}

/* --- The client --------------------------------------------------------------------------------------------- */

struct client {
	struct fabric *fabric;
	struct fabric_conn *conn;
	struct fabric_domain *domain;
	struct fabric_region *region;
	char *memory; /* DEPTH pages */
	struct fabric_remote remote;
	uint64_t seed;
};

static void client_open(struct client *client, const char *uri)
{
	struct fabric_event event = {0};

	client->memory = mmap(NULL, DEPTH * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	needed(client->memory != MAP_FAILED);
	memset(client->memory, 0x5a, DEPTH * PAGE);
	needed(fabric_open(NULL, &client->fabric) == 0 && fabric_domain_open(&client->domain) == 0);
	needed(fabric_register(client->domain, client->memory, DEPTH * PAGE, FABRIC_LOCAL, &client->region) == 0);
	needed(fabric_connect(client->fabric, client->domain, uri, NULL, 0, NULL, &client->conn) == 0);
	while (event.kind != FABRIC_MESSAGE) {
		needed(fabric_wait(client->fabric, &event, 1, 5000) == 1);
		needed(event.kind == FABRIC_ESTABLISHED || event.kind == FABRIC_MESSAGE);
	}
	memcpy(&client->remote, event.data, sizeof client->remote);
}

static struct fabric_op client_op(struct client *client, enum fabric_op_kind kind, unsigned slot)
{
	struct fabric_op op = {.kind = kind,
			       .length = PAGE,
			       .local = client->memory + slot * PAGE,
			       .region = client->region,
			       .remote = client->remote,
			       .cookie = slot};

	client->seed = client->seed * 6364136223846793005u + 1442695040888963407u;
	op.remote.address += (client->seed >> 33) % (MEMORY / PAGE) * PAGE;
	return op;
}

static struct samples samples;

/* Runs one operation at a time for @seconds, or until the samples are full. Keeps the latencies. */
static void client_latency(struct client *client, enum fabric_op_kind kind, double seconds)
{
	uint64_t until = clock_now() + (uint64_t)(seconds * 1e9), begin;
	struct fabric_event event;

	samples.count = 0;
	while ((begin = clock_now()) < until && samples.count < SAMPLES_MAX) {
		struct fabric_op op = client_op(client, kind, 0);

		needed(fabric_post(client->conn, &op, 1) == 1);
		needed(fabric_wait(client->fabric, &event, 1, 5000) == 1);
		needed(event.kind == FABRIC_DONE && event.status == 0);
		samples_add(&samples, clock_now() - begin);
	}
}

/* Keeps DEPTH operations in flight until @seconds are over or @most are done. Returns pages a second. */
static double client_throughput(struct client *client, enum fabric_op_kind kind, double seconds, unsigned most)
{
	uint64_t begin = clock_now(), until = begin + (uint64_t)(seconds * 1e9);
	struct fabric_event events[DEPTH];
	struct fabric_op ops[DEPTH];
	unsigned flying = DEPTH, done = 0, posted = DEPTH;

	for (unsigned i = 0; i < DEPTH; i++)
		ops[i] = client_op(client, kind, i);
	needed(fabric_post(client->conn, ops, DEPTH) == (int)DEPTH);
	while (flying) {
		int count = fabric_wait(client->fabric, events, DEPTH, 5000);
		bool more = posted < most && clock_now() < until;

		needed(count > 0);
		for (int i = 0; i < count; i++) {
			needed(events[i].kind == FABRIC_DONE && events[i].status == 0);
			ops[i] = client_op(client, kind, (unsigned)events[i].cookie);
		}
		done += (unsigned)count;
		flying -= (unsigned)count;
		if (more) {
			needed(fabric_post(client->conn, ops, (unsigned)count) == count);
			flying += (unsigned)count;
			posted += (unsigned)count;
		}
	}
	return done / ((double)(clock_now() - begin) / 1e9);
}

/* --- Figures ------------------------------------------------------------------------------------------------ */

static void latency_print(const char *name)
{
	samples_sort(&samples);
	printf("%s_us %.2f\n%s_p99_us %.2f\n", name, samples_quantile(&samples, 500), name,
	       samples_quantile(&samples, 990));
}

static double cpu_ms(pid_t pid)
{
	return (double)process_ticks(pid) * 1000 / (double)sysconf(_SC_CLK_TCK);
}

static void donor_cost_print(struct client *client, pid_t donor, unsigned operations)
{
	double before = cpu_ms(donor), after, took;
	uint64_t begin = clock_now();

	client_throughput(client, FABRIC_READ, 1e6, operations);
	client_throughput(client, FABRIC_WRITE, 1e6, operations);
	after = cpu_ms(donor);
	took = (double)(clock_now() - begin);
	printf("donor_cpu_ms %.0f\n", after - before);
	usleep((useconds_t)(took / 1e3));
	printf("idle_cpu_ms %.0f\n", cpu_ms(donor) - after);
}

int main(int argc, char **argv)
{
	struct client client = {.seed = 1};
	uint16_t port = 0;
	double seconds;
	char uri[128];
	int pipes[2];
	pid_t donor;

	if (argc != 4) {
		fprintf(stderr, "usage: bench_verbs URI SECONDS READS\n");
		return 2;
	}
	seconds = atof(argv[2]);
	needed(pipe(pipes) == 0);
	donor = fork();
	if (donor == 0)
		donor_run(argv[1], pipes[1]);
	needed(read(pipes[0], &port, sizeof port) == sizeof port);
	snprintf(uri, sizeof uri, "%.*s:%u", (int)(strrchr(argv[1], ':') - argv[1]), argv[1], port);
	client_open(&client, uri);
	client_latency(&client, FABRIC_READ, seconds);
	latency_print("read");
	client_latency(&client, FABRIC_WRITE, seconds);
	latency_print("write");
	printf("read32_pages_s %.0f\n", client_throughput(&client, FABRIC_READ, seconds, UINT32_MAX));
	printf("write32_pages_s %.0f\n", client_throughput(&client, FABRIC_WRITE, seconds, UINT32_MAX));
	fflush(stdout);
	donor_cost_print(&client, donor, (unsigned)atoi(argv[3]));
	fabric_disconnect(client.conn);
	waitpid(donor, NULL, 0);
	fabric_close(client.fabric);
	fabric_deregister(client.region);
	fabric_domain_close(client.domain);
	return 0;
}

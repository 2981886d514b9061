/*
 * bench_fabric: the cost of a 4 KiB read over the tcp fabric, compared with bare sockets.
 *
 * Each row is one run with donors in forked processes pinned on CPU 1 and the client pinned on CPU 0. The floor is
 * plain send() and recv() of as many bytes with both ends spinning, in the same run. Only ratios of one run are
 * meaningful.
 *
 *     bench_fabric [MILLISECONDS [TEXT]]    runs the floor, and rows with TEXT in the name, for MILLISECONDS each
 */
#include "common/clock.h"
#include "fabric/fabric.h"
#include "tests/bench/figures.h"
#include "tests/lib/loopback.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u
#define MEMORY (64ul << 20)
#define FLOOR_REQUEST 24u
#define DEPTH_MAX 64u
static struct samples samples;       /* the samples of one row */
static unsigned milliseconds = 1000; /* duration of each row */
static const char *only = "";        /* runs only rows with this text in the name */

static void *pages_map(void)
{
	void *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	needed(memory != MAP_FAILED);
	return memory;
}

/* Forks a process that dies with this one, on CPU @cpu. */
static pid_t spawn(int cpu)
{
	pid_t child = fork();

	needed(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(0, cpu);
	}
	return child;
}

static void reap(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* --- The floor: bare sockets -------------------------------------------------------------------------------- */

static void receive_spinning(int fd, char *bytes, size_t size)
{
	for (size_t had = 0; had < size;) {
		ssize_t received = recv(fd, bytes + had, size - had, MSG_DONTWAIT);

		if (received == 0)
			exit(EXIT_SUCCESS);
		needed(received > 0 || errno == EAGAIN);
		if (received > 0)
			had += (size_t)received;
	}
}

static void floor_serve(int listener)
{
	const int one = 1;
	char *memory = pages_map(), request[FLOOR_REQUEST];
	int fd = accept(listener, NULL, NULL);

	needed(fd >= 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	for (;;) {
		uint64_t page;

		receive_spinning(fd, request, sizeof request);
		memcpy(&page, request, sizeof page);
		needed(send(fd, memory + page * PAGE, PAGE, MSG_NOSIGNAL) == PAGE);
	}
}

static void floor_run(void)
{
	const int one = 1;
	char request[FLOOR_REQUEST] = {0}, answer[PAGE];
	uint16_t port;
	int listener = loopback_listen(&port), fd;
	pid_t donor = spawn(1);
	uint64_t now, end;

	if (donor == 0)
		floor_serve(listener);
	fd = loopback_connect(port);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	now = clock_now();
	end = now + milliseconds * 1000000ull;
	while (now < end) {
		uint64_t before = now, page = (uint64_t)rand() % (MEMORY / PAGE);

		memcpy(request, &page, sizeof page);
		needed(send(fd, request, sizeof request, MSG_NOSIGNAL) == (ssize_t)sizeof request);
		receive_spinning(fd, answer, sizeof answer);
		now = clock_now();
		samples_add(&samples, now - before);
	}
	close(fd);
	close(listener);
	reap(donor);
}

/* --- The fabric --------------------------------------------------------------------------------------------- */

struct donor {
	pid_t pid;
	int ready[2];
	uint16_t port;
	struct fabric_remote remote;
	struct fabric_conn *conn;
};

static void donor_serve(struct donor *donor, const struct fabric_config *config)
{
	struct fabric *fabric;
	struct fabric_domain *domain;
	struct fabric_region *region;
	struct fabric_listener *listener;
	struct fabric_event event;
	void *memory = pages_map();

	needed(fabric_open(config, &fabric) == 0 && fabric_domain_open(&domain) == 0);
	needed(fabric_register(domain, memory, MEMORY, FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &region) == 0);
	needed(fabric_listen(fabric, "tcp://127.0.0.1:0", &listener) == 0);
	donor->port = fabric_listener_port(listener);
	needed(write(donor->ready[1], &donor->port, sizeof donor->port) == sizeof donor->port);
	for (;;) {
		if (fabric_wait(fabric, &event, 1, -1) < 1)
			continue;
		if (event.kind == FABRIC_CONNECT_REQUEST) {
			needed(fabric_accept(event.conn, domain, NULL) == 0);
		} else if (event.kind == FABRIC_ESTABLISHED) {
			struct fabric_remote remote = fabric_export(region, event.conn);

			needed(fabric_send(event.conn, &remote, sizeof remote) == 0);
		}
	}
}

static void donor_start(struct donor *donor, int cpu, const struct fabric_config *config)
{
	needed(pipe(donor->ready) == 0);
	donor->pid = spawn(cpu);
	if (donor->pid == 0)
		donor_serve(donor, config);
	needed(read(donor->ready[0], &donor->port, sizeof donor->port) == sizeof donor->port);
	close(donor->ready[0]);
	close(donor->ready[1]);
}

struct client {
	struct fabric *fabric;
	struct fabric_domain *domain;
	struct fabric_region *region;
	char *memory;
	struct donor donors[2];
	unsigned donor_count;
};

static void client_start(struct client *client, unsigned donors, int donor_cpu, const struct fabric_config *config)
{
	struct fabric_event event;
	char uri[64];

	client->donor_count = donors;
	for (unsigned i = 0; i < donors; i++)
		donor_start(&client->donors[i], donor_cpu, config);
	needed(fabric_open(config, &client->fabric) == 0 && fabric_domain_open(&client->domain) == 0);
	client->memory =
	    mmap(NULL, DEPTH_MAX * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	needed(client->memory != MAP_FAILED);
	needed(fabric_register(client->domain, client->memory, DEPTH_MAX * PAGE, FABRIC_LOCAL, &client->region) == 0);
	for (unsigned i = 0; i < donors; i++) {
		snprintf(uri, sizeof uri, "tcp://127.0.0.1:%u", client->donors[i].port);
		needed(fabric_connect(client->fabric, client->domain, uri, NULL, 0, &client->donors[i],
				      &client->donors[i].conn) == 0);
	}
	for (unsigned had = 0; had < donors;) {
		needed(fabric_wait(client->fabric, &event, 1, 5000) == 1 && event.kind != FABRIC_DISCONNECTED);
		if (event.kind == FABRIC_MESSAGE) {
			memcpy(&((struct donor *)event.user)->remote, event.data, sizeof(struct fabric_remote));
			had++;
		}
	}
}

static void client_stop(struct client *client)
{
	fabric_deregister(client->region);
	fabric_close(client->fabric);
	fabric_domain_close(client->domain);
	munmap(client->memory, DEPTH_MAX * PAGE);
	for (unsigned i = 0; i < client->donor_count; i++)
		reap(client->donors[i].pid);
}

static struct fabric_op op_random(const struct client *client, const struct donor *donor, enum fabric_op_kind kind,
				  unsigned slot)
{
	struct fabric_op op = {
	    .kind = kind, .length = PAGE, .region = client->region, .remote = donor->remote, .cookie = slot};

	op.local = client->memory + slot * PAGE;
	op.remote.address += (uint64_t)rand() % (MEMORY / PAGE) * PAGE;
	return op;
}

/* Runs one operation at a time, on the donors in turn. */
static void latency_run(struct client *client, enum fabric_op_kind kind)
{
	uint64_t now = clock_now(), end = now + milliseconds * 1000000ull;
	unsigned turn = 0;

	while (now < end) {
		struct donor *donor = &client->donors[turn++ % client->donor_count];
		struct fabric_op op = op_random(client, donor, kind, 0);
		struct fabric_event event;

		needed(fabric_post(donor->conn, &op, 1) == 1);
		needed(fabric_wait(client->fabric, &event, 1, 5000) == 1 && event.kind == FABRIC_DONE &&
		       event.status == 0);
		samples_add(&samples, clock_now() - now);
		now = clock_now();
	}
}

/* Returns the processor time that this process has used, user and system. */
static double cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Keeps @depth operations in flight. One post replaces all answered operations. Returns operations a second. */
static double throughput_run(struct client *client, enum fabric_op_kind kind, unsigned depth, double *ret_cpu_us)
{
	struct fabric_event events[DEPTH_MAX];
	struct fabric_op ops[DEPTH_MAX];
	uint64_t begin = clock_now(), now = begin, end = now + milliseconds * 1000000ull, done = 0;
	double cpu = cpu_us();
	unsigned flight = 0, slots[DEPTH_MAX], free_count = depth;

	for (unsigned i = 0; i < depth; i++)
		slots[i] = i;
	while (now < end || flight) {
		unsigned count = now < end ? free_count : 0;
		int got;

		for (unsigned i = 0; i < count; i++)
			ops[i] = op_random(client, &client->donors[0], kind, slots[--free_count]);
		needed(fabric_post(client->donors[0].conn, ops, count) == (int)count);
		flight += count;
		got = fabric_wait(client->fabric, events, DEPTH_MAX, 5000);
		needed(got > 0);
		for (int i = 0; i < got; i++) {
			needed(events[i].kind == FABRIC_DONE && events[i].status == 0);
			slots[free_count++] = (unsigned)events[i].cookie;
		}
		flight -= (unsigned)got;
		done += (unsigned)got;
		now = clock_now();
	}
	*ret_cpu_us = (cpu_us() - cpu) / (double)done;
	return (double)done * 1e9 / (double)(now - begin);
}

/* --- The table ---------------------------------------------------------------------------------------------- */

static double floor_p50;

static void latency_print(const char *name)
{
	double p50, p99, mean = 0;

	samples_sort(&samples);
	p50 = samples_quantile(&samples, 500);
	p99 = samples_quantile(&samples, 990);
	for (unsigned i = 0; i < samples.count; i++)
		mean += samples.ns[i] / 1000.0 / samples.count;
	samples.count = 0;
	if (floor_p50 == 0)
		floor_p50 = p50;
	printf("%-52s %8.2f %8.2f %8.2f %7.2f\n", name, p50, p99, mean, p50 / floor_p50);
}

static void latency_row(const char *name, enum fabric_op_kind kind, unsigned donors, int donor_cpu, unsigned spin_us)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct client client = {0};

	if (!strstr(name, only))
		return;
	config.spin_us = spin_us;
	client_start(&client, donors, donor_cpu, &config);
	latency_run(&client, kind);
	client_stop(&client);
	latency_print(name);
}

/* Measures a row beside a program that computes all the time on @hog_cpu. */
static void crowded_row(const char *name, int hog_cpu)
{
	pid_t hog;

	if (!strstr(name, only))
		return;
	hog = spawn(hog_cpu);
	if (hog == 0)
		for (;;)
			__asm__ volatile("" ::: "memory");
	latency_row(name, FABRIC_READ, 1, 1, 50);
	reap(hog);
}

static void throughput_row(const char *name, enum fabric_op_kind kind, unsigned depth, unsigned spin_us)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	struct client client = {0};
	double rate, cpu;

	if (!strstr(name, only))
		return;
	config.spin_us = spin_us;
	client_start(&client, 1, 1, &config);
	rate = throughput_run(&client, kind, depth, &cpu);
	client_stop(&client);
	printf("%-52s %8.0f k/s, %.2f us each, %.2f of the client's CPU\n", name, rate / 1e3, 1e6 / rate, cpu);
}

int main(int argc, char **argv)
{
	milliseconds = argument_number(argc, argv, 1, milliseconds);
	if (argc > 2)
		only = argv[2];
	pin(0, 0);
	printf("%-52s %8s %8s %8s %7s\n", "4 KiB over loopback", "p50 us", "p99 us", "mean us", "ratio");
	floor_run();
	latency_print("bare sockets, both spin (the floor)");
	latency_row("fabric read, both spin", FABRIC_READ, 1, 1, 50);
	latency_row("fabric write, both spin", FABRIC_WRITE, 1, 1, 50);
	latency_row("fabric read, two donors on one CPU, in turn", FABRIC_READ, 2, 1, 50);
	latency_row("fabric read, two donors on the client's CPU, in turn", FABRIC_READ, 2, 0, 50);
	latency_row("fabric read, both sleep", FABRIC_READ, 1, 1, 0);
	crowded_row("fabric read, a busy program on the client's CPU", 0);
	crowded_row("fabric read, a busy program on the donor's CPU", 1);
	throughput_row("fabric read, depth 32, both spin", FABRIC_READ, 32, 50);
	throughput_row("fabric read, depth 64, both spin", FABRIC_READ, 64, 50);
	throughput_row("fabric write, depth 64, both spin", FABRIC_WRITE, 64, 50);
	throughput_row("fabric read, depth 64, both sleep", FABRIC_READ, 64, 0);
	return EXIT_SUCCESS;
}

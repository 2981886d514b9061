/*
 * Thousands of strangers: a process without a key connects as fast as it can, at the lowest priority. A client with a
 * session is not disturbed, a new client gets in, and the log stays short. A client from another host gets in at its
 * first try.
 */
#include "common/clock.h"
#include "fabric/tcp/tcp_frame.h"
#include "tests/func/memserver/client.h"
#include "tests/lib/loopback.h"
#include "tests/lib/text.h"
#include "tests/lib/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT 600 /* connections that a flooder keeps open */
#define FLOOD 5000
/* The most lines that the donor may log in the minutes that this test takes. */
#define LINES_MAX 500

static struct donor_process donor;
static _Atomic unsigned long *flooded; /* connections that the flooder has made */

struct flood {
	const char *what, *from; /* the flooder's address */
	bool hello, garbage;
};

/* Returns the first bytes of a client of the TCP fabric. */
static struct tcp_greeting greeting_with(const struct wire_hello *hello)
{
	struct tcp_greeting greeting = {.magic = TCP_MAGIC,
					.version = TCP_VERSION,
					.kind = TCP_CONNECT,
					.private_size = WIRE_HELLO_SIZE,
					.depth = 64};

	wire_encode_hello(hello, greeting.private_data);
	return tcp_greeting_swap(greeting);
}

/* Starts one connection, and sends what @flood asks for, without waiting. Returns its descriptor, or -1. */
static int flood_connect(const struct flood *flood, uint16_t port, unsigned long number)
{
	static const char garbage[] = "GET / HTTP/1.0\r\n\r\n";
	struct sockaddr_in to = loopback(port), from = {.sin_family = AF_INET};
	struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_SESSION};
	const struct linger reset = {.l_onoff = 1};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct tcp_greeting greeting;

	inet_pton(AF_INET, flood->from, &from.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset); /* close() then frees the port at once */
	if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof from) < 0 ||
	    (connect(fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS)) {
		close(fd);
		return -1;
	}
	memcpy(hello.id, &number, sizeof number);
	greeting = greeting_with(&hello);
	if (flood->hello)
		send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL);
	else if (flood->garbage)
		send(fd, garbage, sizeof garbage - 1, MSG_NOSIGNAL);
	return fd;
}

static void flood_run(const struct flood *flood, uint16_t port)
{
	static int kept[KEPT];

	memset(kept, -1, sizeof kept);
	for (unsigned long i = 0;; i++) {
		int *slot = &kept[i % KEPT];

		if (*slot >= 0)
			close(*slot);
		*slot = flood_connect(flood, port, i);
		*flooded += *slot >= 0;
	}
}

static pid_t flood_begin(const struct flood *flood, uint16_t port)
{
	pid_t parent = getpid(), pid;

	*flooded = 0;
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpriority(PRIO_PROCESS, 0, 19);
	if (getppid() == parent)
		flood_run(flood, port);
	_exit(0);
}

static void flood_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The client uses its page until the flooder has made @until connections. Returns false if it could not. */
static bool carries_on(struct client *client, const struct wire_message *granted, unsigned long until)
{
	uint64_t end = clock_now() + UINT64_C(1000000) * WAIT_MS;
	unsigned long round = 0;

	do {
		memset(client->buffer, (int)(++round % 251), 4096);
		if (client_put(client, granted, 4096))
			return false;
		memset(client->buffer, 255, 4096);
		if (client_get(client, granted, 4096) || client->buffer[17] != (char)(round % 251))
			return false;
	} while (*flooded < until && clock_now() < end);
	return *flooded >= until && client->session && !client->session_end;
}

/* A new client tries until it gets in, at most WAIT_MS. Returns true if it gets in. *ret_refusals: how often it is
   refused before. */
static bool new_client_comes(unsigned *ret_refusals)
{
	uint64_t end = clock_now() + UINT64_C(1000000) * WAIT_MS;
	int status;

	for (*ret_refusals = 0;; ++*ret_refusals) {
		struct client client;

		client_init(&client, donor.uri, NULL, "newcomer");
		status = client_come(&client);
		client_close(&client);
		if (!status || clock_now() > end)
			return !status;
	}
}

static void a_flood_keeps_no_client_out(const struct flood *flood)
{
	struct wire_message granted, claimed;
	struct client client;
	unsigned refusals = 0;
	pid_t flooder;

	if (!ok(!client_enter(&client, &donor, NULL, "resident") && !client_attach(&client, 0) &&
		    !client_lease(&client, &granted),
		"%s: a client leases a slab before the flood", flood->what))
		return;
	flooder = flood_begin(flood, donor.port);
	ok(carries_on(&client, &granted, FLOOD), "%s: the client goes on and keeps its session", flood->what);
	ok(new_client_comes(&refusals), "%s: a new client gets in, after %u refusals", flood->what, refusals);
	if (strcmp(flood->from, "127.0.0.1"))
		ok(refusals == 0, "%s: a new client gets in at its first try", flood->what);
	fabric_disconnect(client.session);
	client.session = NULL;
	/* Until its greeting is read, it is one of the strangers of this host. */
	for (refusals = 0; client_come(&client) && refusals < 3;)
		refusals++;
	ok(refusals <= 2 && !client_claim(&client, granted.granted.slab, &claimed),
	   "%s: a known client comes back to its slab, after %u refusals", flood->what, refusals);
	flood_end(flooder);
	client_leave(&client);
}

/* Connects with an unknown version, and waits until the donor hangs up. */
static void refused_connect(void)
{
	const struct wire_hello hello = {.version = WIRE_VERSION + 1, .role = WIRE_SESSION};
	const struct tcp_greeting greeting = greeting_with(&hello);
	int fd = loopback_connect(donor.port);
	char bytes[128];

	if (send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) > 0)
		while (recv(fd, bytes, sizeof bytes, 0) > 0)
			;
	close(fd);
}

static void refused_connections_are_counted_not_listed(void)
{
	donor_start_at(&donor, "tcp://127.0.0.1:0", "--donate", "4M", "--slab", "1M");
	for (int i = 0; i < 200; i++)
		refused_connect();
	donor_end(&donor);
	ok(text_times(donor.log, ": refused tcp://") <= 120,
	   "the log has at most 120 lines about 200 refused connections (%u)",
	   text_times(donor.log, ": refused tcp://"));
	ok(strstr(donor.log, "refused 200 connections since the start"),
	   "the log has the total of refused connections");
}

int main(void)
{
	static const struct flood floods[] = {
	    {"hellos from another address", "127.0.0.66", true, false},
	    {"hellos from the same address", "127.0.0.1", true, false},
	    {"silence from the same address", "127.0.0.1", false, false},
	    {"garbage from the same address", "127.0.0.1", false, true},
	};

	flooded = mmap(NULL, sizeof *flooded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (flooded == MAP_FAILED)
		tap_bail("no shared memory");
	/* Heartbeats are far apart, because the client is silent while a new client comes. */
	donor_start_at(&donor, "tcp://127.0.0.1:0", "--donate", "4M", "--slab", "1M", "--heartbeat", "10000");
	for (unsigned i = 0; i < sizeof floods / sizeof *floods; i++)
		a_flood_keeps_no_client_out(&floods[i]);
	donor_end(&donor);
	ok(donor_log_lines(&donor) <= LINES_MAX, "the log of a flooded donor stays short (%u lines)",
	   donor_log_lines(&donor));
	refused_connections_are_counted_not_listed();
	munmap((void *)flooded, sizeof *flooded);
	return tap_done();
}

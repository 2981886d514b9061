/* The donor as a service: its readiness, its progress, its end, and its cost when idle. */
#include "common/clock.h"
#include "tests/func/memserver/client.h"
#include "tests/lib/text.h"
#include "tests/lib/wait.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SLAB (1u << 20)

static struct donor_process donor;

/* Appends a notification of the donor to @all, as a line. Returns false if there is none. */
static bool notice_take(int fd, char *all, size_t size, int flags)
{
	size_t length = strlen(all);
	ssize_t got = length + 2 < size ? recv(fd, all + length, size - 2 - length, flags) : -1;

	if (got >= 0)
		memcpy(all + length + got, "\n", 2);
	return got >= 0;
}

/* Takes notifications until @all has @text so many times. Returns false if a notification takes too long. */
static bool heard_times(int fd, char *all, size_t size, const char *text, unsigned times)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	while (text_times(all, text) < times)
		if (poll(&poll_fd, 1, WAIT_MS) != 1 || !notice_take(fd, all, size, 0))
			return false;
	return true;
}

static bool heard(int fd, char *all, size_t size, const char *text)
{
	return heard_times(fd, all, size, text, 1);
}

/* Makes a service manager's socket, and writes its name for NOTIFY_SOCKET. Returns the socket, or -1. */
static int manager_open(char ret_name[64])
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), length;

	snprintf(ret_name, 64, "@farpage-test-%d", (int)getpid());
	length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", ret_name + 1);
	if (bind(fd, (struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* No RDMA device has the loopback address. */
static void auto_falls_back_to_tcp(void)
{

	donor_spawn(&donor, "--donate", "4M", "--slab", "1M", "--listen", "auto://127.0.0.1:0");
	ok(donor_log_wait(&donor, "over TCP only: no RDMA device at that address"),
	   "a donor at auto:// without an RDMA device logs that it is TCP only");
	ok(donor_log_wait(&donor, "listening on loopback only"), "a donor at auto:// without an RDMA device listens");
	ok(donor_stop(&donor, SIGTERM) == 0 &&
	       strstr(donor.output, "listening on tcp://127.0.0.1:") == strstr(donor.output, "listening on"),
	   "a donor at auto:// without an RDMA device prints only a tcp:// address");
}

static void the_service_manager_is_notified(void)
{
	const uint64_t since = clock_now();
	static char all[1 << 14];
	char name[64];
	struct wire_message grant;
	struct client client;
	int fd = manager_open(name);

	if (fd < 0) {
		tap_skip("a donor under a service manager notifies it", "no abstract socket here");
		return;
	}
	setenv("NOTIFY_SOCKET", name, 1);
	/* Heartbeats are far apart, because the client is silent while the test reads the notifications. */
	donor_start(&donor, "--donate", "4M", "--slab", "1M", "--heartbeat", "10000");
	unsetenv("NOTIFY_SOCKET");
	ok(heard(fd, all, sizeof all, "READY=1"), "the service manager gets READY=1");
	ok(heard(fd, all, sizeof all, "STATUS=lending 0 of 4 slabs (0 of 4M) to 0 clients"),
	   "the service manager gets the donor's state");
	ok(client_enter(&client, &donor, NULL, "client") == 0 && client_lease(&client, &grant) == 0 &&
	       client_lease(&client, &grant) == 0 && client_lease(&client, &grant) == 0,
	   "a client leases three slabs of a donor under a service manager");
	ok(heard(fd, all, sizeof all, "STATUS=lending 3 of 4 slabs (3M of 4M) to 1 client\n"),
	   "the service manager gets the state with three leased slabs");
	ok(text_times(all, "STATUS=") <= 1 + (clock_now() - since) / UINT64_C(1000000000),
	   "the service manager gets at most one state a second: %u times", text_times(all, "STATUS="));
	kill(donor.pid, SIGTERM);
	ok(heard(fd, all, sizeof all, "STOPPING=1"), "the service manager gets STOPPING=1 after SIGTERM");
	ok(donor_wait(&donor) == 0, "a donor under a service manager ends with 0 after SIGTERM");
	ok(!strstr(all, "WATCHDOG"), "a service manager without a watchdog gets no WATCHDOG=1");
	client_close(&client);
	close(fd);
}

static void the_service_managers_watchdog_hears_of_progress(void)
{
	static char all[1 << 14], others[1 << 14];
	char name[64];
	int fd = manager_open(name);

	if (fd < 0) {
		tap_skip("a donor under a watchdog says WATCHDOG=1", "no abstract socket here");
		return;
	}
	donor_start(&donor, "--donate", "4M", "--slab", "1M"); /* for its port, which an upgrade keeps */
	donor_end(&donor);
	setenv("NOTIFY_SOCKET", name, 1);
	setenv("WATCHDOG_USEC", "100000", 1);
	donor_again(&donor);
	ok(heard_times(fd, all, sizeof all, "WATCHDOG=1\n", 5), "a donor without clients says WATCHDOG=1 repeatedly");
	ok(strstr(all, "READY=1\n") && strstr(all, "READY=1\n") < strstr(all, "WATCHDOG=1\n"),
	   "READY=1 comes before the first WATCHDOG=1");
	donor.log[0] = '\0';
	kill(donor.pid, SIGUSR2);
	ok(donor_log_wait(&donor, "took over 0 slabs of 0 clients"), "a donor under a watchdog is upgraded");
	ok(heard_times(fd, all, sizeof all, "READY=1\n", 2) &&
	       heard_times(fd, all, sizeof all, "WATCHDOG=1\n", text_times(all, "WATCHDOG=1\n") + 5),
	   "the next program says WATCHDOG=1 repeatedly");
	donor_end(&donor);
	setenv("WATCHDOG_PID", "1", 1);
	donor_again(&donor);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	ok(heard(fd, all, sizeof all, "STOPPING=1\n"), "a donor under a watchdog says STOPPING=1");
	donor_end(&donor);
	while (notice_take(fd, others, sizeof others, MSG_DONTWAIT))
		;
	ok(strstr(others, "READY=1\n") && !strstr(others, "WATCHDOG"),
	   "a donor says no WATCHDOG=1 in its life if the watchdog is another process's");
	close(fd);
}

static void a_signal_ends_the_donor_and_its_sessions(int signal)
{
	struct wire_message grant;
	struct client one, two;

	donor_start(&donor, "--donate", "4M", "--slab", "1M");
	client_init(&one, donor.uri, NULL, "one");
	client_init(&two, donor.uri, NULL, "two");
	ok(client_come(&one) == 0 && client_lease(&one, &grant) == 0 && client_lease(&one, &grant) == 0 &&
	       client_come(&two) == 0 && client_lease(&two, &grant) == 0,
	   "two clients lease three slabs before the donor ends");
	ok(donor_stop(&donor, signal) == 0, "a donor with leases ends with 0 after a signal (%s)", strsignal(signal));
	ok(strstr(donor.log, "3 slabs (3M) are leased by 2 clients"),
	   "a donor that ends logs how many slabs are still leased");
	ok(strstr(donor.log, "still leases 2 slabs (2M)") && strstr(donor.log, "still leases 1 slab (1M)"),
	   "a donor that ends logs how many slabs each client still leases");
	ok(client_wait_end(&one, one.session) && client_wait_end(&two, two.session),
	   "the sessions of both clients end with the donor");
	client_close(&one);
	client_close(&two);
}

/* Returns how often the serving thread has slept and been woken. */
static unsigned long wakeups(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	return (unsigned long)text_number(path, "voluntary_ctxt_switches:");
}

/*
 * Returns the time in us that the serving thread has run. Its other threads do not count, because one of them belongs
 * to ThreadSanitizer and is never idle.
 */
static unsigned long run_time(pid_t pid)
{
	char path[64];
	unsigned long long ns = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/schedstat", (int)pid);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%llu", &ns) != 1)
		tap_bail("cannot read %s", path);
	fclose(file);
	return (unsigned long)(ns / 1000);
}

static unsigned long least(unsigned long a, unsigned long b)
{
	return a < b ? a : b;
}

/*
 * Measures the process for two seconds. Both figures are twice those of the better second: a donor that has just begun
 * to listen has not slept yet, and time that a hypervisor takes from a running process counts as the process's time.
 */
static void watch(pid_t pid, unsigned long *ret_us, unsigned long *ret_wakeups)
{
	*ret_us = *ret_wakeups = ULONG_MAX / 2;
	for (unsigned half = 0; half < 2; half++) {
		unsigned long us = run_time(pid), woken = wakeups(pid);

		poll(NULL, 0, 1000);
		*ret_us = least(*ret_us, 2 * (run_time(pid) - us));
		*ret_wakeups = least(*ret_wakeups, 2 * (wakeups(pid) - woken));
	}
}

static void an_idle_donor_costs_next_to_nothing(void)
{
	unsigned long us, woken;
	struct wire_message grant;
	struct client client;

	donor_start(&donor, "--donate", "4M", "--slab", "1M");
	watch(donor.pid, &us, &woken);
	ok(us <= 2000 && woken <= 2, "a donor without clients uses no CPU (%lu us) and sleeps (%lu wakeups)", us,
	   woken);
	ok(client_enter(&client, &donor, NULL, "idle") == 0 && client_attach(&client, 0) == 0 &&
	       client_lease(&client, &grant) == 0,
	   "a client leases a slab and stays idle");
	ok(client_put(&client, &grant, 4096) == 0, "the client writes a page before it is idle");
	watch(donor.pid, &us, &woken);
	ok(us <= 20000 && woken <= 20, "a donor with an idle client uses little CPU (%lu us) and few wakeups (%lu)", us,
	   woken);
	client_close(&client);
	donor_end(&donor);
	ok(strstr(donor.log,
		  getenv("FARPAGE_TEST_URI") ? "no key, and --insecure" : "no key: listening on loopback only"),
	   "a donor without a key logs where it listens");
}

static void a_donor_listens_at_two_addresses(void)
{
	donor_start(&donor, "--listen", "tcp://127.0.0.2:0", "--donate", "4M", "--slab", "1M");
	ok(client_visit(&donor, NULL, "client") == 0, "a client opens a session at the first of two addresses");
	donor_end(&donor);
	ok(strstr(donor.output, "\nfarpage-memserver: listening on tcp://127.0.0.2:"),
	   "the donor prints a line for the second address");
}

int main(void)
{
	the_service_manager_is_notified();
	the_service_managers_watchdog_hears_of_progress();
	auto_falls_back_to_tcp();
	a_signal_ends_the_donor_and_its_sessions(SIGTERM);
	a_signal_ends_the_donor_and_its_sessions(SIGINT);
	an_idle_donor_costs_next_to_nothing();
	a_donor_listens_at_two_addresses();
	return tap_done();
}

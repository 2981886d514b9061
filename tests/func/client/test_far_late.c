/*
 * A store whose queues connect to a donor at its first use, as with more than 64 donors. Requests are right when a
 * donor is away for a while and when a donor is killed. While a store is opened, no more than 64 handshakes run at a
 * time.
 */
#include "tests/func/client/traffic.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MANY 80u
#define HANDSHAKES 64u
#define ACCEPT_MS 500

static struct traffic traffic;

/* --- Late connections ------------------------------------------------------------------------------------------- */

static void open_three(struct rig *rig, bool late)
{
	rig_donors(rig, 3, "32M");
	rig->config.replicas = 2;
	rig->config.connect_late = late;
	rig_open(rig);
}

/* Returns the number of open sockets of this process. */
static unsigned sockets(void)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned count = 0;

	while (folder && (entry = readdir(folder))) {
		char target[32] = "";

		if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) > 0)
			count += !strncmp(target, "socket:", 7);
	}
	if (folder)
		closedir(folder);
	return count;
}

/* Returns how many sockets a queue of the store has before its first request. */
static unsigned sockets_of_an_idle_queue(bool late)
{
	struct store_queue *queue;
	unsigned before, after;
	struct rig rig;

	open_three(&rig, late);
	before = sockets();
	if (store_queue_open(rig.store, &queue) < 0)
		tap_bail("no second queue");
	after = sockets();
	store_queue_close(queue);
	rig_close(&rig);
	return after - before;
}

static void queue_connects_at_first_use(void)
{
	const char *uri = getenv("FARPAGE_TEST_URI");

	if (uri && strncmp(uri, "tcp", 3)) {
		tap_skip("a queue connects at its first use", "RDMA has no socket for each connection");
		return;
	}
	ok(sockets_of_an_idle_queue(false) == 3, "a queue connects to three donors when it is opened");
	ok(sockets_of_an_idle_queue(true) == 0,
	   "a queue that connects late has no connection before its first request");
}

static void requests_survive_a_donor_away_and_a_donor_killed(void)
{
	struct store_stats stats;
	struct rig rig;

	open_three(&rig, true);
	traffic_begin(&traffic, &rig, 1);
	traffic_run(&traffic, 300);
	ok(traffic_good(&traffic), "late connections: all requests are right");
	log_begin();
	kill(rig.donors[0].pid, SIGSTOP);
	traffic_run(&traffic, 300);
	sleep_ms(RIG_TIMEOUT_MS / 2);
	kill(rig.donors[0].pid, SIGCONT);
	traffic_run(&traffic, 500);
	ok(traffic_good(&traffic), "a donor away for a while: all requests are right");
	donor_kill(&rig.donors[1]);
	traffic_run(&traffic, 500);
	ok(traffic_good(&traffic), "a donor killed: all requests are right");
	stats = rig_stats(&rig);
	ok(!stats.lost_pages && !stats.checksum_errors, "a donor killed: no page is lost, and none is damaged");
	log_show();
	store_discard(rig.store, 0, rig.store->pages);
	ok(rig_becomes(&rig, bytes_leased, 0), "a donor killed: all memory is released after a discard");
	rig_shut(&rig, false);
	donor_end(&rig.donors[0]);
	donor_end(&rig.donors[2]);
}

/* --- Handshakes ------------------------------------------------------------------------------------------------- */

struct opening {
	struct far_config config;
	int status;
};

static void *open_main(void *argument)
{
	struct opening *opening = argument;
	struct store *store;

	opening->status = far_open(&opening->config, &store);
	if (opening->status == 0)
		store_close(store);
	return NULL;
}

/* Accepts connections until none has come for a while. Returns how many have come. */
static unsigned accept_all(int listener, int fds[], unsigned max)
{
	struct pollfd polled = {.fd = listener, .events = POLLIN};
	unsigned count = 0;

	while (count < max && poll(&polled, 1, ACCEPT_MS) == 1) {
		fds[count] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		count += fds[count] >= 0;
	}
	return count;
}

/* The donors never answer, so each handshake lasts until this test ends its connection. */
static void handshakes_are_limited(void)
{
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = {.sin_family = AF_INET};
	struct opening opening = {.config = {.donor_count = MANY, .replicas = 1, .go_without = true}};
	static char texts[MANY][40];
	const char *uris[MANY];
	socklen_t length = sizeof address;
	unsigned first, second, third;
	int fds[MANY], more[11];
	pthread_t thread;

	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) < 0 || listen(listener, MANY) < 0)
		tap_bail("no listener");
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(texts[i], sizeof texts[i], "tcp://127.0.1.%u:%u", 1 + i, ntohs(address.sin_port));
		uris[i] = texts[i];
	}
	opening.config.donors = uris;
	opening.config.fabric = FABRIC_CONFIG_DEFAULT;
	opening.config.fabric.connect_ms = 30000;
	log_begin();
	pthread_create(&thread, NULL, open_main, &opening);
	first = accept_all(listener, fds, MANY);
	ok(first == HANDSHAKES, "%u of %u donors are called at once", first, MANY);
	for (unsigned i = 0; i < 10 && i < first; i++)
		close(fds[i]);
	second = accept_all(listener, more, 11);
	ok(second == 10, "when 10 handshakes have ended, %u further donors are called", second);
	for (unsigned i = 10; i < first; i++)
		close(fds[i]);
	for (unsigned i = 0; i < second; i++)
		close(more[i]);
	third = accept_all(listener, fds, MANY);
	ok(first + second + third == MANY, "each donor is called in the end");
	for (unsigned i = 0; i < third; i++)
		close(fds[i]);
	pthread_join(thread, NULL);
	ok(opening.status < 0, "a store without any donor is not opened: %s", strerror(-opening.status));
	close(listener);
}

int main(void)
{
	log_keep();
	queue_connects_at_first_use();
	requests_survive_a_donor_away_and_a_donor_killed();
	handshakes_are_limited();
	return tap_done();
}

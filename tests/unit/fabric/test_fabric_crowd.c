/* More connections arrive than the donor handles: it turns the host that makes them away, but no other host and no
   known peer. */
#include "common/descriptors.h"
#include "fabric/tcp/tcp_frame.h"
#include "tests/lib/loopback.h"
#include "tests/unit/fabric/pair.h"

#include <sys/resource.h>

#define QUEUE 4096 /* what the fabric asks the kernel for */
#define FLOOD (QUEUE / 2 + 200)
#define BEFORE 50 /* connections of the flood before the others'; the queue is then still more than half full */

static int flood[FLOOD];

/* Connects from @from, and sends a greeting with @text. Returns the socket. */
static int connect_from(const struct pair *pair, const char *from, const char *text)
{
	struct sockaddr_in to = loopback(fabric_listener_port(pair->donor.listener)), source = {.sin_family = AF_INET};
	struct tcp_greeting greeting = {.magic = TCP_MAGIC, .version = TCP_VERSION, .kind = TCP_CONNECT, .depth = 16};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	greeting.private_size = (uint8_t)strlen(text);
	memcpy(greeting.private_data, text, strlen(text));
	greeting = tcp_greeting_swap(greeting);
	inet_pton(AF_INET, from, &source.sin_addr);
	if (fd < 0 || bind(fd, (struct sockaddr *)&source, sizeof source) < 0 ||
	    connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ||
	    write(fd, &greeting, sizeof greeting) != sizeof greeting)
		abort();
	return fd;
}

static bool starts_with_known(void *user, const void *data, size_t size)
{
	++*(unsigned *)user;
	return size >= 5 && memcmp(data, "known", 5) == 0;
}

/* Returns how many connect requests had this private data. */
static unsigned requests(const struct pair *pair, const char *text)
{
	unsigned count = 0;

	for (unsigned i = 0; i < pair->donor.count; i++)
		count += pair->donor.seen[i].kind == FABRIC_CONNECT_REQUEST &&
			 pair->donor.seen[i].size == strlen(text) &&
			 memcmp(pair->donor.seen[i].data, text, strlen(text)) == 0;
	return count;
}

static unsigned flood_closed(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < FLOOD; i++)
		count += raw_closed(flood[i]);
	return count;
}

static void a_crowded_listener_turns_the_flooder_away(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;
	unsigned asked = 0, turned_away;
	int known, other, late;
	struct pair pair;

	config.known = starts_with_known;
	config.known_user = &asked;
	config.connect_ms = 60000; /* the test may take longer than the usual two seconds */
	pair_open(&pair, &config);
	for (unsigned i = 0; i < BEFORE; i++)
		flood[i] = connect_from(&pair, "127.0.0.66", "stranger");
	known = connect_from(&pair, "127.0.0.66", "known");
	other = connect_from(&pair, "127.0.0.7", "other host");
	for (unsigned i = BEFORE; i < FLOOD; i++)
		flood[i] = connect_from(&pair, "127.0.0.66", "stranger");
	pump_until(&pair, requests(&pair, "known") && requests(&pair, "other host"));
	ok(requests(&pair, "known"), "a known peer gets in from the host of the flood");
	ok(requests(&pair, "other host"), "a stranger gets in from another host");
	pump_until(&pair, requests(&pair, "stranger") + flood_closed() == FLOOD);
	turned_away = flood_closed();
	/* The queue holds FLOOD + 2 connections at first. The first ones are of a host that has made few. */
	ok(turned_away >= 100 && turned_away < FLOOD / 2 && asked >= turned_away,
	   "connections are turned away until the queue is half empty (%u of %u)", turned_away, FLOOD);
	late = connect_from(&pair, "127.0.0.66", "late");
	ok(pump_until(&pair, requests(&pair, "late")), "after the flood, a stranger gets in from the same host");
	close(known);
	close(other);
	close(late);
	for (unsigned i = 0; i < FLOOD; i++)
		close(flood[i]);
	pair_close(&pair);
}

static bool queue_is_long(void)
{
	FILE *file = fopen("/proc/sys/net/core/somaxconn", "re");
	unsigned most = 0;
	bool is = file && fscanf(file, "%u", &most) == 1 && most >= QUEUE;

	if (file)
		fclose(file);
	return is;
}

int main(void)
{
	struct rlimit limit;

	descriptors_raise();
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < 2 * FLOOD + 100 || !queue_is_long())
		tap_skip("a crowded listener turns the flooder away", "net.core.somaxconn or RLIMIT_NOFILE is too low");
	else
		a_crowded_listener_turns_the_flooder_away();
	return tap_done();
}

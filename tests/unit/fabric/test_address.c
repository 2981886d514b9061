/*
 * address: each name is looked up once, and waited for only the first time. All addresses of a name are tried. The test
 * has its own resolver.
 */
#include "fabric/address.h"
#include "tests/unit/fabric/pair.h"

#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static _Atomic unsigned asked;
static _Atomic bool answers, finds;

static struct addrinfo *found_make(uint32_t host, const char *service)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
	struct addrinfo *found = calloc(1, sizeof *found + sizeof address);

	address.sin_port = htons((uint16_t)atoi(service));
	found->ai_family = AF_INET;
	found->ai_addrlen = sizeof address;
	found->ai_addr = (struct sockaddr *)(found + 1);
	memcpy(found->ai_addr, &address, sizeof address);
	return found;
}

/* Replaces libc's function. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret_found)
{
	if (hints->ai_flags & AI_NUMERICHOST && strcmp(host, "127.0.0.1") != 0)
		return EAI_NONAME;
	if (!(hints->ai_flags & AI_NUMERICHOST)) {
		atomic_fetch_add(&asked, 1);
		while (!atomic_load(&answers))
			usleep(1000);
		if (!atomic_load(&finds))
			return EAI_AGAIN;
	}
	*ret_found = found_make(strcmp(host, "rails") == 0 ? INADDR_LOOPBACK + 1 : INADDR_LOOPBACK, service);
	if (strcmp(host, "rails") == 0)
		(*ret_found)->ai_next = found_make(INADDR_LOOPBACK, service);
	return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
	struct addrinfo *next;

	for (; found; found = next) {
		next = found->ai_next;
		free(found);
	}
}

static int resolve(const char *host, uint16_t port, uint64_t *ret_ms)
{
	struct sockaddr_storage addresses[ADDRESS_MAX];
	struct uri uri = {.port = port};
	uint64_t begin = clock_now();
	int count;

	strcpy(uri.host, host);
	count = address_resolve(&uri, false, addresses);
	*ret_ms = (clock_now() - begin) / MS;
	if (count > 0 && address_port(&addresses[0]) != port)
		return -EPROTO;
	return count;
}

/* Listens with a full queue. So a connect gets neither an answer nor a refusal. */
static int mute_listen(uint16_t port, int ret_clients[4])
{
	struct sockaddr_in address = {
	    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 0) < 0)
		abort();
	for (unsigned i = 0; i < 4; i++) {
		ret_clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (connect(ret_clients[i], (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS)
			abort();
	}
	return fd;
}

/* A name has two addresses, and the first one is silent. */
static void a_second_address_is_tried_when_the_first_is_silent(void)
{
	int mute, clients[4];
	struct pair pair;
	unsigned port;
	char uri[64];

	pair_open(&pair, NULL);
	port = fabric_listener_port(pair.donor.listener);
	mute = mute_listen((uint16_t)port, clients);
	snprintf(uri, sizeof uri, "tcp://rails:%u", port);
	ok(fabric_connect(pair.client.fabric, pair.client.domain, uri, NULL, 0, NULL, &pair.client.conn) == 0 &&
	       pump_until(&pair, side_ended(&pair.client) || side_count(&pair.client, FABRIC_ESTABLISHED)) &&
	       !side_ended(&pair.client),
	   "a donor's second address is tried when the first one is silent");
	for (unsigned i = 0; i < 4; i++)
		close(clients[i]);
	close(mute);
	pair_close(&pair);
}

int main(void)
{
	uint64_t ms;
	int count;

	ok(resolve("127.0.0.1", 7470, &ms) == 1 && !asked, "a numeric address needs no resolver");
	answers = finds = true;
	ok(resolve("donor1", 7470, &ms) == 1 && asked == 1, "a name is looked up");
	answers = false;
	ok(resolve("donor1", 7471, &ms) == 1 && asked == 1,
	   "a name that was found is not looked up again, for any port");
	count = resolve("donor2", 7470, &ms);
	ok(count == -ETIMEDOUT && asked == 2, "a lookup that is not answered is given up with -ETIMEDOUT (%llu ms)",
	   (unsigned long long)ms);
	count = resolve("donor2", 7470, &ms);
	ok(count == -ETIMEDOUT && asked == 2 && ms < 2500, "a second call does not wait for an unanswered lookup");
	finds = false;
	answers = true;
	for (unsigned i = 0; i < 1000 && count == -ETIMEDOUT; i++) {
		usleep(10000);
		count = resolve("donor2", 7470, &ms);
	}
	ok(count == -ENOENT, "a name that does not exist is refused with -ENOENT");
	finds = true;
	for (unsigned i = 0; i < 1000 && count != 1; i++) {
		usleep(10000);
		count = resolve("donor2", 7470, &ms);
	}
	ok(count == 1 && asked > 2, "a name that did not exist is looked up again until it is found");
	a_second_address_is_tried_when_the_first_is_silent();
	return tap_done();
}

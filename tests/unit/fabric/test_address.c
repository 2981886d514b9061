/* address: names are looked up once, and waited for the first time only. The resolver is ours. */
#include "common/clock.h"
#include "fabric/address.h"
#include "tests/tap.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static _Atomic unsigned asked;
static _Atomic bool answers, finds;

/* In libc's place. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret_found)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct addrinfo *found;

	if (hints->ai_flags & AI_NUMERICHOST && strcmp(host, "127.0.0.1") != 0)
		return EAI_NONAME;
	if (!(hints->ai_flags & AI_NUMERICHOST)) {
		atomic_fetch_add(&asked, 1);
		while (!atomic_load(&answers))
			usleep(1000);
		if (!atomic_load(&finds))
			return EAI_AGAIN;
	}
	address.sin_port = htons((uint16_t)atoi(service));
	found = calloc(1, sizeof *found + sizeof address);
	found->ai_family = AF_INET;
	found->ai_addrlen = sizeof address;
	found->ai_addr = (struct sockaddr *)(found + 1);
	memcpy(found->ai_addr, &address, sizeof address);
	*ret_found = found;
	return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
	free(found);
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

int main(void)
{
	uint64_t ms;
	int count;

	ok(resolve("127.0.0.1", 7470, &ms) == 1 && !asked, "an address needs no resolver");
	answers = finds = true;
	ok(resolve("donor1", 7470, &ms) == 1 && asked == 1, "a name is looked up");
	answers = false;
	ok(resolve("donor1", 7471, &ms) == 1 && asked == 1, "once, whatever the resolver does then, for any port");
	count = resolve("donor2", 7470, &ms);
	ok(count == -ETIMEDOUT && asked == 2, "one that is not answered is given up after a while (%llu ms)",
	   (unsigned long long)ms);
	count = resolve("donor2", 7470, &ms);
	ok(count == -ETIMEDOUT && asked == 2 && ms < 2500, "and not waited for again");
	finds = false;
	answers = true;
	for (unsigned i = 0; i < 1000 && count == -ETIMEDOUT; i++) {
		usleep(10000);
		count = resolve("donor2", 7470, &ms);
	}
	ok(count == -ENOENT, "that there is no such name is told");
	finds = true;
	for (unsigned i = 0; i < 1000 && count != 1; i++) {
		usleep(10000);
		count = resolve("donor2", 7470, &ms);
	}
	ok(count == 1 && asked > 2, "and it is asked for again, until there is");
	return tap_done();
}

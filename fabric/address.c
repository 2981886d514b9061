/* address: see address.h. */
#include "fabric/address.h"

#include "common/ascii.h"
#include "common/clock.h"
#include "common/format.h"
#include "common/thread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOKUP_STACK (512u << 10)
#define LOOKUP_PATIENCE_S 5

/* A host name and its lookup. Entries are never freed, because there are only about as many as donors. */
struct name {
	struct name *next;
	char host[URI_HOST_MAX];
	bool pending;
	int count; /* number of addresses, -errno, or 0 before the first lookup has ended */
	struct sockaddr_storage addresses[ADDRESS_MAX];
};

static struct {
	pthread_mutex_t lock;
	struct name *names;
} book = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Parses a numeric address, including "fe80::1%eth0", without the resolver. Threads that reconnect to donors must not
   call the resolver: it allocates memory, and it may read far memory (common/format.h). Returns 1 or -ENOENT. */
static int parse(const char *host, uint16_t port, struct sockaddr_storage *ret_address)
{
	struct sockaddr_in *four = (struct sockaddr_in *)ret_address;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret_address;
	char text[URI_HOST_MAX];
	size_t length = strcspn(host, "%");

	memset(ret_address, 0, sizeof *ret_address);
	four->sin_port = htons(port); /* IPv4 and IPv6 addresses have the port at the same offset */
	four->sin_family = AF_INET;
	if (inet_pton(AF_INET, host, &four->sin_addr) == 1)
		return 1;
	if (length >= sizeof text)
		return -ENOENT;
	memcpy(text, host, length);
	text[length] = '\0';
	six->sin6_family = AF_INET6;
	if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1)
		return -ENOENT;
	if (host[length]) {
		const char *zone = host + length + 1;

		six->sin6_scope_id = if_nametoindex(zone);
		if (!six->sin6_scope_id && ascii_is_digit(*zone))
			six->sin6_scope_id = (uint32_t)ascii_number(&zone);
		if (!six->sin6_scope_id)
			return -ENOENT;
	}
	return 1;
}

static int lookup(const char *host, uint16_t port, int flags, struct sockaddr_storage ret_addresses[ADDRESS_MAX])
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
	struct addrinfo *found, *at;
	unsigned count = 0;
	char service[8];

	format_text(service, sizeof service, "%u", port);
	switch (getaddrinfo(host, service, &hints, &found)) {
	case 0:
		break;
	case EAI_MEMORY:
		return -ENOMEM;
	default:
		return -ENOENT;
	}
	for (at = found; at && count < ADDRESS_MAX; at = at->ai_next)
		if (at->ai_family == AF_INET || at->ai_family == AF_INET6)
			memcpy(&ret_addresses[count++], at->ai_addr, at->ai_addrlen);
	freeaddrinfo(found);
	return count ? (int)count : -ENOENT;
}

static void *look_up_name(void *argument)
{
	struct name *name = argument;
	struct sockaddr_storage addresses[ADDRESS_MAX];
	int count = lookup(name->host, 0, 0, addresses);

	pthread_mutex_lock(&book.lock);
	if (count > 0)
		memcpy(name->addresses, addresses, sizeof addresses);
	name->count = count;
	name->pending = false;
	pthread_mutex_unlock(&book.lock);
	return NULL;
}

void address_after_fork(void)
{
	book.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	book.names = NULL;
}

/* The lock must be held. Returns the entry of @host, and adds a missing one. Returns NULL if there is no memory. */
static struct name *name_of(const char *host, bool *ret_new)
{
	struct name *name = book.names;

	while (name && strcmp(name->host, host) != 0)
		name = name->next;
	*ret_new = !name;
	if (name || !(name = calloc(1, sizeof *name)))
		return name;
	format_text(name->host, sizeof name->host, "%s", host);
	name->next = book.names;
	book.names = name;
	return name;
}

/* The lock must be held. Starts a thread that looks up the name. */
static void name_ask(struct name *name)
{
	pthread_t thread;

	name->pending = true;
	if (thread_start(&thread, "farpage-name", LOOKUP_STACK, look_up_name, name) == 0) {
		pthread_detach(thread);
		return;
	}
	name->pending = false;
	name->count = -ENOMEM;
}

/* The lock must be held. Waits at most LOOKUP_PATIENCE_S for the lookup. Polls every ms, which is good enough, because
   only the first call for a name waits. */
static void name_await(const struct name *name)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (unsigned ms = 0; name->pending && ms < LOOKUP_PATIENCE_S * 1000; ms++) {
		pthread_mutex_unlock(&book.lock);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&book.lock);
	}
}

static int name_resolve(const char *host, struct sockaddr_storage ret_addresses[ADDRESS_MAX])
{
	struct name *name;
	bool new;
	int count;

	pthread_mutex_lock(&book.lock);
	name = name_of(host, &new);
	if (name && name->count <= 0 && !name->pending)
		name_ask(name);
	if (new &&name)
		name_await(name);
	count = !name ? -ENOMEM : name->count ? name->count : -ETIMEDOUT;
	if (count > 0)
		memcpy(ret_addresses, name->addresses, sizeof name->addresses);
	pthread_mutex_unlock(&book.lock);
	return count;
}

static void address_set_port(struct sockaddr_storage *address, uint16_t port)
{
	((struct sockaddr_in *)address)->sin_port = htons(port);
}

int address_resolve(const struct uri *uri, bool passive, struct sockaddr_storage ret_addresses[ADDRESS_MAX])
{
	int count;

	if (passive)
		return lookup(uri->host, uri->port, AI_PASSIVE, ret_addresses);
	count = parse(uri->host, uri->port, ret_addresses);
	if (count != -ENOENT)
		return count;
	count = name_resolve(uri->host, ret_addresses);
	for (int i = 0; i < count; i++)
		address_set_port(&ret_addresses[i], uri->port);
	return count;
}

uint64_t address_deadline(uint64_t until, unsigned left)
{
	uint64_t now = clock_now();

	return now < until ? now + (until - now) / left : until;
}

socklen_t address_size(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

uint16_t address_port(const struct sockaddr_storage *address)
{
	return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

uint64_t address_origin(const struct sockaddr_storage *address)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
	uint64_t half;

	if (address->ss_family != AF_INET6)
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr);
	if (IN6_IS_ADDR_V4MAPPED(six))
		return ntohl(six->s6_addr32[3]);
	/* ::1 and link-local addresses have the same first half on all hosts. */
	memcpy(&half, IN6_IS_ADDR_LOOPBACK(six) || IN6_IS_ADDR_LINKLOCAL(six) ? &six->s6_addr[8] : &six->s6_addr[0],
	       sizeof half);
	return half;
}

void address_name(const char *scheme, const struct sockaddr_storage *address, char ret_name[BACKEND_PEER_MAX])
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
	char host[INET6_ADDRSTRLEN] = "?", zone[IF_NAMESIZE + 1] = "";

	if (address->ss_family != AF_INET6) {
		inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
		format_text(ret_name, BACKEND_PEER_MAX, "%s://%s:%u", scheme, host, address_port(address));
		return;
	}
	inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
	if (six->sin6_scope_id && if_indextoname(six->sin6_scope_id, zone + 1))
		zone[0] = '%';
	else if (six->sin6_scope_id)
		format_text(zone, sizeof zone, "%%%u", six->sin6_scope_id);
	format_text(ret_name, BACKEND_PEER_MAX, "%s://[%s%s]:%u", scheme, host, zone, address_port(address));
}

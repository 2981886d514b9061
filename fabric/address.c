/* address.h */
#include "fabric/address.h"
#include "common/clock.h"
#include "common/thread.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOKUP_STACK (512u << 10)
#define LOOKUP_PATIENCE_S 5

/* A host's name, and what was found of it. Kept for good: there are as many as donors. */
struct name {
	struct name *next;
	char host[URI_HOST_MAX];
	bool pending; /* a thread looks it up */
	int count;    /* addresses, or why there is none */
	struct sockaddr_storage addresses[ADDRESS_MAX];
};

static struct {
	pthread_mutex_t lock;
	struct name *names;
} book = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Asks the resolver. */
static int lookup(const char *host, uint16_t port, int flags, struct sockaddr_storage ret_addresses[ADDRESS_MAX])
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
	struct addrinfo *found, *at;
	unsigned count = 0;
	char service[8];

	snprintf(service, sizeof service, "%u", port);
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

/* The book's entry of a name, made if there is none; the lock is held. */
static struct name *name_of(const char *host, bool *ret_new)
{
	struct name *name = book.names;

	while (name && strcmp(name->host, host) != 0)
		name = name->next;
	*ret_new = !name;
	if (name || !(name = calloc(1, sizeof *name)))
		return name;
	snprintf(name->host, sizeof name->host, "%s", host);
	name->next = book.names;
	book.names = name;
	return name;
}

/* Has a thread ask for it. The lock is held. */
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

/* Until the thread has the answer, for so long at most; the lock is held. Once for each name, so that it need not be
   cheap. */
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
	/* See address_port(). */
	((struct sockaddr_in *)address)->sin_port = htons(port);
}

int address_resolve(const struct uri *uri, bool passive, struct sockaddr_storage ret_addresses[ADDRESS_MAX])
{
	int count;

	if (passive)
		return lookup(uri->host, uri->port, AI_PASSIVE, ret_addresses);
	count = lookup(uri->host, uri->port, AI_NUMERICHOST, ret_addresses);
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
	/* The port is at the same place in both families. */
	return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

void address_name(const char *scheme, const struct sockaddr_storage *address, char ret_name[BACKEND_PEER_MAX])
{
	char host[INET6_ADDRSTRLEN + 32] = "?", port[8] = "?";

	getnameinfo((const struct sockaddr *)address, sizeof *address, host, sizeof host, port, sizeof port,
		    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(ret_name, BACKEND_PEER_MAX, address->ss_family == AF_INET6 ? "%s://[%s]:%s" : "%s://%s:%s", scheme,
		 host, port);
}

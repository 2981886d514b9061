/* address.h */
#include "fabric/address.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

int address_resolve(const struct uri *uri, bool passive, struct sockaddr_storage ret_addresses[ADDRESS_MAX])
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
	struct addrinfo *found, *at;
	unsigned count = 0;
	char port[8];

	snprintf(port, sizeof port, "%u", uri->port);
	switch (getaddrinfo(uri->host, port, &hints, &found)) {
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

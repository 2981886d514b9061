/* address: from HOST:PORT to socket addresses, and back to what logs show. Only inside fabric/. */
#ifndef FABRIC_ADDRESS_H
#define FABRIC_ADDRESS_H

#include "fabric/backend.h"
#include <sys/socket.h>

/* Addresses of one name that are tried, one after the other. */
#define ADDRESS_MAX 8u

/*
 * Resolves @uri's host and port, to listen on (@passive) or to connect to; IPv4 and IPv6, in the resolver's order.
 * Returns how many were written (1 .. ADDRESS_MAX), or -ENOENT, -ENOMEM. May block in the resolver.
 */
int address_resolve(const struct uri *uri, bool passive, struct sockaddr_storage ret_addresses[ADDRESS_MAX]);
socklen_t address_size(const struct sockaddr_storage *address);
/* Host byte order. */
uint16_t address_port(const struct sockaddr_storage *address);

/* "tcp://10.0.0.7:40312", "rdma://[fe80::1%eth0]:7470" */
void address_name(const char *scheme, const struct sockaddr_storage *address, char ret_name[BACKEND_PEER_MAX]);

#endif

/* address: from HOST:PORT to socket addresses, and back to what logs show. Only inside fabric/. */
#ifndef FABRIC_ADDRESS_H
#define FABRIC_ADDRESS_H

#include "fabric/backend.h"
#include <sys/socket.h>

/* Addresses of one name that are tried, one after the other. */
#define ADDRESS_MAX 8u

/*
 * Resolves @uri's host and port, to listen on (@passive) or to connect to; IPv4 and IPv6, in the resolver's order.
 * Returns how many were written (1 .. ADDRESS_MAX), or -ENOENT, -ENOMEM, -ETIMEDOUT: there is no answer yet.
 *
 * To connect to: a name is looked up once in a process, by a thread of its own, and waited for the first time only, for
 * 5 s at most. For who connects anew may be the thread that keeps our leases on other donors alive, and the resolver
 * waits for seconds when the network is gone. What was found stays: a donor that has another address from now on is
 * found when the program is started anew. What was not found is asked for again by the next call, which does not wait.
 * To listen on: may block in the resolver.
 */
int address_resolve(const struct uri *uri, bool passive, struct sockaddr_storage ret_addresses[ADDRESS_MAX]);
socklen_t address_size(const struct sockaddr_storage *address);
/* Until when one address is tried if so many are @left, itself among them, and all of them until @until, ns. */
uint64_t address_deadline(uint64_t until, unsigned left);
/* Host byte order. */
uint16_t address_port(const struct sockaddr_storage *address);

/* The host, as a number: an IPv4 address, or the first half of an IPv6 one, as much as one host is usually given. */
uint64_t address_origin(const struct sockaddr_storage *address);

/* "tcp://10.0.0.7:40312", "rdma://[fe80::1%eth0]:7470" */
void address_name(const char *scheme, const struct sockaddr_storage *address, char ret_name[BACKEND_PEER_MAX]);

#endif

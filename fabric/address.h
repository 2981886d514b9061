/* address: resolves HOST:PORT to socket addresses, and formats addresses for logs. Only inside fabric/. */
#ifndef FABRIC_ADDRESS_H
#define FABRIC_ADDRESS_H

#include "fabric/backend.h"

#include <sys/socket.h>

/* The most addresses that one name resolves to. Further ones are ignored. */
#define ADDRESS_MAX 8u

/*
 * Resolves the host and port of @uri to IPv4 and IPv6 addresses, in the resolver's order. Returns their number (1 to
 * ADDRESS_MAX), -ENOENT, -ENOMEM, or -ETIMEDOUT if the resolver has not answered yet.
 *
 * If @passive is true, the caller listens on the addresses, and the call waits for the resolver.
 *
 * If @passive is false, the caller connects to the addresses. The resolver blocks for seconds when the network is down,
 * but the calling thread may have to send heartbeats to other donors. Therefore, a separate thread looks up each name:
 *
 * - The first call for a name waits for the lookup, at most 5 s.
 * - The addresses are then cached until the process ends. So if a donor's address changes, clients must be restarted.
 * - After a failed lookup, the next call starts another lookup and returns at once.
 */
int address_resolve(const struct uri *uri, bool passive, struct sockaddr_storage ret_addresses[ADDRESS_MAX]);
/* Forgets all names in a forked child. The parent's threads may have been looking them up. */
void address_after_fork(void);
socklen_t address_size(const struct sockaddr_storage *address);
/* @left addresses are still to be tried, and share the time until @until equally. Returns the deadline of the next
   address, in ns. */
uint64_t address_deadline(uint64_t until, unsigned left);
uint16_t address_port(const struct sockaddr_storage *address);

/* Returns a number that identifies the host: its IPv4 address, or the first half of its IPv6 address. (One host often
   has a whole /64 network.) For link-local addresses and ::1, whose first half is the same on all hosts, returns the
   second half. */
uint64_t address_origin(const struct sockaddr_storage *address);

/* Formats an address: "tcp://10.0.0.7:40312", "rdma://[fe80::1%eth0]:7470". */
void address_name(const char *scheme, const struct sockaddr_storage *address, char ret_name[BACKEND_PEER_MAX]);

#endif

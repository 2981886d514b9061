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
 * If @passive is true, the addresses are those to listen on, and the call waits for the resolver.
 *
 * If @passive is false, the addresses are those to connect to. The calling thread may have to send heartbeats to
 * other donors, but the resolver blocks for seconds when the network is down. Therefore, a separate thread looks up
 * each name:
 *
 * - The first call for a name waits for the lookup, at most 5 s.
 * - The addresses are then cached until the process ends. So if a donor's address changes, clients must be restarted.
 * - After a failed lookup, the next call starts another lookup and returns at once.
 */
int address_resolve(const struct uri *uri, bool passive, struct sockaddr_storage ret_addresses[ADDRESS_MAX]);
socklen_t address_size(const struct sockaddr_storage *address);
/* Returns the deadline in ns for trying the next of @left addresses, which share the time until @until equally. */
uint64_t address_deadline(uint64_t until, unsigned left);
uint16_t address_port(const struct sockaddr_storage *address);

/* Returns a number that identifies the host: its IPv4 address, or one half of its IPv6 address. This is the first
   half, because one host often has a whole /64 network. It is the second half if the first is equal on all hosts
   (link-local addresses, ::1). */
uint64_t address_origin(const struct sockaddr_storage *address);

/* Formats an address: "tcp://10.0.0.7:40312", "rdma://[fe80::1%eth0]:7470". */
void address_name(const char *scheme, const struct sockaddr_storage *address, char ret_name[BACKEND_PEER_MAX]);

#endif

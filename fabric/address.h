/* address: resolves HOST:PORT to socket addresses, and formats addresses for logs. Only inside fabric/. */
#ifndef FABRIC_ADDRESS_H
#define FABRIC_ADDRESS_H

#include "fabric/backend.h"
#include <sys/socket.h>

/* The most addresses of one name that are tried, one after the other. */
#define ADDRESS_MAX 8u

/*
 * Resolves the host and port of @uri to IPv4 and IPv6 addresses, in the resolver's order. The caller listens on the
 * addresses if @passive is true, and otherwise connects to them. Returns the number of addresses (1 .. ADDRESS_MAX),
 * -ENOENT, -ENOMEM, or -ETIMEDOUT if the resolver has not answered yet.
 *
 * If @passive, the call may block in the resolver.
 *
 * If @passive is false, a separate thread looks up each name once per process. Only the first call waits for it, for at
 * most 5 s. The reason: the resolver blocks for seconds when the network is down, and the calling thread may have to
 * send heartbeats to other donors. A found address is kept for good, so a donor whose address changes is found only
 * after a restart. After a failed lookup, the next call starts another one and does not wait for it.
 */
int address_resolve(const struct uri *uri, bool passive, struct sockaddr_storage ret_addresses[ADDRESS_MAX]);
socklen_t address_size(const struct sockaddr_storage *address);
/* Returns the deadline in ns for trying one address. @left addresses, including this one, share the time until
   @until. */
uint64_t address_deadline(uint64_t until, unsigned left);
/* Returns the port in host byte order. */
uint16_t address_port(const struct sockaddr_storage *address);

/* Returns the host as a number: an IPv4 address, or that half of an IPv6 address that differs between hosts. This is
   usually the first half, because a host commonly has a whole /64. */
uint64_t address_origin(const struct sockaddr_storage *address);

/* Formats an address: "tcp://10.0.0.7:40312", "rdma://[fe80::1%eth0]:7470". */
void address_name(const char *scheme, const struct sockaddr_storage *address, char ret_name[BACKEND_PEER_MAX]);

#endif

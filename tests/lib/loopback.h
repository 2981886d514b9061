/* loopback: makes TCP sockets on 127.0.0.1. Each function bails out on failure. */
#ifndef TESTS_LIB_LOOPBACK_H
#define TESTS_LIB_LOOPBACK_H

#include "tests/lib/tap.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <sys/socket.h>

static inline struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
	    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Returns a socket that is connected to @port. */
static inline int loopback_connect(uint16_t port)
{
	struct sockaddr_in address = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		tap_bail("no connection to port %u", port);
	return fd;
}

/* Returns a socket that listens on a free port. */
static inline int loopback_listen(uint16_t *ret_port)
{
	struct sockaddr_in address = loopback(0);
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 16) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		tap_bail("no port to listen on");
	*ret_port = ntohs(address.sin_port);
	return fd;
}

#endif

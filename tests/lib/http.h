/* http: asks a server on this machine for its metrics. */
#ifndef TESTS_LIB_HTTP_H
#define TESTS_LIB_HTTP_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static inline struct sockaddr_in http_address(unsigned port)
{
	return (struct sockaddr_in){
	    .sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Returns a port that no program uses, or 0. */
static inline unsigned http_free_port(void)
{
	struct sockaddr_in address = http_address(0);
	socklen_t length = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
		    getsockname(fd, (struct sockaddr *)&address, &length) == 0;

	if (fd >= 0)
		close(fd);
	return good ? ntohs(address.sin_port) : 0;
}

/* Returns the status of GET /metrics, such as 200, or 0 if there is no answer. */
static inline unsigned http_status(unsigned port)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	const struct sockaddr_in address = http_address(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char answer[64] = "";
	unsigned status = 0;

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
	    write(fd, request, sizeof request - 1) > 0 && recv(fd, answer, sizeof "HTTP/1.1 200" - 1, MSG_WAITALL) > 0)
		sscanf(answer, "HTTP/1.1 %u", &status);
	if (fd >= 0)
		close(fd);
	return status;
}

#endif

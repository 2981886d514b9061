/* tcp_crowd: turns connections away if they arrive faster than they can be handled, see tcp.h. */
#include "common/log.h"
#include "fabric/tcp/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

/* A host that made at least this many of the last TCP_RECENT connections makes many. */
#define MANY 8

/* Returns true if more than half of the kernel's queue of accepted connections is in use. */
static bool listener_is_crowded(const struct tcp_listener *listener)
{
	struct tcp_info info;
	socklen_t size = sizeof info;

	/* For a listening socket, tcpi_unacked is the length of the queue, and tcpi_sacked is its limit: see
	   tcp_get_info() in Linux. */
	return !getsockopt(listener->source.fd, IPPROTO_TCP, TCP_INFO, &info, &size) &&
	       info.tcpi_unacked > info.tcpi_sacked / 2;
}

/* Adds @origin to the origins of the last connections. Returns how often it is among them. */
static unsigned recent_count(struct tcp_listener *listener, uint64_t origin)
{
	unsigned count = 0;

	listener->recent[listener->recent_next++ % TCP_RECENT] = origin;
	for (unsigned i = 0; i < TCP_RECENT; i++)
		count += listener->recent[i] == origin;
	return count;
}

/* Returns true if the peer has sent its whole greeting, and the fabric's user knows it. Leaves the greeting in the
   socket. */
static bool peer_is_known(const struct fabric_config *config, int fd)
{
	struct tcp_greeting greeting;
	uint16_t version;

	return config->known && recv(fd, &greeting, sizeof greeting, MSG_PEEK | MSG_DONTWAIT) == sizeof greeting &&
	       !tcp_greeting_check(&greeting, sizeof greeting, 1u << TCP_CONNECT, &version) &&
	       config->known(config->known_user, greeting.private_data, greeting.private_size);
}

void tcp_crowd_look(struct tcp_listener *listener)
{
	bool was = listener->crowded;

	listener->crowded = listener_is_crowded(listener);
	if (listener->crowded && !was && fabric_may_tell(listener->base.fabric))
		log_warning("port %u: too many connections arrive: the hosts that make most of them are turned away",
			    listener->base.port);
}

bool tcp_crowd_refuses(struct tcp_listener *listener, int fd, uint64_t origin)
{
	unsigned count = recent_count(listener, origin);

	return listener->crowded && count >= MANY && !peer_is_known(fabric_get_config(listener->base.fabric), fd);
}

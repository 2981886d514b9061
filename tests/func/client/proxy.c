/* proxy: see proxy.h. */
#include "tests/func/client/proxy.h"

#include "tests/lib/loopback.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE 3000

static void pair_close(int pair[2])
{
	const struct linger reset = {.l_onoff = 1};

	for (unsigned i = 0; i < 2; i++) {
		if (pair[i] < 0)
			continue;
		setsockopt(pair[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
		close(pair[i]);
		pair[i] = -1;
	}
}

static void pair_open(struct proxy *proxy)
{
	struct sockaddr_in address = loopback(proxy->target);
	int here = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
	int there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int pair[2] = {here, there};
	const int one = 1;

	setsockopt(here, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(there, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (here < 0 || there < 0 || connect(there, (struct sockaddr *)&address, sizeof address) < 0) {
		pair_close(pair);
		return;
	}
	for (unsigned i = 0; i < PROXY_PAIRS; i++) {
		if (proxy->pairs[i][0] < 0 && proxy->pairs[i][1] < 0) {
			memcpy(proxy->pairs[i], pair, sizeof pair);
			return;
		}
	}
	pair_close(pair);
}

/* The store has closed its connection. The donor must see the end after all earlier bytes. */
static void pair_hang_up(int pair[2])
{
	shutdown(pair[1], SHUT_WR);
	close(pair[0]);
	pair[0] = -1;
}

/* Moves a piece from one socket of a pair to the other. Closes both on errors. */
static void pair_move(struct proxy *proxy, int pair[2], unsigned from)
{
	char bytes[PIECE];
	ssize_t size = recv(pair[from], bytes, sizeof bytes, MSG_DONTWAIT), sent = 0;

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (from && (proxy->mute || pair[0] < 0) && size > 0)
		return;
	while (size > 0 && sent >= 0 && size > sent) {
		ssize_t more = send(pair[!from], bytes + sent, (size_t)(size - sent), MSG_NOSIGNAL);

		sent = more < 0 ? -1 : sent + more;
	}
	if (!size && !from && proxy->mute)
		pair_hang_up(pair);
	else if (size <= 0 || sent < 0)
		pair_close(pair);
	else
		proxy->bytes += (uint64_t)size;
}

static void listener_close(struct proxy *proxy)
{
	if (proxy->listener >= 0)
		close(proxy->listener);
	proxy->listener = -1;
}

static void killed_step(struct proxy *proxy)
{
	struct pollfd listener = {.fd = proxy->listener, .events = POLLIN};
	int pair[2] = {-1, -1};

	for (unsigned i = 0; i < PROXY_PAIRS; i++)
		pair_close(proxy->pairs[i]);
	if (poll(&listener, 1, 1) == 1 && proxy->resets) {
		pair[0] = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
		proxy->resets -= pair[0] >= 0;
	}
	/* Closes the listener before the last connection is reset, so that the next connection finds it closed. */
	if (!proxy->resets)
		listener_close(proxy);
	pair_close(pair);
}

static void proxy_step(struct proxy *proxy)
{
	struct pollfd fds[1 + 2 * PROXY_PAIRS] = {{.fd = proxy->listener, .events = POLLIN}};

	for (unsigned i = 0; i < 2 * PROXY_PAIRS; i++)
		fds[1 + i] = (struct pollfd){.fd = proxy->pairs[i / 2][i % 2], .events = POLLIN};
	/* A dead proxy does not even accept. A new connection then waits in the kernel's listen queue. */
	if (poll(fds, proxy->dead ? 0 : 1 + 2 * PROXY_PAIRS, 1) < 0)
		return;
	if (proxy->dead)
		return;
	for (unsigned i = 0; i < 2 * PROXY_PAIRS; i++)
		if (fds[1 + i].revents && proxy->pairs[i / 2][i % 2] == fds[1 + i].fd)
			pair_move(proxy, proxy->pairs[i / 2], i % 2);
	if (fds[0].revents && !proxy->mute)
		pair_open(proxy);
}

static void *proxy_main(void *argument)
{
	struct proxy *proxy = argument;

	while (!proxy->stop) {
		if (proxy->killed)
			killed_step(proxy);
		else
			proxy_step(proxy);
	}
	return NULL;
}

void proxy_start(struct proxy *proxy, uint16_t target)
{
	memset(proxy, 0, sizeof *proxy);
	memset(proxy->pairs, -1, sizeof proxy->pairs);
	proxy->target = target;
	proxy->listener = loopback_listen(&proxy->port);
	if (pthread_create(&proxy->thread, NULL, proxy_main, proxy))
		tap_bail("no proxy");
}

void proxy_stop(struct proxy *proxy)
{
	proxy->stop = true;
	pthread_join(proxy->thread, NULL);
	for (unsigned i = 0; i < PROXY_PAIRS; i++)
		pair_close(proxy->pairs[i]);
	listener_close(proxy);
}

void proxy_die(struct proxy *proxy, bool dead)
{
	proxy->dead = dead;
}

void proxy_mute(struct proxy *proxy, bool mute)
{
	proxy->mute = mute;
}

void proxy_kill(struct proxy *proxy, unsigned resets)
{
	proxy->resets = resets;
	proxy->killed = true;
}

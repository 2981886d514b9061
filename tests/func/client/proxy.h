/*
 * proxy: a TCP wire between a store and a donor. It can go dead silently, and lose the donor's messages.
 *
 * Threads: a thread of the proxy carries the bytes. The functions are for one other thread.
 */
#ifndef TESTS_FUNC_CLIENT_PROXY_H
#define TESTS_FUNC_CLIENT_PROXY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PROXY_PAIRS 16

struct proxy {
	uint16_t port;   /* the port on this machine to which the store connects */
	uint16_t target; /* the donor's port */
	int listener;
	int pairs[PROXY_PAIRS][2]; /* sockets, or -1 for none */
	pthread_t thread;
	_Atomic bool dead, mute, killed, stop;
	unsigned resets;        /* connections still to be reset after proxy_kill() */
	_Atomic uint64_t bytes; /* bytes carried */
};

/* Starts the proxy. Bails out on errors. */
void proxy_start(struct proxy *proxy, uint16_t target);
void proxy_stop(struct proxy *proxy);
/* Stops (@dead) or resumes carrying bytes, in both directions. Neither side is told. */
void proxy_die(struct proxy *proxy, bool dead);
/*
 * Acts as a donor that was killed, and whose sockets the kernel is still closing. Resets every connection and the next
 * @resets new ones. Later connections are refused. Cannot be undone.
 */
void proxy_kill(struct proxy *proxy, unsigned resets);
/*
 * Drops (@mute) or carries the donor's bytes. While they are dropped, no connection can be set up. But the donor
 * still gets the store's bytes and the ends of its connections. Dropped bytes are not sent later.
 */
void proxy_mute(struct proxy *proxy, bool mute);

#endif

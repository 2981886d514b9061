/*
 * proxy: a TCP wire between a store and a donor that can be cut, go dead without a word, and lose what the donor says.
 *
 * Threads: its own carries the bytes; the functions are for one other.
 */
#ifndef TESTS_FUNC_CLIENT_PROXY_H
#define TESTS_FUNC_CLIENT_PROXY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PROXY_PAIRS 16

struct proxy {
	uint16_t port;   /* of this machine: connect here */
	uint16_t target; /* the donor's */
	int listener;
	int pairs[PROXY_PAIRS][2]; /* sockets, -1: none */
	pthread_t thread;
	_Atomic unsigned cuts; /* asked for */
	unsigned cuts_made;
	_Atomic bool dead, mute, killed, stop;
	unsigned resets;        /* left, once killed */
	_Atomic uint64_t bytes; /* carried */
};

/* Bails out when it cannot. */
void proxy_start(struct proxy *proxy, uint16_t target);
void proxy_stop(struct proxy *proxy);
/* Resets every connection. */
void proxy_cut(struct proxy *proxy);
/* From now on nothing is carried any more, either way, and nobody is told; or again. */
void proxy_die(struct proxy *proxy, bool dead);
/* The donor has been killed, and the kernel is still closing its sockets: everything is reset, also the next @resets
   that connect; from then on they are refused. For good. */
void proxy_kill(struct proxy *proxy, unsigned resets);
/* From now on nothing of the donor arrives, and so nobody can connect; what the store says arrives, also that it has
   hung up. Or again as it was: what was lost is not made up for. */
void proxy_mute(struct proxy *proxy, bool mute);

#endif

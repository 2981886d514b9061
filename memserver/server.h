/*
 * server: the daemon around a donor: listeners, signals, service manager, and the loop.
 *
 * Theory of operation. One thread sleeps in fabric_wait() for connections and their messages, the slab worker's
 * eventfd, the kernel's word that tasks stall for lack of memory, a signalfd, and the next deadline of the donor; with
 * no client there is no deadline and it sleeps for ever. Requests for pages are answered inside the fabric and never
 * get here. The service manager, for which the loop has to wait, is told of the donor's state once a second at most.
 * SIGTERM and SIGINT end the loop: what is still leased is logged, then everything is ended in order. SIGHUP has the
 * settings read anew, and never ends anything.
 */
#ifndef MEMSERVER_SERVER_H
#define MEMSERVER_SERVER_H

#include "memserver/donor.h"

#define SERVER_LISTEN_MAX 16

struct server_config {
	struct donor_config donor;
	bool drained;              /* from its start on: it was when it ended last */
	uint64_t reserve;          /* bytes that stay available on this machine */
	uint32_t slabs;            /* lent at most; the donor has room for as many as at its start */
	const char *const *listen; /* URIs */
	unsigned listen_count;     /* 1 .. SERVER_LISTEN_MAX */
	bool beyond_loopback;      /* some of them can be reached by others */
	/* SIGHUP: changes this struct, and says which keys were valid before. 0, or -errno: nothing has changed. */
	int (*reload)(void *user, struct keyring *ret_before);
	void *user;
};

/*
 * Runs until told to end by a signal; 0. Otherwise -errno after logging one line: -EADDRINUSE, -EADDRNOTAVAIL, ...
 * Call it before there are threads. Prints "farpage-memserver: listening on tcp://HOST:PORT" on standard output for
 * each address, once clients may come.
 */
int server_run(const struct server_config *config);

/* The loop alone, of a donor that listens and whose slab_fd() is watched with the donor as user. */
struct shrink;
struct server {
	const struct server_config *config;
	struct donor *donor;
	struct shrink *shrink; /* NULL: it lends what it was told to, whatever its machine needs */
	int signals;           /* watched with its address as user; -1: none */
	bool stop;
	char status[DONOR_STATUS_MAX]; /* as last told to the service manager */
	uint64_t status_told_at;
	uint64_t status_due; /* when it is to be told again; UINT64_MAX: it is as told */
};
/* Serves until `stop` is set, then leaves (donor_leave). 0, or -errno after logging one line. */
int server_loop(struct server *server);

#endif

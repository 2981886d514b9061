/*
 * server: the daemon around a donor: listeners, signals, service manager, and the main loop.
 *
 * Theory of operation. One thread sleeps in fabric_wait() for:
 *
 * - connections and their messages
 * - the slab worker's eventfd
 * - the kernel's report that tasks stall for lack of memory (stall.h)
 * - a signalfd
 * - the donor's next deadline
 *
 * Without clients there is no deadline, and the thread sleeps without a time limit. Requests for pages are answered
 * inside the fabric and never get here. Each report of the donor's state to the service manager makes the loop wait, so
 * the loop reports at most once a second. The loop also tells the service manager that it makes progress (watchdog.h).
 *
 * SIGTERM and SIGINT end the loop, which logs the slabs that are still leased and then ends all sessions in order.
 * SIGHUP rereads the settings and ends no session. SIGUSR2 upgrades the program without losing a slab (upgrade.h).
 */
#ifndef MEMSERVER_SERVER_H
#define MEMSERVER_SERVER_H

#include "memserver/donor.h"
#include "memserver/upgrade.h"

#define SERVER_LISTEN_MAX 16

struct handover;

struct server_config {
	struct donor_config donor;
	bool drained;                    /* the donor starts drained, because it was drained at its last end */
	uint64_t reserve;                /* bytes that stay available on this machine */
	uint32_t slabs;                  /* maximum to lend; never more than at the donor's start */
	const char *const *listen;       /* URIs */
	unsigned listen_count;           /* 1 .. SERVER_LISTEN_MAX */
	const char *metrics;             /* where metrics are served (metrics_http.h), or NULL */
	bool beyond_loopback;            /* some address can be reached from other machines */
	const struct handover *handover; /* leases of the previous program (handover.h), or NULL */
	char *const *argv;               /* the command line, for an upgrade */
	/*
	 * SIGHUP: updates this struct and writes which keys were valid before. Returns 0, or -errno if nothing has
	 * changed.
	 */
	int (*reload)(void *user, struct keyring *ret_before);
	void *user;
};

/*
 * Runs until a signal ends it. Call it before the program has threads. As soon as clients may connect, it prints
 * "farpage-memserver: listening on tcp://HOST:PORT" on standard output for each address. Returns 0, or -errno after one
 * logged line (-EADDRINUSE, -EADDRNOTAVAIL, ...).
 */
int server_run(const struct server_config *config);

/* Returns true if no address has port 0. Otherwise logs one line. With port 0 the system chooses a port, so the next
   program would get another port in an upgrade, and no client would find this donor. */
bool server_ports_are_fixed(const struct server_config *config);

struct shrink;
struct donor_metrics;
/* State of the main loop. Before the loop begins, the donor listens, and the fabric watches slab_fd() with the donor as
   user. */
struct server {
	const struct server_config *config;
	struct donor *donor;
	struct shrink *shrink; /* NULL if the donor lends as much as the settings say, whatever the machine needs */
	struct donor_metrics *metrics; /* NULL if none are served */
	int signals;                   /* signalfd, watched with the address of this field as user; -1 for none */
	struct upgrade upgrade;
	bool replace;        /* the program is replaced once all clients have disconnected */
	uint64_t replace_at; /* when to replace the program even if clients are connected, or UINT64_MAX */
	bool stop;
	char status[DONOR_STATUS_MAX]; /* the last status told to the service manager */
	uint64_t status_told_at;
	uint64_t status_due; /* when to tell the status again, or UINT64_MAX if it is up to date */
};
/* Serves until `stop` is set, then calls donor_leave(). Returns 0, or -errno after one logged line. */
int server_loop(struct server *server);

#endif

/*
 * fabric_own: what fabric.c (opening, choosing a backend) and wait.c (polling, waiting, watches) share. Only they
 * include it.
 */
#ifndef FABRIC_FABRIC_OWN_H
#define FABRIC_FABRIC_OWN_H

#include "common/log_limit.h"
#include "common/spin.h"
#include "fabric/backend.h"
#include <sys/queue.h>

#define FABRIC_BACKENDS 2u
extern const struct fabric_backend *const fabric_backends[FABRIC_BACKENDS];

struct fabric_watch {
	struct poller_source source; /* first: ready() is given this */
	TAILQ_ENTRY(fabric_watch) link;
	struct fabric *fabric;
	void *user;
	bool ready;
};

struct fabric {
	struct fabric_config config;
	struct poller *poller;
	void *states[FABRIC_BACKENDS]; /* NULL: not in use */
	struct faults *faults;         /* NULL: not in use */
	TAILQ_HEAD(, fabric_watch) watches;
	unsigned watches_ready;
	bool watches_first;        /* the last poll had no room for them */
	uint64_t timer_at;         /* when the timer goes off; 0: it is not set */
	struct fabric_watch timer; /* makes fabric_fd() readable at the next deadline; not in `watches` */
	struct spin spin;          /* how long to poll for what is to come */
	uint64_t moved_at;         /* when something last moved, ns */
	uint64_t looked_at;        /* all connections have been looked at since, ns */
	uint64_t full_since;       /* the first poll since then */
	unsigned full_polls;       /* since then, none of which had room for all */
	uint64_t expire_at;        /* when deadlines are looked at next */
	uint64_t spared_until;     /* and not before this, for the thread was late */
	bool touched;              /* something was posted since the last wait */
	unsigned polls;
	struct log_limit told; /* lines about what peers did */
	/* Others compute on this CPU: */
	uint64_t crowded_until, crowded_ns; /* and how long that was taken for true */
	unsigned vain;                      /* times in a row that spinning without giving the CPU away found nothing */
	uint64_t vain_until;
};

/* The fabric has its poller. -errno. */
int wait_open(struct fabric *fabric);
/* Its backends are closed. */
void wait_close(struct fabric *fabric);

#endif

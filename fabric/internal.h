/*
 * fabric_own: what fabric.c (opening, choosing a backend) and wait.c (polling, waiting, watches) share. No other file
 * includes it.
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
	struct poller_source source; /* first, because ready() casts it */
	TAILQ_ENTRY(fabric_watch) link;
	struct fabric *fabric;
	void *user;
	bool ready;
};

struct fabric {
	struct fabric_config config;
	struct poller *poller;
	void *states[FABRIC_BACKENDS]; /* NULL: not in use */
	TAILQ_HEAD(, fabric_watch) watches;
	unsigned watches_ready;
	bool watches_first;        /* the next poll serves watches first, because the last poll had no room for them */
	uint64_t timer_at;         /* when the timer expires, or 0 if it is not set */
	struct fabric_watch timer; /* makes fabric_fd() readable at the next deadline; not in `watches` */
	struct spin spin;          /* how long to poll for the next answer */
	uint64_t moved_at;         /* when bytes or events last moved, ns */
	uint64_t looked_at;        /* every connection has been looked at since this time, ns */
	uint64_t full_since;       /* time of the first of full_polls */
	unsigned full_polls;       /* polls in a row, since looked_at, that filled the array of events */
	uint64_t expire_at;        /* when deadlines are checked next */
	uint64_t spared_until;     /* no deadline is enforced before this time, because the thread was late */
	struct fabric_served served;
	bool touched; /* an operation was posted since the last wait */
	unsigned polls;
	struct log_limit told; /* log lines about peers' mistakes and refusals */
	/* Until crowded_until, this CPU counts as crowded: another program computes on it. The period has
	   crowded_ns. */
	uint64_t crowded_until, crowded_ns;
	unsigned vain;       /* spins in a row that found nothing */
	uint64_t vain_until; /* while the CPU is crowded, waits sleep at once until this time */
};

/* Initialises the fields that wait.c uses. fabric->poller must be open. Returns 0 or -errno. */
int wait_open(struct fabric *fabric);
/* Frees what wait_open() has allocated. The backends must be closed. */
void wait_close(struct fabric *fabric);

#endif

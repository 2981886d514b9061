/* internal: the state that fabric.c and wait.c share. No other file includes this header. */
#ifndef FABRIC_INTERNAL_H
#define FABRIC_INTERNAL_H

#include "common/log_limit.h"
#include "common/spin.h"
#include "fabric/backend.h"

#include <sys/queue.h>

#define FABRIC_BACKENDS 2u
extern const struct fabric_backend *const fabric_backends[FABRIC_BACKENDS];

struct fabric_watch {
	struct poller_source source; /* first, because watch_ready() and timer_ready() cast it */
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
	bool watches_first;        /* true if events of connections left no space for watches in the last poll */
	uint64_t timer_at;         /* when the timer expires, or 0 if it is not set */
	struct fabric_watch timer; /* makes fabric_fd() readable at the next deadline; not in `watches` */
	struct spin spin;          /* learns how long to poll for the next answer */
	uint64_t moved_at;         /* when bytes or events last moved, ns */
	uint64_t looked_at;        /* time of the last poll of all connections, ns */
	uint64_t full_since;       /* when the first of full_polls ended */
	unsigned full_polls;       /* polls in a row that filled the caller's array of events */
	uint64_t expire_at;        /* deadlines are not checked before this time */
	uint64_t spared_until;     /* no deadline is enforced before this time (wait.c: late wake-ups) */
	struct fabric_served served;
	bool touched; /* an operation was posted since the last wait */
	unsigned polls;
	struct log_limit told; /* limits log lines about mistakes and refusals of peers */
	/* Another program computes on this CPU: until crowded_until, spinning does not yield to it. crowded_ns is the
	   length of this period. */
	uint64_t crowded_until, crowded_ns;
	unsigned vain;       /* spins in a row that found nothing */
	uint64_t vain_until; /* while the CPU is crowded, waits sleep at once until this time */
};

/* fabric->poller must be open. Returns 0 or -errno. */
int wait_open(struct fabric *fabric);
/* Must be called after the backends are closed. */
void wait_close(struct fabric *fabric);

#endif

/*
 * far_store: what the parts of the far store (far.c, control.c, far_queue.c) share. Only inside client/.
 *
 * Theory of operation. Queues touch of this only what is atomic or fixed once far_open() has returned. When a chunk
 * needs the control thread (wanted, or emptied), or a connection has ended, they leave a mark there and call
 * control_kick().
 *
 * Whether a donor can be reached is the control thread's to say (peers.h). Its `round` tells the queues: odd while it
 * is up, and another one each time it has come back. A queue's connection is of one round, and is of no use in another.
 * `status` says that it is lost; until it does, requests wait. A lost donor may be used again, in another
 * round: no slot names it then but of slabs leased since.
 *
 * Locks: `attach` and `lock`, never both. Neither is taken by the data path.
 */
#ifndef CLIENT_FAR_STORE_H
#define CLIENT_FAR_STORE_H

#include "client/chunks.h"
#include "client/claims.h"
#include "client/comeback.h"
#include "client/far.h"
#include "client/integrity.h"
#include "client/leases.h"
#include "client/session.h"
#include "client/state.h"
#include "client/warmth.h"
#include "common/auth.h"
#include "common/patience.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/queue.h>

/* One donor. */
struct far_peer {
	char *uri;
	char via[SESSION_URI_MAX];    /* the way taken to it; far->attach, and fixed once it was reached */
	char domain[FAR_DOMAIN_SIZE]; /* as last heard; far->attach */
	_Atomic int status;           /* 0: in use; -errno: lost, until it has come back with nothing */
	_Atomic uint32_t round;       /* odd: up */
	_Atomic uint64_t report;      /* what queues have seen of it, for the control thread; peers.c */
	_Atomic uint64_t waits;       /* since when the oldest request waits for it, in this round; 0: none */
	_Atomic uint64_t donated, leased, slab_bytes, leased_here;
	_Atomic uint32_t clients;
	uint8_t session_key[AUTH_KEY_SIZE]; /* of this round; far->attach */
	uint64_t attach_counter;            /* of data connections that were begun; far->attach */
	/* The control thread's own. */
	struct session session;
	struct comeback comeback;
	struct claims claims;
	uint64_t away_at; /* of clock_now(), which the user goes by: when it was last seen to be away */
	bool told;        /* that it is away */
	bool adopted;     /* from another process, and not yet reached */
};

/* What queues count; each its own, added up on demand. */
struct far_counters {
	_Atomic uint64_t reads, writes, zero_reads, checksum_errors, rebuilt, repaired, scrubbed, hedges, hedges_won,
	    backup_reads, backup_writes, returned;
};

#define FAR_SEALERS 2u

struct backup;
struct far_queue;
struct rebuild;

struct far {
	struct store base;
	struct far_config config;
	uint8_t key[AUTH_KEY_SIZE];
	uint8_t id[WIRE_ID_SIZE];
	struct far_peer *peers;
	unsigned peer_count;
	struct fabric_domain *domain;
	struct chunk_table table;
	struct integrity integrity;
	_Atomic(struct seal *) sealers[FAR_SEALERS]; /* that store_same() uses where pages are sealed; far_sealed.c */
	struct warmth warmth;
	struct state *state; /* what the two above lie in, or NULL */
	bool adopted;        /* the store was another process's */
	bool leave;          /* the state, and leases, stay for another process */

	pthread_mutex_t attach;   /* the peers' session keys and counters, ways and domains */
	_Atomic uint32_t changes; /* of any peer's round or status, counted */

	pthread_mutex_t lock; /* the list of queues, `closed` */
	LIST_HEAD(, far_queue) queues;
	struct far_counters closed; /* of queues no longer open */
	_Atomic uint64_t queue_memory;
	_Atomic uint64_t discards, lost_pages;
	_Atomic uint64_t complained;        /* when a checksum error was last logged */
	_Atomic uint64_t window;            /* pages that are not to be written now (far_published.h); rebuild.c */
	struct rebuild *rebuild;            /* NULL: there is one donor, and no scrub or backup */
	char *backup_path;                  /* or NULL: none is to be */
	struct backup *backup;              /* NULL: there is none */
	_Atomic uint64_t backup_complained; /* when it was last logged that it has not what it should */
	_Atomic uint64_t crowded_told;      /* likewise, that it is written to */
	_Atomic uint64_t leaving_told;      /* or that chunks leave for it */
	_Atomic bool crowded;               /* when a slab was last asked for no donor had room; far_backup.h */

	/* The control thread, and what it owns; control.c. */
	pthread_t thread;
	sem_t opened; /* posted once open_status is known */
	int open_status;
	int wake; /* eventfd */
	_Atomic bool kicked, stop;
	bool open;
	/* Donors want slabs back: copying is not limited; and soon: it does not wait for its turn either. By the
	   control thread. */
	_Atomic bool hurry, pressing;
	bool adopting; /* what turns out to be lost is not lost yet: perhaps nothing can be adopted at all */
	struct fabric *fabric;
	struct patience patience; /* of all its deadlines; far_now() */
	struct leases leases;
	uint64_t lacking_since; /* replicas have been lacking; told when they do not any more */
};

/* The control thread's clock, ns: it stands still while that thread has no processor. Any thread. */
uint64_t far_now(const struct far *far);

/* Adds to a counter that only the calling thread writes; others read it. */
static inline void far_count(_Atomic uint64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
			      memory_order_relaxed);
}

/* The first page after those of @page's chunk. */
static inline uint64_t far_chunk_end(const struct far *far, uint64_t page)
{
	uint64_t end = (page / far->table.pages + 1) * far->table.pages;

	return end < far->integrity.pages ? end : far->integrity.pages;
}

/* These pages read as zeroes again; what was held for them is given back. Any thread. */
void far_forget(struct far *far, uint64_t page, uint64_t count);
/* A connection made in @round to this donor has ended, or could not be had: @status, negative. Any thread; peers.c. */
void far_peer_broke(struct far *far, unsigned peer, uint32_t round, int status);
/* A request waits for this donor, since @since (of far_now()). Any thread; peers.c. */
void far_peer_waits(struct far *far, unsigned peer, uint64_t since);

#endif

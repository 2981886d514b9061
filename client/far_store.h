/*
 * far_store: the structs that the parts of the far store (far.c, control.c, far_queue.c) share. Only for use inside
 * client/.
 *
 * Theory of operation. Queues touch only atomic fields, and fields that never change once far_open() has returned. A
 * queue needs the control thread when a chunk is wanted or emptied, or a connection has ended. The queue then leaves a
 * mark in the mailbox (mailbox.h).
 *
 * Only the control thread decides if a donor can be reached (donors.h). The donor's `round` tells the queues. It is odd
 * while the donor is up, and has a new odd value after each return. A queue's connection belongs to one round and is
 * useless in another. The donor's `status` tells that the donor is lost. Until then requests wait for it. A lost donor
 * may be used again in a later round. By then, the donor's slots have only slabs that were leased since.
 *
 * Locks: `attach` and `lock`. No thread holds both. The data path takes neither.
 */
#ifndef CLIENT_FAR_STORE_H
#define CLIENT_FAR_STORE_H

#include "client/donor/claims.h"
#include "client/donor/comeback.h"
#include "client/donor/session.h"
#include "client/far.h"
#include "client/lease/leases.h"
#include "client/lease/warmth.h"
#include "client/mailbox.h"
#include "client/page/chunks.h"
#include "client/page/integrity.h"
#include "client/page/state.h"
#include "common/clock.h"
#include "common/patience.h"
#include "wire/auth.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/queue.h>

/* A donor. */
struct far_donor {
	char *uri;
	char via
	    [SESSION_URI_MAX]; /* the address in use; guarded by far->attach; another one if the donor leaves and comes again */
	char failure_domain[FAR_FAILURE_DOMAIN_SIZE]; /* the failure domain it last told; guarded by far->attach */
	_Atomic int status;                           /* 0 if in use, or -errno from its loss until its return */
	_Atomic uint32_t round;                       /* odd while the donor is up */
	_Atomic uint64_t donated, leased, slab_bytes, leased_here;
	_Atomic uint32_t clients;
	uint8_t session_key[AUTH_KEY_SIZE]; /* the key of this round's session; guarded by far->attach */
	uint64_t attach_counter;            /* data connections begun; guarded by far->attach */
	/* The control thread's own. */
	struct session session;
	struct comeback comeback;
	struct claims claims;
	uint64_t away_at;  /* clock_now() when the donor went away: real time, for messages to the user */
	bool told;         /* the user was told that the donor is away */
	bool adopted;      /* not reached yet: the store was adopted, was opened without this donor, or has added it */
	bool added;        /* the donors file has added it, and it was not reached yet */
	_Atomic bool gone; /* the donors file has removed it, and it was let go */
};

/* The counters of one queue. The store adds up all queues when asked. */
struct far_counters {
	_Atomic uint64_t reads, writes, zero_reads, checksum_errors, rebuilt, repaired, scrubbed, hedges, hedges_won,
	    backup_reads, backup_writes, returned;
};

#define FAR_SEALERS 2u

struct backup;
struct donors_list;
struct far_queue;
struct rebuild;

struct far {
	struct store base;
	struct far_config config;
	uint8_t key[AUTH_KEY_SIZE];
	uint8_t id[WIRE_ID_SIZE];
	struct far_donor *donors;     /* donor_places of them; a donor keeps its place until the store is closed */
	char (*uris)[FAR_URI_MAX];    /* the donors' addresses, as many */
	unsigned donor_places;        /* FAR_DONORS_MAX with a donors file, otherwise donor_count */
	_Atomic unsigned donor_count; /* only grows; the control thread adds donors */
	struct donors_list *list;     /* the donors file that is followed, or NULL */
	struct fabric_domain *domain;
	struct chunk_table table;
	struct integrity integrity;
	_Atomic(struct seal *) sealers[FAR_SEALERS]; /* used by store_same() if pages are sealed; far_sealed.c */
	struct warmth warmth;
	struct state *state; /* the state file, which holds `table` and `integrity`, or NULL */
	bool adopted;        /* another process had the store before */
	bool leave;          /* state and leases stay for another process */

	pthread_mutex_t attach;   /* guards the donors' session keys, counters, addresses and domains */
	_Atomic uint32_t changes; /* counts changes of any donor's round or status */

	struct mailbox mailbox; /* marks for the control thread and the rebuild thread */

	pthread_mutex_t lock; /* guards the list of queues and `closed` */
	LIST_HEAD(, far_queue) queues;
	struct far_counters closed; /* counters of queues that were closed */
	_Atomic uint64_t queue_memory;
	_Atomic uint64_t discards, lost_pages;
	_Atomic uint64_t complained;        /* when a checksum error was last logged */
	_Atomic uint64_t window;            /* the rebuild window (far_published.h); copier.c sets it */
	struct rebuild *rebuild;            /* NULL with one donor and no scrub or backup */
	char *backup_path;                  /* NULL if no backup is wanted */
	struct backup *backup;              /* NULL if there is none */
	_Atomic uint64_t backup_complained; /* when a wrong page on the backup was last logged */
	_Atomic uint64_t crowded_told;      /* when `crowded` was last logged */
	_Atomic uint64_t leaving_told;      /* when chunks leaving for the backup were last logged */
	_Atomic bool crowded;               /* no donor had room when a slab was last asked for; far_backup.h */

	/* The control thread, and the fields that it owns; control.c. */
	pthread_t thread;
	sem_t opened; /* posted once open_status is known */
	int open_status;
	_Atomic bool stop;
	bool open;
	/* The control thread sets both. `hurry`: donors want slabs back, so the rate of copying is not limited.
	   `pressing`: a deadline is near, so copying does not yield to other threads either. */
	_Atomic bool hurry, pressing;
	bool adopting; /* adopting may still fail, so the slabs of lost donors are not given up yet */
	struct fabric *fabric;
	struct patience patience; /* the clock for all deadlines of the thread; far_now() */
	struct leases leases;
	uint64_t lacking_since; /* since when replicas are missing; logged once none is missing */
};

/* Returns the control thread's clock in ns. The clock stands still while that thread gets no processor (patience.h).
   Any thread. */
static inline uint64_t far_now(const struct far *far)
{
	return patience_at(&far->patience, clock_now());
}

/* Adds to a counter that only the calling thread writes. Other threads may read it. */
static inline void far_count(_Atomic uint64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
			      memory_order_relaxed);
}

/* Returns the first page after those of @page's chunk. */
static inline uint64_t far_chunk_end(const struct far *far, uint64_t page)
{
	uint64_t end = (page / far->table.pages + 1) * far->table.pages;

	return end < far->integrity.pages ? end : far->integrity.pages;
}

/* Takes @pages, which were counted in @epoch, off the count of @chunk. Tells the control thread if the chunk's slabs
   can be given back now. Any thread. */
static inline void far_drop(struct far *far, uint64_t chunk, uint32_t epoch, uint32_t pages)
{
	if (pages && chunk_drop(&far->table, chunk, epoch, pages))
		mailbox_wake_control(&far->mailbox);
}

/* Makes these pages read as zeroes again, and takes them off the counts of their chunks. Any thread. */
void far_forget(struct far *far, uint64_t page, uint64_t count);

#endif

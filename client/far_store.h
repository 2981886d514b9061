/*
 * far_store: the structs that the files of client/ share: far.c, control.c, far_queue.c and others. Only for use
 * inside client/.
 *
 * Theory of operation. The queues' threads, the control thread and the rebuild thread all work on one `struct far`.
 * Queues use only its atomic fields, and fields that do not change after far_open() has returned. A queue tells the
 * control thread when a chunk needs a slab or becomes empty, or when a connection has ended. It leaves a mark
 * (chunks.h, mailbox.h).
 *
 * The control thread alone decides if a donor can be reached (donors.h). It publishes its decision in two fields of
 * the donor:
 *
 *   round   Odd while the donor is up. Each return of the donor gives it a new odd value. A queue's connection
 *           belongs to the round in which it was made, and is not used in a later round.
 *   status  0 until the donor is lost, then -errno. While the status is 0, requests wait for the donor if it is away.
 *
 * A lost donor may be used again in a later round. Its old slots have been detached by then, so no slot names a
 * slab that the donor lent before.
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

struct far_donor {
	char *uri;
	char via
	    [SESSION_URI_MAX]; /* the address in use; guarded by far->attach; changes if the donor leaves and returns */
	char failure_domain[FAR_FAILURE_DOMAIN_SIZE]; /* as the donor last reported it; guarded by far->attach */
	_Atomic int status;
	_Atomic uint32_t round;
	_Atomic uint64_t donated, leased, slab_bytes;
	_Atomic uint32_t clients;
	_Atomic bool clearing;              /* while in reach: it has no free slab, but clears some */
	uint8_t session_key[AUTH_KEY_SIZE]; /* the key of this round's session; guarded by far->attach */
	uint64_t attach_counter;            /* how often a data connection was begun; guarded by far->attach */
	/* Only the control thread uses the fields below. */
	struct session session;
	struct comeback comeback;
	struct claims claims;
	uint64_t away_at; /* clock_now() when the donor went away: real time, because log lines for the user show it */
	bool told;        /* the user was told that the donor is away */
	bool adopted;     /* not reached yet: the store was adopted, was opened without this donor, or has added it */
	bool added;       /* the donors file has added this donor, which was not reached yet */
	/* This address led to the donor of another place. So it is not tried (donors_list.h), or opening fails. */
	bool twin;
	_Atomic bool gone; /* the donors file has removed this donor, and its session was ended */
};

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
	struct wire_about about;       /* what donors are told about this process */
	struct far_donor *donors;      /* donor_places elements; a donor keeps its index until the store is closed */
	_Atomic uint64_t *leased_here; /* for each place, the bytes that this store leases */
	uint64_t *quiet;               /* for each place, until when the control thread skips the donor; donors.c */
	char (*uris)[FAR_URI_MAX];     /* the donors' addresses, one for each place */
	unsigned donor_places;        /* with a donors file FAR_DONORS_MORE more than at first, otherwise donor_count */
	_Atomic unsigned donor_count; /* only grows; the control thread adds donors */
	unsigned connect_next;        /* while the store is opened: the first donor that was not called yet */
	struct donors_list *list;     /* the donors file that is followed, or NULL */
	struct fabric_domain *domain;
	struct chunk_table table;
	struct integrity integrity;
	_Atomic(struct seal *) sealers[FAR_SEALERS]; /* used by store_same() if pages are sealed; far_sealed.c */
	struct warmth warmth;
	struct state *state; /* the state file, which holds `table` and `integrity`, or NULL */
	bool adopted;        /* the store was adopted from another process */
	bool leave;          /* closing keeps state file and leases, for another process */

	pthread_mutex_t attach;   /* guards the donors' session keys, counters, addresses and failure domains */
	_Atomic uint32_t changes; /* rises with each change of any donor's round or status */

	struct mailbox mailbox;

	pthread_mutex_t lock; /* guards the list of queues and `closed` */
	LIST_HEAD(, far_queue) queues;
	struct far_counters closed; /* counters of queues that were closed */
	_Atomic uint64_t queue_memory;
	_Atomic uint64_t discards, lost_pages;
	_Atomic uint64_t complained; /* when a checksum error was last logged */
	_Atomic uint64_t window;     /* the rebuild window (far_published.h), which copier.c sets */
	struct rebuild *rebuild;     /* NULL if there is nothing to copy: one donor, no scrub, no backup */
	char *backup_path;
	struct backup *backup;              /* NULL if there is none */
	_Atomic uint64_t backup_complained; /* when a wrong page on the backup was last logged */
	_Atomic uint64_t crowded_told;      /* when `crowded` was last logged */
	_Atomic uint64_t leaving_told;      /* when the departure of chunks to the backup was last logged */
	_Atomic bool crowded;               /* no donor had a free slab for the last request; far_backup.h */

	/* The control thread (control.c), and the fields that it owns. */
	pthread_t thread;
	sem_t opened; /* posted once open_status is known */
	int open_status;
	_Atomic bool stop;
	bool open;
	/* The control thread sets these for the rebuild thread. `hurry`: donors recall slabs, so the rate of
	   copying is not limited. `pressing`: the deadline of a recall is near, so the rebuild thread does not
	   yield to other threads either. */
	_Atomic bool hurry, pressing;
	bool adopting; /* the adoption may still fail, so slabs of lost donors do not count as lost yet */
	struct fabric *fabric;
	struct patience patience; /* the clock for all deadlines of the control thread; far_now() */
	struct leases leases;
	uint64_t lacking_since; /* since when replicas are missing; logged when none is missing any more */
};

/* Returns the control thread's clock in ns. The clock stops while that thread gets no processor, so that a paused
   process does not count its own pause against donors (patience.h). Any thread. */
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

/* Subtracts @pages, which were counted in @epoch, from the count of @chunk. If the count becomes 0, wakes the
   control thread, because the chunk's slabs can then be released. Any thread. */
static inline void far_drop(struct far *far, uint64_t chunk, uint32_t epoch, uint32_t pages)
{
	if (pages && chunk_drop(&far->table, chunk, epoch, pages))
		mailbox_wake_control(&far->mailbox);
}

/* Makes these pages read as zeroes. Subtracts the pages that were live from the counts of their chunks. Any
   thread. */
void far_forget(struct far *far, uint64_t page, uint64_t count);

#endif

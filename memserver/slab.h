/*
 * slab: the memory of slabs, and its registration.
 *
 * Theory of operation. A slab has memory only while it is leased: fresh anonymous pages when the lease begins, given
 * back to the kernel when it ends. What one owner wrote can therefore not reach the next: the kernel zeroes every
 * page between two mappings. Pages are populated at once, so that a page fault never stands in the way of a client,
 * and only while the machine has more than a reserve of memory available: it is the operator's before it is ours.
 *
 * The memory is registered in the domain of its owner as soon as it is populated, and deregistered before it is given
 * back, so that no key to it outlives the lease.
 *
 * Threads. Populating 64 MiB and having an RDMA device pin it takes tens of ms, which the thread that serves clients
 * cannot spare; a worker does both and their reverse: what is to be cleared before what is to be prepared, for a
 * deadline waits for it, and otherwise in the order asked. slab_prepare(), slab_clear(), slab_abandon() and
 * slab_answer() belong to the thread that opened the worker; orders and answers go through bounded queues under one
 * lock, an eventfd tells of answers. A slab has at most one order at a time, so the queues cannot overflow.
 */
#ifndef MEMSERVER_SLAB_H
#define MEMSERVER_SLAB_H

#include "farpage/fabric.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slab_config {
	uint32_t slabs;   /* indexes are 0 .. slabs - 1 */
	size_t bytes;     /* of one slab; a power of two, at least a page */
	uint64_t reserve; /* bytes that stay available on the machine, whatever is asked for */
	bool huge;        /* take hugetlb pages while there are any */
	bool lock;        /* mlock: never swapped out here */
};

enum slab_order_kind { SLAB_PREPARE, SLAB_CLEAR, SLAB_ORDER_KINDS };

struct slab_answer {
	enum slab_order_kind kind;
	uint32_t slab;
	struct fabric_region *region; /* PREPARE with status 0; NULL otherwise */
	void *memory;                 /* the same */
	int status; /* PREPARE: 0; -ENOMEM the machine needs its memory itself; -EPERM it may not be locked; -ECANCELED
		       it was abandoned; ... */
};

struct slab_worker;

/* Starts the worker; it inherits the caller's signal mask, which should block everything. -ENOMEM, -EMFILE, -EAGAIN. */
int slab_open(const struct slab_config *config, struct slab_worker **ret_worker);
/* Ends the worker and unmaps everything. Nothing is registered or reached by anybody any more. Takes NULL. */
void slab_close(struct slab_worker *worker);

/* Readable while there are answers. */
int slab_fd(const struct slab_worker *worker);
/*
 * Orders memory for a slab that has none, registered in @domain, which stays open until the slab's memory is gone
 * again; or the end of a slab's memory and registration. Answered once each, later.
 */
void slab_prepare(struct slab_worker *worker, uint32_t slab, struct fabric_domain *domain);
void slab_clear(struct slab_worker *worker, uint32_t slab);
/* Nobody wants what is still to be prepared for @slab, if anything is: unless the worker has begun, it is answered with
   -ECANCELED, so that nobody waits for it. */
void slab_abandon(struct slab_worker *worker, uint32_t slab);
/* From the next slab on this much stays available on the machine. */
void slab_set_reserve(struct slab_worker *worker, uint64_t bytes);
/* Takes one answer without waiting; false when there is none. */
bool slab_answer(struct slab_worker *worker, struct slab_answer *ret_answer);

#endif

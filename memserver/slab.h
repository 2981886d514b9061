/*
 * slab: the memory of slabs and its registration.
 *
 * Theory of operation. A slab has memory only while it is leased. It gets fresh pages when the lease begins and returns
 * them to the kernel when the lease ends. The kernel zeroes every page before it gives the page out again, so one
 * client's data never reaches the next client. All pages are populated at once, so that no page fault delays a client.
 * The worker takes memory only if the machine then still has its reserve available.
 *
 * The memory of all slabs is one file without a name (memfd_create(2)), which is empty where no slab is leased. A file
 * can be handed to the next program when a donor is upgraded (handover.h); anonymous memory cannot.
 *
 * The worker registers the memory in its owner's domain as soon as it is populated. It ends the registration before it
 * releases the memory, so that no key outlives the lease.
 *
 * Threads. Populating 64 MiB and pinning it for an RDMA device takes tens of ms. A worker thread prepares and clears
 * slabs, because the thread that serves clients cannot wait so long. The worker clears before it prepares, because
 * deadlines wait for clearing. Otherwise it keeps the order of requests.
 *
 * slab_prepare(), slab_clear(), slab_abandon() and slab_answer() belong to the thread that opened the worker. Orders
 * and answers go through bounded queues under one lock, and an eventfd signals answers. A slab has at most one order at
 * a time, so the queues cannot overflow.
 */
#ifndef MEMSERVER_SLAB_H
#define MEMSERVER_SLAB_H

#include "fabric/fabric.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The files with the memory of all slabs (memfd_create(2)). Slab N lies at N * slab_config.bytes of one of them. */
struct slab_files {
	int plain;
	int huge; /* the file of hugetlb pages, or negative for none */
};

struct slab_config {
	uint32_t slabs;                     /* slab indexes are 0 .. slabs - 1 */
	size_t bytes;                       /* size of one slab; a power of two, at least a page */
	uint64_t reserve;                   /* bytes that always stay available on the machine */
	bool huge;                          /* take hugetlb pages while there are any */
	bool lock;                          /* mlock the memory, so that it is never swapped out */
	const struct slab_files *inherited; /* files of the previous program, or NULL; used by slab_open() only */
};

enum slab_order_kind { SLAB_PREPARE, SLAB_CLEAR, SLAB_ORDER_KINDS };

struct slab_answer {
	enum slab_order_kind kind;
	uint32_t slab;
	struct fabric_region *region; /* PREPARE with status 0; otherwise NULL */
	void *memory;                 /* PREPARE with status 0; otherwise NULL */
	/*
	 * The outcome of a PREPARE: 0 or -errno. -ENOMEM: the machine needs its memory itself. -EPERM: the memory may
	 * not be locked. -ECANCELED: the order was abandoned.
	 */
	int status;
};

struct slab_worker;

/*
 * Starts the worker. The worker inherits the caller's signal mask, which should block all signals. The worker owns all
 * files, also inherited files. Returns 0, -ENOMEM, -EMFILE or -EAGAIN.
 */
int slab_open(const struct slab_config *config, struct slab_worker **ret_worker);
/* Ends the worker, deregisters and unmaps all slabs. The caller has ended all connections. Accepts NULL. */
void slab_close(struct slab_worker *worker);

/* Returns a descriptor that is readable while there are answers. */
int slab_fd(const struct slab_worker *worker);
/*
 * Orders memory for a slab that has none, and its registration in @domain. @domain must stay open until the slab's
 * memory is gone. The worker answers once.
 */
void slab_prepare(struct slab_worker *worker, uint32_t slab, struct fabric_domain *domain);
/* Orders the end of a slab's memory and registration. The worker answers once. */
void slab_clear(struct slab_worker *worker, uint32_t slab);
/*
 * Says that the memory ordered for @slab is not needed any more. If the worker has not begun, it answers with
 * -ECANCELED. Does nothing if no such order is pending.
 */
void slab_abandon(struct slab_worker *worker, uint32_t slab);
/* Changes the reserve for all later orders. */
void slab_set_reserve(struct slab_worker *worker, uint64_t bytes);
/* Returns the files, which the worker still owns. */
struct slab_files slab_files(const struct slab_worker *worker);
/* Returns true if the slab's memory is in `slab_files.huge`. Call this function only if the worker has answered all
   slab_prepare() and slab_clear() calls for the slab. */
bool slab_is_huge(const struct slab_worker *worker, uint32_t slab);
/*
 * Maps the memory that a slab has in an inherited file, and registers it in @domain. Call it before the first order.
 * The slab is then as after slab_prepare(). Returns 0, -ENOMEM, or what fabric_register() returned. Logs one line if
 * the settings demand that the memory is locked, and locking fails.
 */
int slab_adopt(struct slab_worker *worker, uint32_t slab, bool huge, struct fabric_domain *domain,
	       struct fabric_region **ret_region);
/* Call this function before the first order. Returns to the kernel all inherited memory that was not adopted. If this
   fails, the worker zeroes each slab when it prepares the slab. */
void slab_discard_rest(struct slab_worker *worker);
/* Takes one answer without waiting. Returns false if there is none. */
bool slab_answer(struct slab_worker *worker, struct slab_answer *ret_answer);

#endif

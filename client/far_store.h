/*
 * far_store: what the parts of the far store (far.c, control.c, far_queue.c) share. Only inside client/.
 *
 * Theory of operation. Queues touch of this only what is atomic or fixed once far_open() has returned. When a chunk
 * needs the control thread (wanted, or emptied), or a donor was found dead, they leave a mark there and call
 * control_kick().
 *
 * Lock order: `attach`, then `lock`. Neither is taken by the data path.
 */
#ifndef CLIENT_FAR_STORE_H
#define CLIENT_FAR_STORE_H

#include "client/chunks.h"
#include "client/far.h"
#include "client/integrity.h"
#include "client/leases.h"
#include "client/session.h"
#include "common/auth.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/queue.h>

/* One donor. */
struct far_peer {
	char *uri;
	_Atomic int status; /* 0: in use; -errno: dead, and whoever set it first has kicked the control thread */
	_Atomic uint64_t donated, leased, slab_bytes, leased_here;
	_Atomic uint32_t clients;
	uint8_t session_key[AUTH_KEY_SIZE]; /* fixed once open */
	/* The control thread's own. */
	struct session session;
	bool buried; /* its death has been dealt with */
};

/* What queues count; each its own, added up on demand. */
struct far_counters {
	_Atomic uint64_t reads, writes, zero_reads, checksum_errors;
};

struct far_queue;

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

	pthread_mutex_t attach; /* one queue connects at a time: attach counters arrive in order */
	uint64_t attach_counter;

	pthread_mutex_t lock; /* the list of queues, `closed` */
	LIST_HEAD(, far_queue) queues;
	struct far_counters closed; /* of queues no longer open */
	_Atomic uint64_t queue_memory;
	_Atomic uint64_t discards, lost_pages;
	_Atomic uint64_t complained; /* when a checksum error was last logged */

	/* The control thread, and what it owns; control.c. */
	pthread_t thread;
	sem_t opened; /* posted once open_status is known */
	int open_status;
	int wake; /* eventfd */
	_Atomic bool kicked, stop;
	struct fabric *fabric;
	struct leases leases;
};

/* Adds to a counter that only the calling thread writes; others read it. */
static inline void far_count(_Atomic uint64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
			      memory_order_relaxed);
}

/* These pages read as zeroes again; what was held for them is given back. Any thread. */
void far_forget(struct far *far, uint64_t page, uint64_t count);
/* Declares a donor dead: @status, negative. Any thread. */
void far_peer_fail(struct far *far, unsigned peer, int status);

#endif

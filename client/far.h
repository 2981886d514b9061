/*
 * far: the store (include/farpage/store.h) whose pages live on donors.
 *
 * Theory of operation. The array is cut into chunks of one slab each. A chunk has no slab until its first write;
 * then a slab is leased for each replica on the donors that placement.c chooses. Of each page the client keeps a
 * checksum and a generation (10 bytes); every fetch is checked against them, so that a donor can lose pages but
 * never change them. A chunk whose last live page was discarded gives its slabs back, half a second later if it is not
 * written again. When a chunk is half full a slab for the next is asked for ahead: memory is mostly filled upwards, and
 * a donor takes a while to make one ready; unused, it goes back like any other.
 *
 * Threads. One control thread owns the sessions with the donors: handshake, leases, heartbeats. Each queue owns its
 * own data connections and is used by one thread. Chunks are shared through atomics.
 */
#ifndef CLIENT_FAR_H
#define CLIENT_FAR_H

#include "farpage/fabric.h"
#include "farpage/store.h"

#define FAR_DONORS_MAX 64
#define FAR_REPLICAS_MAX 3

struct far_config {
	const char *const *donors;   /* URIs; "tcp://host[:port]" */
	unsigned donor_count;        /* 1 .. FAR_DONORS_MAX */
	const uint8_t *key;          /* AUTH_KEY_SIZE bytes (common/auth.h), or NULL */
	uint64_t pages;              /* size of the array; 0: 4 x what the donors have free */
	unsigned replicas;           /* 1 .. FAR_REPLICAS_MAX, on as many donors; a lost replica is not made anew yet */
	unsigned grace_ms;           /* wished lease life after this process vanished */
	struct fabric_config fabric; /* connect_ms: each donor answers within this, or open fails naming it */
};

/*
 * Connects to all donors. Errors are logged, one line, naming the donor and the next step: -ECONNREFUSED,
 * -ETIMEDOUT, -EHOSTUNREACH, -ENOENT (name), -EPROTO (something else listens there), -EPROTONOSUPPORT (another
 * version), -EKEYREJECTED (wrong or missing key), -EBUSY (it has too many clients), -ENOSPC (nothing free and no size
 * given), -EINVAL (an option, or donors whose slabs differ in size), -ENOMEM.
 */
int far_open(const struct far_config *config, struct store **ret_store);

/* What one donor has, as last heard (`farpage donors`, placement). */
struct far_donor {
	const char *uri;                      /* as configured; owned by the store */
	int status;                           /* 0: connected; -errno: why not */
	uint64_t donated, leased, slab_bytes; /* bytes, all clients together */
	uint32_t clients;     /* far_donors: with this store; far_query: without the session that asked */
	uint64_t leased_here; /* bytes, this store */
};
/* Writes up to @max donors; returns how many there are. Any thread. @store came from far_open. */
unsigned far_donors(const struct store *store, struct far_donor *donors, unsigned max);

/* Asks one donor for its figures, with a session of its own, within fabric.connect_ms; ret_donor->uri is @uri. Logs as
   far_open does. */
int far_query(const struct far_config *config, const char *uri, struct far_donor *ret_donor);

#endif

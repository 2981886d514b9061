/*
 * far: the store (include/farpage/store.h) whose pages live on donors.
 *
 * Theory of operation. The array is cut into chunks of one slab each. A chunk has no slab until its first write;
 * then a slab is leased for each replica on the donors that placement.c chooses. Of each page the client keeps a
 * checksum and a generation (10 bytes); every fetch is checked against them, so that a donor can lose pages but
 * never change them. With `encrypt` pages are sealed before they leave (26 bytes), so that it cannot read them, either.
 * A chunk whose last live page was discarded gives its slabs back, half a second later if it is not
 * written again. When a chunk is half full a slab for the next is asked for ahead: memory is mostly filled upwards, and
 * a donor takes a while to make one ready; unused, it goes back like any other.
 *
 * A donor that cannot be reached for a while (comeback.h) costs the time, not the pages: requests to it wait, and go on
 * when it is reached again and still has what it held; after timeout_ms, or once that cannot be, it is lost.
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
#define FAR_SLOTS_MAX (FAR_REPLICAS_MAX + 1) /* of a chunk: one more, for a replica that takes another's place */
#define FAR_URI_MAX 320
#define FAR_BACKUP_MAX 1024 /* of a backup's path, with the 0 after it */
#define FAR_DOMAIN_SIZE 32  /* of a failure domain's name, with the 0 after it */
/* The scrub_rate that programs choose when they are not told: it costs nothing to speak of. */
#define FAR_SCRUB_RATE (UINT64_C(2) << 20)

struct far_config {
	const char *const *donors; /* URIs; "tcp://host[:port]", "rdma://...", or "auto://...": rdma, else tcp */
	unsigned donor_count;      /* 1 .. FAR_DONORS_MAX */
	const uint8_t *key;        /* AUTH_KEY_SIZE bytes (common/auth.h), or NULL */
	uint64_t pages;            /* size of the array; 0: 4 x what fits on the donors, each page with its replicas */
	unsigned replicas; /* 1 .. FAR_REPLICAS_MAX, in as many failure domains of donors; a lost one is made anew on
			      another */
	bool go_without;   /* a donor that cannot be reached may come later, if the others are in enough domains for
			      the replicas; else all have to be there when a store is opened */
	uint64_t rebuild_rate; /* bytes/s that are copied to make it anew, a quarter of that while requests are in
				  flight; 0: 256 MiB/s */
	uint64_t scrub_rate;   /* bytes/s of pages that nobody reads that are read and checked, each replica, a quarter
				  of that while requests are in flight; 0: none */
	bool encrypt;          /* pages leave encrypted and authenticated (seal.h), with a key of this store's own */
	unsigned grace_ms;     /* wished lease life after this process ended; at least 2 s; 0 with a state file: 60 s.
				  After this process fell silent, which may be a pause: at least 601 s, and a second
				  more than timeout_ms */
	unsigned timeout_ms;   /* a donor that cannot be reached for this long is lost; 0: as far_timeout_ms() has it */
	/*
	 * A file in memory (of a ramfs, or /proc/self/fd/N of a memfd) that keeps what another process needs to go on
	 * with this store when this one has ended, however it ends: the map of slabs, checksums, generations. NULL:
	 * nowhere. Empty: a new store. Else the store of a process that has ended, which is adopted: its size, donors
	 * and replicas are what they were (-EINVAL when the configuration says otherwise), its slabs are claimed, and
	 * donors that do not answer are waited for like those that went away. Writes that were under way then are to be
	 * repeated by the caller; until then their pages are old, new, or read as -EBADMSG. One process at a time uses
	 * it (-EBUSY). Donors keep the slabs for grace_ms after the process has ended. store_close() leaves the file
	 * empty.
	 */
	const char *state_file;
	/*
	 * A file or block device on a local disk, or NULL: all pages are copied there behind the writes' back
	 * (backup.h), and are read there when no donor has them any more. A file is made and goes with the store;
	 * whatever else has that name is refused. Of a store that is adopted: what it was.
	 */
	const char *backup;
	uint64_t backup_bytes; /* memory for pages on their way there: 2, 4 or 8 MiB, the most of these that this
				  allows; 0: 8 MiB */
	/* connect_ms: each donor answers within this, or open fails naming it; io_ms: an operation that takes longer
	   breaks its connection, which is set up anew; no more than timeout_ms; 0: as the fabric has it with replicas,
	   with one copy half of timeout_ms, 10 s at most. */
	struct fabric_config fabric;
};

/* For how long a store of this configuration waits for a donor out of reach, ms. By default five seconds, if pages are
   elsewhere, too (replicas, or a backup); ten minutes if not. */
unsigned far_timeout_ms(const struct far_config *config);
/* What far_open() would refuse whatever donors say, of those who use it; the same errors, logged. */
int far_check(const struct far_config *config);
/*
 * Connects to all donors, but see go_without. Errors are logged, one line, naming the donor and the next step:
 * -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH, -ENOENT (name), -EPROTO (something else listens there), -EPROTONOSUPPORT
 * (another version), -ELIBACC (no library to encrypt with), -EKEYREJECTED (wrong or missing key), -EBUSY (it has too
 * many clients), -ENOSPC (nothing free and no size given), -EINVAL (an option, donors whose slabs differ in size, or in
 * fewer failure domains than replicas), -ENOMEM, -EBUSY (the state file is in use), or what backup_disk.h says.
 *
 * A store that is adopted is open as soon as one donor has answered and still has its slabs; the others may come until
 * timeout_ms is over. When none does, or one refuses the key, it fails with that donor's error and what is in the state
 * file stays as it is: adopting it can be tried again.
 */
int far_open(const struct far_config *config, struct store **ret_store);

/* As store_close(), but leases stay, for a process that adopts the state file. @store came from far_open with one. */
void far_leave(struct store *store);

/* What one donor has, as last heard (`farpage donors`, placement). */
struct far_donor {
	const char *uri;                      /* as configured; owned by the store */
	char via[FAR_URI_MAX];                /* the way taken: rdma:// or tcp:// where that was left open */
	char domain[FAR_DOMAIN_SIZE];         /* its failure domain; "": one of its own */
	int status;                           /* 0: connected; -errno: why not */
	bool away;                            /* it was, and is waited for; status: 0 */
	uint64_t donated, leased, slab_bytes; /* bytes, all clients together */
	uint32_t state;       /* enum wire_state (wire.h): lending, shrinking, draining; far_query alone */
	uint32_t clients;     /* far_donors: with this store; far_query: without the session that asked */
	uint64_t leased_here; /* bytes, this store */
};
/* Writes up to @max donors; returns how many there are. Any thread. @store came from far_open. */
unsigned far_donors(const struct store *store, struct far_donor *donors, unsigned max);

/* Asks one donor for its figures, with a session of its own, within fabric.connect_ms; ret_donor->uri is @uri. Logs as
   far_open does. */
int far_query(const struct far_config *config, const char *uri, struct far_donor *ret_donor);

#endif

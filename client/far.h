/*
 * far: the store (client/store.h) whose pages live on donors.
 *
 * Theory of operation. The array is cut into chunks of one slab each. A chunk has no slab until its first write. Then a
 * slab is leased for each replica, on the donors that placement.c chooses. The client keeps a checksum and a generation
 * of each page (10 bytes) and checks every fetch against them. So a donor can lose pages, but cannot change them
 * unnoticed. With `encrypt`, pages are sealed before they leave (26 bytes), so a donor cannot read them either.
 *
 * A chunk whose last live page was discarded gives its slabs back half a second later, unless it is written again. When
 * a chunk is half full, the client asks for a slab for the next chunk. Programs mostly fill memory upwards, and a donor
 * takes a while to make a slab ready. If the slab stays unused, it is given back like any other.
 *
 * A donor may be out of reach for a while (comeback.h). Requests to it wait. They go on when the donor is reached again
 * and still has its slabs. So an outage costs time, not pages. The donor is lost after timeout_ms, or as soon as its
 * memory is known to be gone.
 *
 * Threads. One control thread owns the sessions with the donors: handshake, leases, heartbeats. Each queue owns its own
 * data connections and is used by one thread. Chunks are shared through atomics.
 */
#ifndef CLIENT_FAR_H
#define CLIENT_FAR_H

#include "client/store.h"
#include "fabric/fabric.h"

#define FAR_DONORS_MAX 64
#define FAR_REPLICAS_MAX 3
/* The slots of a chunk: one for each replica, and one for a replica that takes another's place. */
#define FAR_SLOTS_MAX (FAR_REPLICAS_MAX + 1)
#define FAR_URI_MAX 320
#define FAR_BACKUP_MAX 1024        /* size of a backup's path, with its final 0 */
#define FAR_FAILURE_DOMAIN_SIZE 32 /* size of a failure domain's name, with its final 0 */
/* The scrub_rate of programs whose user gives none. The cost of this rate is negligible. */
#define FAR_SCRUB_RATE (UINT64_C(2) << 20)

struct far_config {
	const char *const *donors; /* URIs: tcp://host[:port], rdma://..., or auto://... (RDMA if possible, else TCP) */
	unsigned donor_count;      /* 1 .. FAR_DONORS_MAX */
	/*
	 * The file that names the donors (common/donors_file.h), by its absolute path, or NULL if the donors are fixed. The
	 * store follows this file: donors are added and let go while the store is open (client/donor/donors_list.h). When
	 * the store is opened, the file takes the place of `donors`. If it cannot be read then, `donors` are used.
	 */
	const char *donors_file;
	const uint8_t *key; /* AUTH_KEY_SIZE bytes (wire/auth.h), or NULL */
	/* The size of the array. 0 means four times the pages that fit on the donors with all replicas. */
	uint64_t pages;
	/* 1 .. FAR_REPLICAS_MAX. Each replica is in another failure domain. A lost replica is made anew on another
	 * donor. */
	unsigned replicas;
	/* If true, the store opens although some donors cannot be reached. It uses these donors once they answer. The
	   other donors must be in enough failure domains for the replicas. If false, all donors must be reached when
	   the store is opened. */
	bool go_without;
	/* Bytes/s that the rebuild thread copies to make replicas anew, or 0 for 256 MiB/s. The rate is a quarter of
	   this while requests are in flight. It is unlimited while a donor wants slabs back. */
	uint64_t rebuild_rate;
	/* Bytes/s that the scrub reads to check the pages of each replica, or 0 for no scrub. The rate is a quarter of
	   this while requests are in flight. */
	uint64_t scrub_rate;
	/* If true, pages are sealed before they leave (seal.h), with a key that only this store uses. */
	bool encrypt;
	/* The grace time that donors are asked for, after this process has ended. The least is 2 s. 0 means 2 s, or 60
	   s with a state file. A process that only falls silent may be paused. For that case, donors are asked for at
	   least 601 s, and at least 1 s more than timeout_ms. */
	unsigned grace_ms;
	unsigned timeout_ms; /* a donor out of reach for this long is lost; 0 for the default of far_timeout_ms() */
	/*
	 * A file in memory (on a ramfs, or /proc/self/fd/N of a memfd), or NULL for none. With it, another process can
	 * adopt this store after this process has ended. The file holds the map of slabs, the checksums and the
	 * generations. Only one process at a time may use the file (-EBUSY).
	 *
	 * An empty file begins a new store. Any other file is the store of a process that has ended, and is adopted.
	 * Opening fails with -EINVAL if this configuration has another size, other donors, replicas or backup, or
	 * differs in encryption. With a donors file, other donors are no error: the store's own donors are used first,
	 * and then the file is followed. The store's slabs are claimed. Donors that do not answer are waited for, like donors
	 * that went away.
	 *
	 * The caller must repeat the writes that were under way when the earlier process ended. Until then, a page of
	 * such a write has its old or its new contents, or reads as -EBADMSG.
	 *
	 * Donors keep the slabs for grace_ms after the process has ended. store_close() leaves the file empty.
	 */
	const char *state_file;
	/*
	 * A file or block device on a local disk, or NULL. All pages are copied there after their writes complete
	 * (backup.h). They are read there when no donor has them any more. A backup file is created with the store and
	 * removed with it. If another file has that name, opening fails. An adopted store needs the same backup as
	 * before.
	 */
	const char *backup;
	/* Memory for pages on their way to the backup: 2, 4 or 8 MiB, the largest of these within this limit. 0 means 8
	   MiB. */
	uint64_t backup_bytes;
	/*
	 * Deadlines of the network:
	 *
	 *   connect_ms  Each donor must answer within this time, or opening fails and names the donor.
	 *   io_ms       An operation that takes longer breaks its connection, which is then made anew. The most is
	 *               timeout_ms. 0 is the default: with replicas the fabric's, with one copy half of timeout_ms, but
	 *               at most 10 s.
	 */
	struct fabric_config fabric;
};

/* Returns for how many ms a store of this configuration waits for a donor that is out of reach. The default is five
   seconds if there are replicas or a backup, and ten minutes otherwise. */
unsigned far_timeout_ms(const struct far_config *config);
/* Does those checks of far_open() that need no donor. Returns 0, -EINVAL or -ELIBACC, with the same log lines. */
int far_check(const struct far_config *config);
/*
 * Opens a store. Connects to all donors, but see go_without. Logs an error in one line that names the donor and the
 * next step:
 *
 *   -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH  the donor cannot be reached
 *   -ENOENT                                   the donor's name does not resolve
 *   -EPROTO                                   another service listens there
 *   -EPROTONOSUPPORT                          the donor has another version
 *   -ELIBACC                                  there is no library to encrypt with
 *   -EKEYREJECTED                             the key is wrong or missing
 *   -EBUSY                                    the donor has too many clients, or the state file is in use
 *   -ENOSPC                                   nothing is free on the donors and no size is given
 *   -EINVAL                                   an option is wrong, or donors' slabs differ in size, or donors are in
 *                                             fewer failure domains than replicas
 *   -ENOMEM                                   there is no memory
 *   others                                    see backup_disk.h
 *
 * An adopted store is open as soon as one donor has answered and still has its slabs. The other donors are waited for,
 * until timeout_ms is over. If no donor has the slabs, or one rejects the key or the protocol version, opening fails
 * with that donor's error. The state file then stays as it is, so that adopting can be tried again. With a backup, the
 * store also opens if all donors are lost and hold nothing of it.
 */
int far_open(const struct far_config *config, struct store **ret_store);

/* Closes like store_close(), but keeps the leases for a process that adopts the state file. @store must come from
   far_open() with a state file. */
void far_leave(struct store *store);

/* The last known figures of one donor, for `farpage donors` and placement. */
struct far_donor_info {
	const char *uri;                              /* as configured; owned by the store */
	char via[FAR_URI_MAX];                        /* the address in use: rdma:// or tcp:// in place of auto:// */
	char failure_domain[FAR_FAILURE_DOMAIN_SIZE]; /* its failure domain, or "" for one of its own */
	int status;                                   /* 0 if connected or waited for, or -errno if lost */
	bool away;                                    /* out of reach, and waited for */
	uint64_t donated, leased, slab_bytes;         /* in bytes, for all clients together */
	uint32_t state;                               /* enum wire_state (wire.h); set only by far_query() */
	uint32_t clients;     /* far_donors() counts this store; far_query() omits its own session */
	uint64_t leased_here; /* bytes that this store leases */
};
/* Writes up to @max donors to @donors. Returns how many donors there are, without those that were let go. Any thread.
   @store came from far_open(). */
unsigned far_donors(const struct store *store, struct far_donor_info *donors, unsigned max);

/* Asks one donor for its figures, in a session of its own, within fabric.connect_ms. ret_donor->uri is @uri. Errors are
   those of far_open(), and are logged in the same way. */
int far_query(const struct far_config *config, const char *uri, struct far_donor_info *ret_donor);

#endif

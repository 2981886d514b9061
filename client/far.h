/*
 * far: the store (client/store.h) whose pages live on donors.
 *
 * Theory of operation. The page array is divided into chunks, and each chunk fills one slab. The first write to a
 * chunk leases a slab for each replica, on donors that placement.c chooses. Later writes and reads of the chunk go
 * to these slabs. When the last live page of a chunk is discarded, the client waits half a second and then releases
 * the slabs. If the chunk is written again in that time, it keeps the slabs.
 *
 * Programs mostly fill memory upwards, and a donor needs tens of milliseconds to make a slab ready. So when a chunk
 * is half full, the client already asks for a slab for the next chunk. A slab that stays unused is released like
 * any other.
 *
 * Integrity. The client stores a checksum and a generation of each page (10 bytes), and checks every fetched page
 * against them. A donor can therefore lose a page, but it cannot change a page unnoticed. With `encrypt`, pages are
 * also encrypted before they are sent, so a donor cannot read them. This takes 26 bytes for each page.
 *
 * Outages. If a donor is out of reach, requests for its pages wait (comeback.h). When the donor can be reached
 * again and still has the slabs, the requests continue, so a short outage costs time but no pages. The donor is
 * lost after timeout_ms, or as soon as its memory is known to be gone. A donor is lost later if no donor in reach has
 * another copy of some page (last_timeout_ms).
 *
 * Threads. One control thread owns the sessions with the donors: handshake, leases, heartbeats. Each queue owns its
 * own data connections and is used by one thread. Threads share the chunks through atomics.
 */
#ifndef CLIENT_FAR_H
#define CLIENT_FAR_H

#include "client/store.h"
#include "fabric/fabric.h"

#define FAR_DONORS_MAX 1024
/* A store with a donors file can add this many donors to those it was opened with, up to FAR_DONORS_MAX. */
#define FAR_DONORS_MORE 64
/* A queue of a store with more donors connects to a donor when it first uses it; otherwise when it is opened. */
#define FAR_DONORS_EAGER 64
#define FAR_REPLICAS_MAX 3
/* The slots of a chunk: one for each replica, and one for the slab that replaces a replica. */
#define FAR_SLOTS_MAX (FAR_REPLICAS_MAX + 1)
#define FAR_URI_MAX 320
#define FAR_BACKUP_MAX 1024        /* size of a backup's path, with the final 0 */
#define FAR_FAILURE_DOMAIN_SIZE 32 /* size of a failure domain's name, with the final 0 */
/* The scrub rate of programs whose user sets none. Its cost is negligible. */
#define FAR_SCRUB_RATE (UINT64_C(2) << 20)

struct far_config {
	const char *const *donors; /* URIs: tcp://host[:port], rdma://..., or auto://... (RDMA if possible, else TCP) */
	unsigned donor_count;      /* 1 .. FAR_DONORS_MAX */
	/*
	 * The absolute path of the donors file (common/donors_file.h), or NULL if the donors never change. When the
	 * store is opened, the file replaces `donors`, which are used only if the file cannot be read. Afterwards the
	 * open store follows the file: it adds and removes donors (client/donor/donors_list.h).
	 */
	const char *donors_file;
	const uint8_t *key; /* AUTH_KEY_SIZE bytes (wire/auth.h), or NULL */
	/*
	 * The user's name and the command that donors' operators see (client/donor/about.h). NULL means the user's
	 * number, and the name of the process. far_open() and far_query() copy both.
	 */
	const char *user, *command;
	/* The size of the array in pages. 0 means four times the sum of local_pages and the pages that fit on the
	   donors, with all replicas. */
	uint64_t pages, local_pages;
	/* 1 .. FAR_REPLICAS_MAX. Each replica is in another failure domain. If a replica is lost, its pages are
	   copied to another donor. */
	unsigned replicas;
	/* If true, the store opens although some donors cannot be reached, and uses them once they answer. The
	   donors that do answer must be in enough failure domains for the replicas. If false, opening fails unless
	   all donors answer. */
	bool go_without;
	/* If true, a queue connects to a donor when it first uses the donor. Always so with more than
	   FAR_DONORS_EAGER donors, because most queues use few of them. */
	bool connect_late;
	/* The rate in bytes/s at which the rebuild thread copies pages to new replicas, or 0 for 256 MiB/s. While
	   requests are in flight, the rebuild uses a quarter of this. While a donor recalls slabs, the rate is
	   unlimited. */
	uint64_t rebuild_rate;
	/* The rate in bytes/s at which the scrub reads the pages of each replica to check them, or 0 for no scrub.
	   While requests are in flight, the scrub uses a quarter of this. */
	uint64_t scrub_rate;
	/* If true, pages are encrypted before they are sent (seal.h), with a key that only this store has. */
	bool encrypt;
	/* How long donors keep the slabs after this process has ended (the grace time). The least is 2 s. 0 means 2
	   s, or 60 s with a state file. A process that falls silent without ending may only be paused. In this case
	   donors keep the slabs longer: at least 601 s, and at least last_timeout_ms plus 1 s. */
	unsigned grace_ms;
	unsigned timeout_ms; /* a donor out of reach for this long is lost; 0 for the default of far_timeout_ms() */
	/* A donor out of reach that has the last copy of a page is lost after this long, but not before timeout_ms.
	   0 for the default: timeout_ms if it is given, otherwise ten minutes. Not used with a backup. */
	unsigned last_timeout_ms;
	/*
	 * The path of a state file in memory (on a ramfs, or /proc/self/fd/N of a memfd), or NULL for none. The
	 * file holds the map of slabs, the checksums and the generations, so that another process can adopt this
	 * store after this process has ended. Only one process at a time may use the file (-EBUSY).
	 *
	 * If the file is empty, a new store begins. Otherwise the file holds the store of a process that has ended,
	 * and far_open() adopts that store. It claims the store's slabs from the donors. A donor that does not answer
	 * counts as away. far_open() fails with -EINVAL if this configuration differs in size, donors, replicas,
	 * backup or encryption. With a donors file, donors may differ: the store first uses the donors named in the
	 * state file, and then follows the donors file.
	 *
	 * The caller must repeat the writes that were in flight when the earlier process ended. Until a write is
	 * repeated, each read of its pages returns the old or the new contents, or fails with -EBADMSG.
	 *
	 * Donors keep the slabs for grace_ms after the process has ended. store_close() empties the file.
	 */
	const char *state_file;
	/*
	 * The path of a file or block device on a local disk, or NULL. After the write of a page is complete, the
	 * page is copied to this backup (backup.h). The page is read from the backup if no donor has it any more. A
	 * backup file is created with the store and removed with it. If another file has that name, opening fails. To
	 * adopt a store, give the backup that it had.
	 */
	const char *backup;
	/* Memory for pages on their way to the backup: 2, 4 or 8 MiB, whichever is the largest within this limit. 0
	   means 8 MiB. */
	uint64_t backup_bytes;
	/*
	 * Deadlines of the network:
	 *
	 *   connect_ms  If a donor does not answer within this time, opening fails and names the donor.
	 *   io_ms       If an operation takes longer than this, the queue ends the connection and makes a new one. At
	 *               most timeout_ms. 0 means: with replicas the fabric's own limit; with one copy half of
	 *               timeout_ms, but at most 10 s.
	 */
	struct fabric_config fabric;
	/* The most requests in flight on a queue: a power of two, at most 512. 0 means 512. Each queue has memory for
	   as many. */
	unsigned queue_depth;
};

/* Returns how many ms a store of this configuration waits for a donor that is out of reach. The default is five
   seconds with replicas or a backup. Otherwise the default is ten minutes, because a lost donor's pages are lost. */
unsigned far_timeout_ms(const struct far_config *config);
/* The same for a donor that has the last copy of a page. */
unsigned far_last_timeout_ms(const struct far_config *config);
/* Checks the configuration like far_open(), but contacts no donor. Returns 0, -EINVAL or -ELIBACC, with the same
   log lines. */
int far_check(const struct far_config *config);
/*
 * Opens a store. Connects to all donors, but see go_without. Each error is logged in one line that names the donor
 * and the next step:
 *
 *   -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH  the donor cannot be reached
 *   -ENOENT                                   the donor's name does not resolve
 *   -EPROTO                                   another service listens there
 *   -EPROTONOSUPPORT                          the donor has another version
 *   -ELIBACC                                  the library for encryption is missing
 *   -EKEYREJECTED                             the key is wrong or missing
 *   -EBUSY                                    the donor has too many clients, or the state file is in use
 *   -ENOSPC                                   nothing is free on the donors and no size is given
 *   -EINVAL                                   an option is wrong, or donors' slabs differ in size, or donors are in
 *                                             fewer failure domains than replicas
 *   -ENOMEM                                   there is no memory
 *   others                                    see backup_disk.h
 *
 * An adopted store is open as soon as one donor has answered and still has its slabs. The store waits for the other
 * donors until timeout_ms is over. Opening fails if no donor has the slabs, or if a donor with slabs rejects the key
 * or the protocol version. The error is that of such a donor. The state file then stays unchanged, so that the caller
 * can try again. An adopted store with a backup also opens if all donors are lost and none of them holds its slabs,
 * because its pages are on the backup.
 */
int far_open(const struct far_config *config, struct store **ret_store);

/* Closes the store, but does not release its leases, so that another process can adopt the state file. @store must
   come from far_open() with a state file. */
void far_leave(struct store *store);

struct far_donor_info {
	const char *uri;                              /* as configured; owned by the store */
	char via[FAR_URI_MAX];                        /* the address in use: rdma:// or tcp:// instead of auto:// */
	char failure_domain[FAR_FAILURE_DOMAIN_SIZE]; /* the donor's failure domain, or "" for none */
	int status;                                   /* 0 if connected or waited for, or -errno if lost */
	bool away;                                    /* the donor is out of reach and waited for */
	uint64_t donated, leased, slab_bytes;         /* in bytes, for all clients together */
	uint32_t state;                               /* enum wire_state (wire.h); set only by far_query() */
	uint32_t clients;     /* far_donors() counts this store; far_query() does not count its own session */
	uint64_t leased_here; /* bytes that this store leases */
};
/* Writes up to @max donors to @donors, without donors that were removed. Returns how many there are. @store came
   from far_open(). Any thread. */
unsigned far_donors(const struct store *store, struct far_donor_info *donors, unsigned max);

/* Asks one donor for its figures, in a separate session, within fabric.connect_ms. ret_donor->uri is @uri. Returns
   and logs errors like far_open(). */
int far_query(const struct far_config *config, const char *uri, struct far_donor_info *ret_donor);

#endif

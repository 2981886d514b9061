/*
 * state: what another process needs to go on with a far store, in a file in memory.
 *
 * Theory of operation. The file is mapped by one process at a time, which holds a lock on it, and is used as the
 * store's own memory: nothing is copied, and whatever moment the process is killed at, the file has what it knew.
 *
 *   header       what never changes: sizes, the client's id, the integrity secret, the donors' addresses, with a
 *                checksum over it; and what changes rarely: which start of each donor's program has our slabs
 *   chunks       chunks.h, and their attention
 *   generations  integrity.h
 *   checksums    or what opens sealed pages
 *
 * It is sparse: a store of 1 TiB costs the header and its chunks (192 bytes each) until something is written; what is
 * kept of a chunk's pages is filled in before its slab is asked for. The donors' key is not in it; that of sealed pages
 * is a part of the secret.
 *
 * A new file gets its header before it gets its full length, and donors are asked for slabs after that: a file of any
 * other length than nothing or the header's alone is a store with everything, or damaged. When a store is closed for
 * good its file is empty again.
 *
 * Trust. The file is the owner's alone; it is checked for damage, not for malice. state_adopt() is the one validator:
 * once it says yes, nothing in the header or the chunks can lead outside of the arrays or to a donor that is not there.
 * What is wrong in generations and checksums shows as pages that are lost or do not match. What a process that was
 * killed left half done is made good by state_recover(); chunks.h and integrity.h tell what that can be.
 *
 * Threads: one; the arrays have their own rules.
 */
#ifndef CLIENT_STATE_H
#define CLIENT_STATE_H

#include "client/chunks.h"
#include "client/far.h"
#include "client/integrity.h"
#include "farpage/wire.h"

#define STATE_MAGIC UINT64_C(0x3145544154535046) /* "FPSTATE1" */
/* Another one whenever what is kept, or what it means, changes: also in chunks.h and integrity.h. */
#define STATE_VERSION 3u
#define STATE_HEADER_BYTES 32768u

struct state_header {
	uint64_t magic;
	uint32_t version;
	uint32_t chunk_bytes; /* sizeof(struct chunk) */
	uint64_t sum;         /* of what follows, up to `incarnations` */
	uint64_t pages, chunk_pages;
	uint32_t replicas, donor_count;
	uint64_t sealed; /* 1: pages are; else 0 */
	uint8_t id[WIRE_ID_SIZE];
	uint8_t secret[INTEGRITY_SECRET_SIZE];
	char uris[FAR_DONORS_MAX][FAR_URI_MAX];
	char backup[FAR_BACKUP_MAX]; /* its path; "": none */
	/* Of each donor; 0: none has slabs of ours, or those it had were given up as lost. */
	_Atomic uint64_t incarnations[FAR_DONORS_MAX];
	_Atomic uint64_t numbers; /* of seals; integrity.h */
};
_Static_assert(sizeof(struct state_header) <= STATE_HEADER_BYTES, "the header has its place");

struct state;

/*
 * Opens the file, which is made if it is not there, and locks it. Errors are logged, here and below, one line:
 * -EBUSY: another process uses it; -EINVAL: not a file; or whatever open says.
 */
int state_open(const char *path, struct state **ret_state);
/* Whether there is no store in it. */
bool state_is_new(const struct state *state);
/* Lays out a store of @pages in chunks of @chunk_pages. The rest is @config's. -ENOMEM, or whatever the file system
 * says. */
int state_create(struct state *state, const struct far_config *config, uint64_t pages, uint64_t chunk_pages,
		 const uint8_t id[WIRE_ID_SIZE]);
/* Takes what is there, unless it is damaged or @config says otherwise: -EINVAL, and nothing is changed. */
int state_adopt(struct state *state, const struct far_config *config);
/* Ends what the process before was in the middle of, and populates what is in use; *ret_lost: pages found lost. Once,
   after state_adopt(). -ENOMEM. */
int state_recover(struct state *state, uint64_t *ret_lost);

/* Of one created or adopted. The tables are valid until state_close(). */
struct state_header *state_header(struct state *state);
void state_tables(struct state *state, struct chunk_table *ret_table, struct integrity *ret_integrity);

/* @empty: the store has ended, another may begin in the file. Else it stays for another process. Takes NULL. */
void state_close(struct state *state, bool empty);

#endif

/*
 * state: the state file, with which another process can adopt a far store.
 *
 * Theory of operation. One process at a time maps the file, and holds a lock on it. The mapping is the store's own
 * memory: nothing is copied. So the file is up to date at whatever moment the process is killed.
 *
 *   header       sizes, the client's id, the integrity secret, and the donors' addresses: fixed, and covered by a
 *                checksum. Then the incarnation of each donor that has our slabs, the counter of seal numbers, and the
 *                number of donors that were added since. Their addresses follow the fixed ones, without a checksum.
 *   chunks       see chunks.h, with their attention bits
 *   generations  see integrity.h
 *   checksums    or, for sealed pages, the records that open them
 *
 * The file is sparse. Before the first write, a store of 1 TiB costs the header and its chunks (192 bytes each). The
 * generations and checksums of a chunk's pages are populated before its slab is asked for. The file does not contain
 * the donors' key. The key of sealed pages is a part of the secret.
 *
 * A new file gets its header first, then its full length. Only then are donors asked for slabs. So a file that is
 * neither empty nor as long as the header alone holds a whole store, or is damaged. When a store is closed for good,
 * its file is emptied.
 *
 * Trust. Only the owner can access the file. It is checked for damage, not for malice. state_adopt() is the one
 * validator. Once it has succeeded, nothing in the header or the chunks can lead outside the arrays, or to a donor that
 * does not exist. Damage in generations and checksums shows as pages that are lost or do not match. state_recover()
 * completes or undoes the changes that a killed process left half done. chunks.h and integrity.h list the cases.
 *
 * Threads: one. The arrays have their own rules.
 */
#ifndef CLIENT_STATE_H
#define CLIENT_STATE_H

#include "client/far.h"
#include "client/page/chunks.h"
#include "client/page/integrity.h"
#include "wire/wire.h"

#define STATE_MAGIC UINT64_C(0x3145544154535046) /* "FPSTATE1" */
/* Must change whenever the contents of the file, or their meaning, change, also by a change of chunks.h or
   integrity.h. */
#define STATE_VERSION 3u
#define STATE_HEADER_BYTES 32768u

struct state_header {
	uint64_t magic;
	uint32_t version;
	uint32_t chunk_bytes; /* sizeof(struct chunk) */
	uint64_t sum;         /* checksum of the fields from here to `incarnations` */
	uint64_t pages, chunk_pages;
	uint32_t replicas, donor_count;
	uint64_t sealed; /* 1 if pages are sealed, otherwise 0 */
	uint8_t id[WIRE_ID_SIZE];
	uint8_t secret[INTEGRITY_SECRET_SIZE];
	char uris[FAR_DONORS_MAX][FAR_URI_MAX];
	char backup[FAR_BACKUP_MAX]; /* the backup's path, or "" for none */
	/* For each donor, the incarnation that has slabs of ours. 0 if none has, or if its slabs were given up as
	   lost. */
	_Atomic uint64_t incarnations[FAR_DONORS_MAX];
	_Atomic uint64_t numbers; /* where the next block of seal numbers begins (seal.h) */
	/* Donors that a donors file has added, behind the first donor_count donors in `uris`. 0 in files of programs that
	   could not add donors, which refuse a file with such donors. */
	_Atomic uint64_t added;
};
_Static_assert(sizeof(struct state_header) <= STATE_HEADER_BYTES, "the header has its place");

struct state;

/*
 * Opens the file, creating it if necessary, and locks it. This function and those below log each error in one line,
 * except -ENOMEM of this one. Returns 0, -EBUSY if another process uses the file, -EINVAL if it is not a regular file,
 * or the error of open() or flock().
 */
int state_open(const char *path, struct state **ret_state);
/* Returns true if the file holds no store. */
bool state_is_new(const struct state *state);
/* Lays out a new store of @pages pages in chunks of @chunk_pages. @config has all else. Returns 0, -ENAMETOOLONG,
   -EFBIG, -ENOMEM, or the file system's error. */
int state_create(struct state *state, const struct far_config *config, uint64_t pages, uint64_t chunk_pages,
		 const uint8_t id[WIRE_ID_SIZE]);
/* Takes over the store in the file. Returns -EINVAL, and changes nothing, if the file is damaged or if @config asks for
   another store. Returns -ENOMEM if there is no memory. */
int state_adopt(struct state *state, const struct far_config *config);
/* Completes the changes that the earlier process left half done, and populates the memory in use. *ret_lost is the
   number of pages found lost. Must be called once, after state_adopt(). Returns 0 or -ENOMEM. */
int state_recover(struct state *state, uint64_t *ret_lost);

/* Returns how many donors the store has. Donors that were let go count. */
unsigned state_donor_count(struct state *state);
/* Adds a donor behind the last one. @uri is shorter than FAR_URI_MAX, and there is room. The control thread's. */
void state_donor_add(struct state *state, const char *uri);

/* The next two functions need a store that was created or adopted. The header and the tables are valid until
   state_close(). */
struct state_header *state_header(struct state *state);
void state_tables(struct state *state, struct chunk_table *ret_table, struct integrity *ret_integrity);

/* Closes the file. If @empty is true, the store has ended, and the file is emptied for another one. Otherwise the store
   stays for another process. NULL is allowed. */
void state_close(struct state *state, bool empty);

#endif

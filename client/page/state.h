/*
 * state: the state file, from which another process can adopt a far store.
 *
 * Theory of operation. state_open() opens the file and locks it, so that only one process uses it. For a new store,
 * state_create() writes the file. For the store of an ended process, state_adopt() checks the file, and
 * state_recover() completes or undoes the changes that the ended process left half done. The file is mapped, and
 * the mapping is the store's own memory. Nothing is copied, so the file is up to date whenever the process is
 * killed.
 *
 *   header       Fixed, and covered by a checksum: sizes, the client's id, the integrity secret, and the donors'
 *                addresses. Not covered: the incarnation of each donor that has our slabs, the counter of seal
 *                numbers, and the donors that were added later. Their addresses follow the fixed addresses. A donor
 *                is added by writing its address, and then the new number of donors.
 *   chunks       see chunks.h, with their attention bits
 *   generations  see integrity.h
 *   checksums    or, for sealed pages, the records that open them
 *   donors       those beyond STATE_DONORS. Absent if the store can never have so many, and in files of older versions,
 *                which then refuse the file because of its length.
 *
 * The file is sparse. Before the first write, a store of 1 TiB takes only the header and its chunks (192 bytes
 * each). The generations and checksums of a chunk's pages are populated before its first slab is asked for. The
 * file does not contain the key that the donors know. The key of sealed pages is part of the integrity secret.
 *
 * state_create() writes the header first and then sets the full length. Donors are asked for slabs only after that.
 * So a file that is empty or has the length of the header holds no slabs, and is used like a new file. Any other file
 * holds a whole store, or is damaged. When a store is closed for good, its file is emptied.
 *
 * Trust. Only the owner can access the file, so it is checked for damage but not for malice. state_adopt() is the
 * only check. After it, nothing in the header or the chunks refers to memory outside the arrays, or to a donor that
 * does not exist. Damage in generations and checksums shows later, as pages that are lost or do not match.
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
/* Must change with each change of the file's format or meaning, which includes the structs of chunks.h and
   integrity.h. */
#define STATE_VERSION 3u
#define STATE_HEADER_BYTES 32768u
#define STATE_DONORS 64u /* the donors in the header */

struct state_header {
	uint64_t magic;
	uint32_t version;
	uint32_t chunk_bytes; /* sizeof(struct chunk) */
	uint64_t sum; /* the checksum of `pages` to `backup`, without the addresses of added donors; 0 until the store
			 is complete */
	uint64_t pages, chunk_pages;
	uint32_t replicas, donor_count;
	uint64_t sealed; /* 1 if pages are sealed, otherwise 0 */
	uint8_t id[WIRE_ID_SIZE];
	uint8_t secret[INTEGRITY_SECRET_SIZE];
	char uris[STATE_DONORS][FAR_URI_MAX];
	char backup[FAR_BACKUP_MAX]; /* the backup's path, or "" for none */
	/* For each donor, the incarnation that has slabs of ours. 0 if none has, or if the slabs count as lost. */
	_Atomic uint64_t incarnations[STATE_DONORS];
	_Atomic uint64_t numbers; /* the counter of seal numbers (seal.h) */
	/* How many donors a donors file has added, or the store had beyond STATE_DONORS. They follow the first
	   donor_count donors in `uris` and then in the donors behind the arrays. Older versions of farpage could not
	   add donors: they wrote 0 here, and refuse a file with added donors. */
	_Atomic uint64_t added;
};
/* A donor behind the arrays. */
struct state_donor {
	char uri[FAR_URI_MAX];
	_Atomic uint64_t incarnation;
};
_Static_assert(sizeof(struct state_header) <= STATE_HEADER_BYTES, "the header has its place");

struct state;

/*
 * Opens the file, creating it if necessary, and locks it. Returns 0, -EBUSY if another process uses the file,
 * -EINVAL if it is not a regular file, or the error of open() or flock(). All functions here log their errors in
 * one line, except a lack of memory and a failed fstat() or pread().
 */
int state_open(const char *path, struct state **ret_state);
/* Returns true if the file holds no store, or one whose creation did not end. */
bool state_is_new(const struct state *state);
/* Writes a new store of @pages pages in chunks of @chunk_pages. Everything else comes from @config. Returns 0,
   -ENAMETOOLONG, -EFBIG, -ENOMEM, or the file system's error. */
int state_create(struct state *state, const struct far_config *config, uint64_t pages, uint64_t chunk_pages,
		 const uint8_t id[WIRE_ID_SIZE]);
/* Adopts the store in the file. Returns -EINVAL, and changes nothing, if the file is damaged or if @config
   describes another store. Returns -ENOMEM if there is no memory. */
int state_adopt(struct state *state, const struct far_config *config);
/* Repairs the changes that the ended process left half done, and populates the memory in use. *ret_lost is the
   number of pages found lost. Must be called once, after state_adopt(). Returns 0 or -ENOMEM. */
int state_recover(struct state *state, uint64_t *ret_lost);

/* Returns how many donors the store has, including removed ones, and how many it can have. */
unsigned state_donor_count(struct state *state);
unsigned state_donor_places(struct state *state);
/* Return the donor's address and its incarnation (see struct state_header). */
char *state_uri(struct state *state, unsigned donor);
_Atomic uint64_t *state_incarnation(struct state *state, unsigned donor);
/* Adds a donor after the last one. @uri is shorter than FAR_URI_MAX, and fewer than state_donor_places() donors exist.
   The file is valid at each moment: a process that is killed here leaves a file with or without the donor. Only for
   the control thread. */
void state_donor_add(struct state *state, const char *uri);

/* These functions, and those about donors, need a store that was created or adopted. Their results are valid until
   state_close(). */
struct state_header *state_header(struct state *state);
void state_tables(struct state *state, struct chunk_table *ret_table, struct integrity *ret_integrity);

/* Closes the file. If @empty is true, the store has ended, and the file is emptied. Otherwise another process can
   adopt the store. NULL is allowed. */
void state_close(struct state *state, bool empty);

#endif

/*
 * rebuild_backup: pages between donors and the backup, both ways.
 *
 * Theory of operation. A part of rebuild.h, like the scrub: the rebuild thread does it with its own queue when there is
 * no job and no repair.
 *
 *   catch up  pages that were written but found no room in the backup's ring, or that its disk refused, are read from
 *             donors and put in. They are held meanwhile, so that the slab stays ours. Writers are not kept out: what
 *             they have changed is found out before it goes to the disk (backup_ring.h), and comes there by itself.
 *   bring back  pages that are KEPT (integrity.h) are read from the backup and written to the slabs that their chunk
 *             has, or gets, on donors; then they are live again. That changes neither checksum nor generation, so
 *             readers notice nothing; writers are kept out by a window, as when a slot is filled. Where no donor has
 *             room it is tried again after a while; until then those come back that have a slab.
 *
 * Both at the rate of a rebuild. Pages that cannot be read are passed over, until the next time round.
 *
 * Threads. The rebuild thread.
 */
#ifndef CLIENT_REBUILD_BACKUP_H
#define CLIENT_REBUILD_BACKUP_H

#include "client/far.h"

struct rebuild;

struct rebuild_backup {
	uint64_t missed;  /* where catching up has come to */
	uint64_t singles; /* up to here pages are read one by one */
	uint64_t missed_due;
	uint64_t kept; /* likewise bringing back */
	uint64_t kept_singles;
	uint64_t kept_due;
	uint32_t epoch;   /* in which pages are held */
	uint32_t denials; /* of the chunk that is asked for, when that began; */
	uint64_t asked;   /* which it is, + 1 */
	bool denied;      /* one was, since it began at the first page */
	uint64_t patience;
	unsigned slot;        /* to be written next */
	unsigned donor_count; /* to be written */
	unsigned donors[FAR_SLOTS_MAX];
};

/* The thread has nothing else to do: submits something, or returns when there is something to do. */
uint64_t backup_idle(struct rebuild *rebuild, uint64_t now);
/* Phases; each returns when the next is due. */
uint64_t backup_caught_up(struct rebuild *rebuild, uint64_t now);
uint64_t backup_entering(struct rebuild *rebuild, uint64_t now);
uint64_t backup_bringing(struct rebuild *rebuild, uint64_t now);

#endif

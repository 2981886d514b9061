/*
 * rebuild_backup: moves pages between donors and the backup, both ways.
 *
 * Theory of operation. This is a part of rebuild.h, like the scrub. The rebuild thread does it with its own queue when
 * it has no job and no repair.
 *
 *   catch up    Some written pages found no room in the backup's ring, or were refused by its disk. The thread reads
 *               them from donors and puts them into the ring. Their chunk is held meanwhile, so that its slab is not
 *               given back. Writers are not kept out. If a writer changes such a page, this is noticed before the page
 *               goes to the disk (backup_ring.h), and the new write brings its own copy.
 *   bring back  Pages that are KEPT (integrity.h) are read from the backup. They are written to the slabs that their
 *               chunk has, or gets, on donors. Then they are live again. This changes neither checksum nor generation,
 *               so readers notice nothing. A window keeps writers out, as during a fill. If no donor has room, the
 *               thread tries again after a while. Until then only chunks that have a slab are brought back.
 *
 * Both run at the rate of a rebuild. Pages that cannot be read are skipped until the next pass.
 *
 * Threads. The rebuild thread.
 */
#ifndef CLIENT_REBUILD_BACKUP_H
#define CLIENT_REBUILD_BACKUP_H

#include "client/far.h"

struct rebuild;

struct rebuild_backup {
	uint64_t missed;  /* next page to catch up with */
	uint64_t singles; /* below this page, pages are read one by one */
	uint64_t missed_due;
	uint64_t kept; /* the same three for bringing back */
	uint64_t kept_singles;
	uint64_t kept_due;
	uint32_t epoch;       /* in which pages are held */
	uint32_t denials;     /* of the chunk asked for, when asking began */
	uint64_t asked;       /* index of the chunk that a slab was asked for + 1, or 0 for none */
	bool denied;          /* a chunk was denied a slab since this pass began */
	uint64_t patience;    /* when waiting for writers ends */
	unsigned slot;        /* index in `donors` of the next to be written */
	unsigned donor_count; /* donors to be written */
	unsigned donors[FAR_SLOTS_MAX];
};

/* Starts something to do, if there is anything. Must be called when the thread has nothing else to do. Returns when to
   call it again. */
uint64_t rebuild_backup_idle(struct rebuild *rebuild, uint64_t now);
/* Phases of rebuild_step(). Each returns when the next is due. */
uint64_t rebuild_backup_caught_up(struct rebuild *rebuild, uint64_t now);
uint64_t rebuild_backup_entering(struct rebuild *rebuild, uint64_t now);
uint64_t rebuild_backup_bringing(struct rebuild *rebuild, uint64_t now);

#endif

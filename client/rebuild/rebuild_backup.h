/*
 * rebuild_backup: the two chores that copy pages between donors and the backup.
 *
 * Theory of operation.
 *
 *   catch up    Some written pages found no room in the backup's ring, or were refused by its disk. The chore reads
 *               them from donors and puts them into the ring. Their chunk is held meanwhile, so that its slab is not
 *               given back. Writers are not kept out. If a writer changes such a page meanwhile, the backup notices
 *               this before the page goes to the disk (backup_ring.h).
 *   bring back  Pages that are KEPT (integrity.h) are read from the backup. They are written to slabs on donors, which
 *               the chunk has or gets. Then they are live again. This changes neither checksum nor generation, so
 *               readers notice nothing. A window keeps writers out, as during a fill. If no donor has room, the chore
 *               tries again after a while. Until then only chunks that have a slab are brought back.
 *
 * Pages that cannot be read are skipped until the next pass.
 *
 * Threads. The rebuild thread.
 */
#ifndef CLIENT_REBUILD_BACKUP_H
#define CLIENT_REBUILD_BACKUP_H

#include "client/rebuild/copier.h"

struct catch_up {
	struct chore chore;
	uint64_t page; /* the page that the pass is at */
	uint64_t due;  /* when the pass goes on */
};

struct bring_back {
	struct chore chore;
	uint64_t page, due; /* the page that the pass is at, and when the pass goes on */
	uint32_t run;       /* pages of the visit */
	uint32_t restored;  /* pages of the visit that are live again */
	bool asking;        /* a slab was asked for */
	uint64_t asked;     /* the chunk for which it was asked for */
	uint32_t denials;   /* that chunk's denials when the slab was asked for */
	bool denied;        /* a chunk was denied a slab since this pass began */
};

extern const struct chore_kind catch_up_kind, bring_back_kind;

#endif

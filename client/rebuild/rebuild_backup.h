/*
 * rebuild_backup: the two chores that copy pages between donors and the backup.
 *
 * Theory of operation. Each chore makes passes over all pages of the store:
 *
 *   catch up    Copies missed pages to the backup: pages that found the ring full, or that the disk refused. The
 *               chore reads these pages from donors and puts them into the ring. Meanwhile it keeps the chunk's count
 *               raised, so that the chunk's slabs are not released. Writes are not kept out, so a page may change
 *               during the copy. The backup notices this by the checksum, before the page goes to the disk
 *               (backup_ring.h).
 *   bring back  Copies KEPT pages (integrity.h) from the backup to donors. If the pages' chunk has no slabs, the
 *               chore first gets slabs. Then it reads the pages from the backup and writes them to the slabs, and the
 *               pages are live again. Their checksums and generations stay the same, so readers notice nothing. A
 *               window keeps writes out, as during a fill. If no donor has a free slab, the rest of the pass brings
 *               back only pages whose chunks have slabs.
 *
 * A page that cannot be read is skipped until the next pass.
 *
 * Threads: the rebuild thread.
 */
#ifndef CLIENT_REBUILD_BACKUP_H
#define CLIENT_REBUILD_BACKUP_H

#include "client/rebuild/copier.h"

struct catch_up {
	struct chore chore;
	uint64_t page; /* the next page of the pass */
	uint64_t due;
};

struct bring_back {
	struct chore chore;
	uint64_t page, due; /* the next page of the pass, and when the pass continues */
	uint32_t run;       /* pages of the current visit */
	uint32_t restored;  /* pages of the current visit that are live again */
	bool asking;        /* waits for a slab that it has asked for */
	uint64_t asked;     /* the chunk for which it has asked */
	uint32_t denials;   /* that chunk's number of denials when it asked */
	bool denied;        /* some chunk was denied a slab in this pass */
};

extern const struct chore_kind catch_up_kind, bring_back_kind;

#endif

/* tables: the tables of a small store, and every use of them, for tests of state.h. */
#ifndef TESTS_UNIT_CLIENT_TABLES_H
#define TESTS_UNIT_CLIENT_TABLES_H

#include "client/page/chunks.h"
#include "client/page/integrity.h"

#define TABLES_CHUNK_PAGES 8u
#define TABLES_CHUNKS 20u
#define TABLES_PAGES (TABLES_CHUNKS * TABLES_CHUNK_PAGES - 3) /* the last chunk is shorter */
#define TABLES_DONORS 3u

/* Makes chunks 0 to 9 READY on donors i % 3 and (i + 1) % 3, with i % 8 pages written. @contents is one page. */
void tables_fill(struct chunk_table *table, struct integrity *integrity, const void *contents);
/*
 * Uses the tables in every way: claims slabs, writes and discards pages, leases and releases, loses all donors.
 * Aborts if a slot is impossible.
 */
void tables_use(struct chunk_table *table, struct integrity *integrity, const void *contents);

#endif

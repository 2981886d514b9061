/*
 * tables: what a small store leaves in its tables, and all that one does with them, for tests of state.h.
 */
#ifndef TESTS_UNIT_CLIENT_TABLES_H
#define TESTS_UNIT_CLIENT_TABLES_H

#include "client/page/chunks.h"
#include "client/page/integrity.h"

#define TABLES_CHUNK_PAGES 8u
#define TABLES_CHUNKS 20u
#define TABLES_PAGES (TABLES_CHUNKS * TABLES_CHUNK_PAGES - 3) /* the last one is shorter */
#define TABLES_DONORS 3u

/* Chunks 0 .. 9 READY, on donors i % 3 and (i + 1) % 3, with i % 8 pages written: @contents, a page. */
void tables_fill(struct chunk_table *table, struct integrity *integrity, const void *contents);
/* Claims, reads, writes, discards, leases, gives back, and loses everything in the end. Aborts when something is where
   it cannot be. */
void tables_use(struct chunk_table *table, struct integrity *integrity, const void *contents);

#endif

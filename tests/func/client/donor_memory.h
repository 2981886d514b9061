/*
 * donor_memory: what a donor that is running has in its memory, looked at and changed behind its back.
 *
 * Threads: the caller's. Needs to be its parent, or root.
 */
#ifndef TESTS_FUNC_CLIENT_DONOR_MEMORY_H
#define TESTS_FUNC_CLIENT_DONOR_MEMORY_H

#include "farpage/store.h"
#include "tests/func/memserver/daemon.h"

/* Whether this process may. */
bool donor_memory_opens(const struct daemon *donor);
/* How often @bytes are anywhere in its memory. */
uint64_t donor_memory_count(const struct daemon *donor, const void *bytes, size_t length);
/* Finds its one slab, of RIG_SLAB bytes, whose first @pages pages are not all zero, while all others are. */
bool donor_memory_slab(const struct daemon *donor, unsigned pages, uint64_t *ret_address);
/* Reads or writes one page. Bails out when it cannot. */
void donor_memory_get(const struct daemon *donor, uint64_t address, void *page);
void donor_memory_put(const struct daemon *donor, uint64_t address, const void *page);

#endif

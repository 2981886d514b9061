/*
 * donor_memory: the memory of a running donor, read and changed without its knowledge.
 *
 * Threads: the calling thread. The process must be the donor's parent, or root.
 */
#ifndef TESTS_FUNC_CLIENT_DONOR_MEMORY_H
#define TESTS_FUNC_CLIENT_DONOR_MEMORY_H

#include "client/store.h"
#include "tests/lib/donor.h"

/* Returns true if this process may open the donor's memory. */
bool donor_memory_opens(const struct donor_process *donor);
/* Returns how often @bytes occur in the donor's memory. */
uint64_t donor_memory_count(const struct donor_process *donor, const void *bytes, size_t length);
/*
 * Finds the donor's only slab of RIG_SLAB bytes whose first @pages pages are not all zero, while all other pages are.
 */
bool donor_memory_slab(const struct donor_process *donor, unsigned pages, uint64_t *ret_address);
/* Read or write one page. Bail out on errors. */
void donor_memory_get(const struct donor_process *donor, uint64_t address, void *page);
void donor_memory_put(const struct donor_process *donor, uint64_t address, const void *page);

#endif

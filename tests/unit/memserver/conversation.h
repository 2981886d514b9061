/*
 * conversation: runs a donor (donor.c, connection.c and the modules they use) against good and bad clients. The given
 * bytes decide what the clients do. The fabric, the slab worker and the clock are simulated in this process. The bytes
 * are the whole history. So any history can be replayed, and a fuzzer can look for worse ones.
 */
#ifndef TESTS_UNIT_MEMSERVER_CONVERSATION_H
#define TESTS_UNIT_MEMSERVER_CONVERSATION_H

#include <stddef.h>
#include <stdint.h>

/* Counts of the events in all histories so far. They show that the histories reach each kind of event. */
struct conversation_counts {
	unsigned sessions, attached, grants, returned, refused, ended, revokes, takens, drains, unreachable;
};

/*
 * Runs one history. The caller decides where the log goes. Returns NULL if every rule held, and otherwise what went
 * wrong. The rules: a granted slab belongs to the client that asked. Domains keep clients apart. No object is used
 * after its end, and none is left over.
 */
const char *conversation_run(const uint8_t *bytes, size_t size, struct conversation_counts *counts);

#endif

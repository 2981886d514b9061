/*
 * conversation: a donor (donor.c, peer.c and all they decide with) among clients that do whatever the given bytes say,
 * good and bad, over a fabric, a slab worker and a clock that are simulated in this process. The bytes are the whole
 * history, so any of them can be replayed, and a fuzzer can look for worse.
 */
#ifndef TESTS_UNIT_MEMSERVER_CONVERSATION_H
#define TESTS_UNIT_MEMSERVER_CONVERSATION_H

#include <stddef.h>
#include <stdint.h>

struct conversation_counts {
	unsigned sessions, attached, grants, returned, refused, ended, revokes, takens, drains,
	    unreachable; /* to see that histories go somewhere */
};

/*
 * The caller decides where the log goes. NULL when everything held that must: what was granted belongs to who asked,
 * domains keep clients apart, nothing is used after its end or left over. Otherwise what did not.
 */
const char *conversation_run(const uint8_t *bytes, size_t size, struct conversation_counts *counts);

#endif

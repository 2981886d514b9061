/*
 * helper_ledger: the devices of all helper processes, so that each process can keep the limits.
 *
 * Theory of operation. Each connection has a helper process of its own. Each process with a device has a record in one
 * file, and holds a lock on the record (F_OFD_SETLK in fcntl(2)). The guard (run_guard.h) inherits the lock. So the
 * record counts until both processes have ended, however they end, and no record can be left over. Another lock makes
 * sure that only one process at a time judges and takes a record.
 *
 * Threads: one.
 */
#ifndef CLI_HELPER_LEDGER_H
#define CLI_HELPER_LEDGER_H

#include "cli/helper/helper_limits.h"

struct helper_ledger {
	int fd; /* not closed, because closing it ends the lock */
	unsigned slot;
};

/* Takes a record for a device of @swap bytes (0: as large as possible) of @uid, if helper_limits_judge() allows it.
   Returns an enum helper_status: its result with the size in @ret_swap, or HELPER_SPACE after one logged line. The
   record is held until helper_ledger_release(), or until this process, and all processes that it has forked since, have
   ended. */
enum helper_status helper_ledger_take(const struct helper_limits *limits, uint32_t uid, uint64_t swap,
				      struct helper_ledger *ret_ledger, uint64_t *ret_swap);
/* Records the size that the device got at last. */
void helper_ledger_settle(const struct helper_ledger *ledger, uint32_t uid, uint64_t swap);
/* Gives the record back, also if forked processes go on. Its device must be removed. */
void helper_ledger_release(const struct helper_ledger *ledger);

#endif

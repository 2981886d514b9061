/*
 * watchdog: tells the service manager that the donor makes progress, so that the service manager restarts a donor that
 * hangs.
 *
 * Theory of operation. WATCHDOG_USEC is a time limit of the service manager (sd_watchdog_enabled(3)). If the program
 * sends no WATCHDOG=1 for this long, the service manager ends it. The main loop sends WATCHDOG=1 whenever half of this
 * time has passed. A program that replaces another one (upgrade.h) also sends WATCHDOG=1 during its start, because the
 * limit counts from the last WATCHDOG=1 of the previous program. Without WATCHDOG_USEC, the functions do nothing.
 *
 * Threads. The donor's thread.
 */
#ifndef MEMSERVER_WATCHDOG_H
#define MEMSERVER_WATCHDOG_H

#include <stdint.h>

/* All zero: no service manager watches. */
struct watchdog {
	uint64_t every_ns; /* half of the service manager's time limit, or 0 if none watches */
	uint64_t due;      /* when to send the next WATCHDOG=1, in clock_now() */
};

/* Reads from the environment whether a service manager watches this process, and its time limit. The first WATCHDOG=1
   is due at once. */
void watchdog_open(struct watchdog *watchdog);
/* Sends WATCHDOG=1 if it is due. */
void watchdog_tell(struct watchdog *watchdog);
/* Returns how many ns are left until watchdog_tell() must be called: 0 if it is due, or UINT64_MAX if no service
   manager watches. */
uint64_t watchdog_left(const struct watchdog *watchdog);

#endif

/*
 * watchdog: tells the service manager that the donor makes progress, so that it restarts a donor that hangs.
 *
 * Theory of operation. WATCHDOG_USEC is a time limit of the service manager (sd_watchdog_enabled(3)). If the program sends
 * no WATCHDOG=1 for this long, the service manager ends it. The main loop sends WATCHDOG=1 at half of that time. So does the start of a program that
 * replaces another one (upgrade.h), because the service manager counts from the last word of the program before.
 * Without WATCHDOG_USEC nothing is said, and no function costs anything.
 *
 * Threads. The donor's thread.
 */
#ifndef MEMSERVER_WATCHDOG_H
#define MEMSERVER_WATCHDOG_H

#include <stdint.h>

/* All zero: nobody watches. */
struct watchdog {
	uint64_t every_ns; /* half of the service manager's time, or 0 if nobody watches */
	uint64_t due;      /* when to say the next word, in clock_now() */
};

/* Reads from the environment if a service manager watches this process, and how closely. The first word is due at once. */
void watchdog_open(struct watchdog *watchdog);
/* Says that the donor makes progress, if that is due. Costs a system call then. */
void watchdog_tell(struct watchdog *watchdog);
/* Returns how many ns are left until watchdog_tell() must be called, 0 if it is due, or UINT64_MAX if nobody watches. */
uint64_t watchdog_left(const struct watchdog *watchdog);

#endif

/*
 * safety: prepares a process that serves swap space. Such a process must never wait for memory, because memory may
 * become free only when this process stores pages.
 *
 * Theory of operation. safety_start() runs before anything else:
 *
 * - It locks all memory that is present, and all other memory as soon as the process touches it. Untouched memory is
 *   not locked, because a store maps tables for a terabyte and touches only the used part.
 * - It tells the kernel not to write out pages when this process needs memory (PR_SET_IO_FLUSHER).
 * - It exempts the process from the OOM killer.
 * - It makes malloc take memory early, in large pieces, and never return it.
 *
 * Once all threads run, safety_settle() touches all memory that the process will execute or write: code, data, heap,
 * stacks.
 *
 * Real time. If free memory is below vm.min_free_kbytes, a task that needs a page tries again and again to reclaim a
 * page. But the kernel can write pages out only through this daemon. The daemon's own system calls need pages, too, for
 * example for a socket buffer, or to register a region with a donor. A thread with a real-time policy may take pages
 * from the upper half of the reserve (gfp_to_alloc_flags(), ALLOC_MIN_RESERVE). So the daemon's threads do not have to
 * reclaim.
 *
 * Without a real-time policy, a virtual machine of 512 MiB stopped for ever when a program used 1.5 GiB. Every task
 * waited in swap_writepage(), and the daemon waited for one page in ib_umem_get(), to register its memory again.
 * PR_SET_IO_FLUSHER does not prevent this deadlock: it only keeps the daemon from waiting for its own writes.
 *
 * The kernel also runs real-time threads before the programs that use up the memory, so heartbeats are sent in time.
 * Other tasks still run, because these threads sleep when they wait, and do not poll on a machine with one processor
 * (safety_spin_us()). The kernel also reserves 5 % of the time for other tasks.
 *
 * If the kernel refuses a step, a log line states the consequence, and the result of safety_steps() lacks the step's
 * bit. The device's status and `farpage doctor` show the missing step.
 *
 * Threads. The main thread calls these functions. It calls safety_start() before it starts other threads. A forked
 * child does not inherit locked memory, so it calls safety_start() again.
 */
#ifndef BLOCKDEV_SAFETY_H
#define BLOCKDEV_SAFETY_H

#include <stdbool.h>

enum safety_step {
	SAFETY_LOCKED,     /* all memory is locked */
	SAFETY_IO_FLUSHER, /* the kernel does not write to this device to find memory for this process */
	SAFETY_OOM_EXEMPT, /* the OOM killer spares this process */
	SAFETY_TOUCHED,    /* code, data and stacks are in memory */
	SAFETY_REALTIME,   /* only if asked for: this process runs before programs, and may use more of the reserve */
	SAFETY_STEPS
};
const char *safety_step_name(enum safety_step step);

/* Takes the steps before threads are started. With @realtime, this thread and all threads that it creates later run in
   real time. */
void safety_start(bool realtime);
/* Returns how long to poll if the user asks for @us. In real time on one processor the result is 0, because polling
   would keep all other tasks from running. */
unsigned safety_spin_us(unsigned us, bool realtime);
/* All threads must run already. Touches all memory that the process uses. */
void safety_settle(void);
/* Logs a line for each step that was refused. */
void safety_tell(void);
/* Returns a bit mask: bit N is set if step N was taken. */
unsigned safety_steps(void);
/* Returns true if safety_start() was asked to take the step. */
bool safety_wants(enum safety_step step);
/* Makes standard error non-blocking, so that no thread waits for the reader of the log. */
void safety_log(void);

#endif

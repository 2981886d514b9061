/*
 * safety: prepares a process that serves the device the machine swaps to. Such a process must never wait for memory,
 * because memory then waits for the process.
 *
 * Theory of operation. safety_start() runs before anything else and does this:
 *
 * - It locks all present memory, and later memory as soon as it is touched. Earlier would be too much: a store maps
 *   tables for a terabyte, and touches only the used part.
 * - It tells the kernel not to write out other pages when this process needs memory (PR_SET_IO_FLUSHER).
 * - It tells the kernel not to kill the process when memory runs out.
 * - It makes malloc take memory early, in one piece, and keep it.
 *
 * When all threads run, safety_settle() touches all memory that the process will execute or write: code, data, heap,
 * stacks.
 *
 * Real time. When less than vm.min_free_kbytes is free, a task that needs memory looks for memory to reclaim, again and
 * again. But all reclaimable memory can only leave through this daemon. The daemon's own system calls also need pages:
 * a socket buffer, or the page list of a region that is registered again with a donor. Threads with a real-time policy
 * may take the upper half of the reserve (gfp_to_alloc_flags(), ALLOC_MIN_RESERVE). So such a thread does not loop.
 *
 * Without these measures, a guest of 512 MiB that worked through 1.5 GiB stopped for ever. Every task waited in
 * swap_writepage(). The daemon registered its memory with a donor again, and ib_umem_get() looked for one page without
 * end. Any system call that takes a page can loop in this way. PR_SET_IO_FLUSHER does not help: it only keeps the
 * daemon from waiting for its own writes.
 *
 * The kernel also prefers real-time threads to the programs that use up the memory. So the daemon sends its heartbeats
 * in time. Real-time threads sleep whenever they wait. On a single processor they do not even poll (safety_spin_us()). The kernel always reserves 5 % of
 * the time for other tasks.
 *
 * Each step that the kernel refuses causes a log line about the consequence, and a missing bit in safety_steps(), for
 * status and doctor.
 *
 * Threads. The main thread calls these functions. It calls safety_start() before it starts other threads. A forked
 * child has no locked memory and calls safety_start() again.
 */
#ifndef BLOCKDEV_SAFETY_H
#define BLOCKDEV_SAFETY_H

#include <stdbool.h>

enum safety_step {
	SAFETY_LOCKED,     /* memory is locked */
	SAFETY_IO_FLUSHER, /* the kernel does not use this process's own device to find memory for it */
	SAFETY_OOM_EXEMPT, /* the OOM killer spares this process */
	SAFETY_TOUCHED,    /* code, data and stacks are in memory */
	SAFETY_REALTIME,   /* on request: the process runs before programs and may use more of the reserve */
	SAFETY_STEPS
};
const char *safety_step_name(enum safety_step step); /* "locked" */

/* Takes the first steps. With @realtime, the thread also runs in real time. Threads started later inherit this. */
void safety_start(bool realtime);
/* Returns how long to poll if the user has asked for @us. While a real-time thread polls, no other task runs on its
   processor. */
unsigned safety_spin_us(unsigned us, bool realtime);
/* Touches all memory. Call it when all threads run. */
void safety_settle(void);
/* Logs a line for each step that was refused. */
void safety_tell(void);
/* Returns a bit mask of the steps taken: bit N for step N. */
unsigned safety_steps(void);
/* Returns true if this step was asked for. */
bool safety_wants(enum safety_step step);
/* Makes log lines (standard error) never wait for their reader. */
void safety_log(void);

#endif

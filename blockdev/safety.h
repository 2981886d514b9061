/*
 * safety: what a process has to be when the machine swaps to the device it serves: it must never wait for memory, for
 * then memory waits for it.
 *
 * Theory of operation. Before anything is started: all memory that is there is locked, and all that comes later is
 * locked as soon as it is touched (not before: a store's tables for a terabyte are mapped, but only what is used of
 * them is real); the kernel is told not to write out pages on our behalf (PR_SET_IO_FLUSHER) and not to end us when
 * memory runs out; malloc is told to take memory early, in one piece, and to keep it. Once everything is started
 * (safety_settle), what the process will run and write is touched: code, data, heap, stacks.
 *
 * In real time. When less memory is free than vm.min_free_kbytes, whoever asks the kernel for some looks for what can
 * be given up, and asks again, and so for ever: all that is left can only leave by way of this daemon, and it does this
 * itself when a system call of its own needs a page (a socket's buffer, the list of pages of a region that is
 * registered anew with a donor that came back). Threads with a real-time policy may have the upper half of what is kept
 * free then (gfp_to_alloc_flags(), ALLOC_MIN_RESERVE), which is what ends this. That they run before what has taken the
 * memory is a good thing, too: heartbeats are not missed. They sleep whenever they wait for somebody else; with a
 * single processor they do not even poll (safety_spin_us()). The kernel leaves 5 % of the time to others whatever they
 * do.
 *
 * Each step that the kernel refuses is a line that says what it means, and a bit in what safety_steps() gives, for
 * status and doctor.
 *
 * Threads: the main thread's. safety_start() before there are others. A forked child has nothing locked and begins
 * with safety_start() again.
 */
#ifndef BLOCKDEV_SAFETY_H
#define BLOCKDEV_SAFETY_H

#include <stdbool.h>

enum safety_step {
	SAFETY_LOCKED,     /* memory is locked */
	SAFETY_IO_FLUSHER, /* memory that we wait for is not reclaimed through our own device */
	SAFETY_OOM_EXEMPT, /* the OOM killer passes us by */
	SAFETY_TOUCHED,    /* code, data and stacks are in memory */
	SAFETY_REALTIME,   /* runs before programs, and may have memory that they may not; taken only where asked for */
	SAFETY_STEPS
};
const char *safety_step_name(enum safety_step step); /* "locked" */

/* @realtime: threads that are started later have it, too. */
void safety_start(bool realtime);
/* How long to poll when @us was asked for: in real time nobody else runs on the processor meanwhile. */
unsigned safety_spin_us(unsigned us, bool realtime);
/* Once all threads run. */
void safety_settle(void);
/* Logs a line for each step that was refused. */
void safety_tell(void);
/* Bit N: step N was taken. */
unsigned safety_steps(void);
/* Whether it was asked for at all. */
bool safety_wants(enum safety_step step);
/* Log lines (standard error) never wait for their reader from here on. */
void safety_log(void);

#endif

/*
 * relief: gives up a part of the kernel's reserve, bit by bit, when nothing leaves any more.
 *
 * Theory of operation. What watermarks.h has raised keeps memory free for this daemon, which runs in real time, and for
 * interrupts. But to connect to a donor anew, soft-RoCE and the RDMA connection manager also take memory in workers of
 * the kernel, which have no such right: ucma_create_uevent() waits in reclaim for a few bytes, like any program, while
 * all that could be reclaimed waits for that connection, and the daemon waits for the worker in _destroy_id(). User
 * space can do nothing for the worker but lower vm.min_free_kbytes: then what was kept free is there for all who wait,
 * the worker among them. Programs take most of it, so it is done in small steps, each of which is a chance; and no
 * further than to half, for this daemon and interrupts need the rest when the donor is there again.
 *
 * The machine is stuck when the device has requests, none was answered since the last look, three seconds before, and
 * not much more is free than what the kernel keeps. As soon as a request is answered, all is as before. Only what this
 * device has raised is lowered, and only as long as nobody else has changed it. A worker that begins finds the step
 * that the one before it had come to by the value itself, and goes on from there.
 *
 * Threads: the main thread's. Allocates nothing.
 */
#ifndef BLOCKDEV_RELIEF_H
#define BLOCKDEV_RELIEF_H

#include "blockdev/watermarks.h"

#define RELIEF_MOST (WATERMARKS_STEPS / 2)

struct relief {
	struct watermarks_record record;
	int inflight; /* of the device, in /sys; -1: nothing to lower */
	int meminfo;
	uint64_t at;   /* clock_now() of the last look */
	uint64_t done; /* requests answered, then */
	unsigned step; /* how far it is lowered, 0 .. RELIEF_MOST */
};

/* @path: of the device called @name. Never fails: then it does nothing. */
void relief_open(struct relief *relief, const char *name, const char *path);
/* Every second or so; @done: requests answered so far. */
void relief_tick(struct relief *relief, uint64_t now, uint64_t done);

/* The part of it that decides, for tests: the next step. */
struct relief_sight {
	uint64_t inflight, answered; /* requests; answered: since the last look */
	uint64_t free_kib, kept_kib; /* memory; kept: as set at first */
};
unsigned relief_step(unsigned step, const struct relief_sight *sight);

#endif

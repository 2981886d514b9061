/*
 * relief: lowers part of the kernel's reserve, step by step, if pages have stopped leaving for the device.
 *
 * Theory of operation. The reserve that watermarks.h raises keeps memory free for this daemon, which runs in real time,
 * and for interrupts. With the kernel's own reserve of 2.7 MiB, packets were lost for lack of memory until the
 * connection broke. Soft-RoCE and the RDMA connection manager also need memory, to reconnect to a donor. They take this
 * memory in kernel workers, which may not use the reserve. ucma_create_uevent() waits in reclaim for a few bytes, like
 * any program. All reclaimable memory waits for that connection. The daemon waits for the kernel worker in
 * _destroy_id().
 *
 * User space can help that kernel worker only by lowering vm.min_free_kbytes. All waiting tasks may then use the memory
 * that is set free, the kernel worker among them. Programs take most of it. So the reserve is lowered in small steps,
 * and each step gives the kernel worker a chance. It is lowered at most to half, because this daemon and interrupts
 * need the rest when the donor is back.
 *
 * The machine counts as stuck if all of this holds:
 *
 * - the device has requests
 * - no request was answered since the last look, three seconds before
 * - not much more memory is free than the kernel keeps
 *
 * As soon as a request is answered, the reserve is restored. Only the part that this device has raised is lowered, and
 * only if nobody else has changed the value. A new worker finds out from the value which step the last worker reached.
 *
 * A limit. Over soft-RoCE, the machine may stop for good if a donor goes away just when memory has run out. RDMA
 * devices that move data without the kernel have the same connection manager. Over TCP a connection is made without
 * kernel workers.
 *
 * Threads. All functions run in the main thread. Nothing here allocates.
 */
#ifndef BLOCKDEV_RELIEF_H
#define BLOCKDEV_RELIEF_H

#include "blockdev/host/watermarks.h"

#define RELIEF_MOST (WATERMARKS_STEPS / 2)

struct relief {
	struct watermarks_record record;
	int inflight; /* the device's file in /sys, or -1 if the reserve was not raised */
	int meminfo;
	uint64_t at;   /* clock_now() of the last look */
	uint64_t done; /* requests answered at the last look */
	unsigned step; /* how far the reserve is lowered, 0 .. RELIEF_MOST */
};

/* Prepares for the device called @name at @path. Never fails; on an error, relief_tick() does nothing. */
void relief_open(struct relief *relief, const char *name, const char *path);
/* Looks at the device, and lowers or restores the reserve. Call it about once a second. @done is the number of requests
   answered so far. */
void relief_tick(struct relief *relief, uint64_t now, uint64_t done);

/* The input of relief_step(). */
struct relief_sight {
	uint64_t inflight, answered; /* requests in progress, and requests answered since the last look */
	uint64_t free_kib, kept_kib; /* free memory, and the reserve as first set */
};
/* Returns the next step. Declared here for tests. */
unsigned relief_step(unsigned step, const struct relief_sight *sight);

#endif

/*
 * relief: lowers the kernel's reserve, step by step, when the device has stopped answering for lack of memory.
 *
 * Theory of operation. watermarks.h raises the reserve, so that interrupts and this daemon, which runs in real
 * time, have memory. With the kernel's default reserve, 2.7 MiB, packets were lost for lack of memory until the
 * connection broke.
 *
 * The RDMA connection manager and soft-RoCE need memory, too, to connect to a donor again. They allocate this memory in
 * kernel workers, which may not use the reserve. So a deadlock is possible: ucma_create_uevent() waits in reclaim for a
 * few bytes, reclaimed pages wait for the connection, and the daemon waits for the kernel worker in _destroy_id().
 *
 * User space can help only by lowering vm.min_free_kbytes. This makes memory available to all waiting tasks. Programs
 * take most of that memory, but each step is a chance for the kernel worker. So the steps are small. relief_tick()
 * takes back at most half of the rise, because the daemon and interrupts need the other half when the donor has
 * returned.
 *
 * relief_tick() looks every three seconds, and lowers the reserve by a step if all of this is true:
 *
 * - the device has requests
 * - no request was answered since the last look
 * - free memory is at most twice the raised reserve
 *
 * When a request is answered, relief_tick() restores the reserve. If somebody else has changed vm.min_free_kbytes,
 * relief_tick() leaves it as it is. A new worker recognises from the value how many steps the last worker took.
 *
 * Limits. Over soft-RoCE, the machine may stop for good if a donor leaves just when memory has run out. The same may
 * happen over RDMA hardware, because it uses the same connection manager. Over TCP, connecting needs no kernel workers.
 *
 * Threads. All functions run in the main thread. They do not allocate.
 */
#ifndef BLOCKDEV_RELIEF_H
#define BLOCKDEV_RELIEF_H

#include "blockdev/host/watermarks.h"

#define RELIEF_MOST (WATERMARKS_STEPS / 2)

struct relief {
	struct watermarks_record record;
	int inflight; /* descriptor of /sys/block/DEVICE/inflight, or -1 if the reserve was not raised */
	int meminfo;
	uint64_t at;   /* clock_now() of the last look */
	uint64_t done; /* number of requests answered by then */
	unsigned step; /* number of steps taken, 0 .. RELIEF_MOST */
};

/* Prepares for the device @name at @path. Never fails; after an error, relief_tick() does nothing. */
void relief_open(struct relief *relief, const char *name, const char *path);
/* Looks at the device, and lowers or restores the reserve. The caller calls this about once a second. @done is the
   number of requests answered so far. */
void relief_tick(struct relief *relief, uint64_t now, uint64_t done);

/* The input of relief_step(). */
struct relief_sight {
	uint64_t inflight, answered; /* requests in progress; requests answered since the last look */
	uint64_t free_kib, kept_kib; /* free memory, and the raised reserve */
};
/* Returns the new number of steps. Declared here for tests. */
unsigned relief_step(unsigned step, const struct relief_sight *sight);

#endif

/* disk_over: a disk on a strict store on a memory store, with or without faults, and the contents that the disk should
   have. For the tests of blockdev/disk.h. */
#ifndef DISK_OVER_H
#define DISK_OVER_H
#include "blockdev/disk.h"
#include "common/random.h"
#include "tests/lib/store_faulty.h"
#include "tests/unit/blockdev/strict_store.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct disk_over {
	struct store *memory, *faulty; /* @faulty is NULL without faults */
	struct store *store;           /* the strict store; the disk uses it */
	struct disk *disk;
	uint64_t bytes;
	uint8_t *reference; /* the contents that the disk should have */
};

__attribute__((unused)) static int disk_over_open(struct disk_over *over, uint64_t bytes,
						  const struct store_faults *faults, unsigned depth)
{
	int error;

	*over = (struct disk_over){.bytes = bytes};
	over->reference = calloc(1, bytes);
	error = store_open_memory(bytes / STORE_PAGE, &over->memory);
	if (!error && faults)
		error = store_open_faulty(over->memory, faults, &over->faulty);
	if (error)
		return error;
	over->store = strict_store_open(over->faulty ? over->faulty : over->memory, depth);
	return disk_open(over->store, bytes, &over->disk);
}

__attribute__((unused)) static void disk_over_close(struct disk_over *over)
{
	disk_close(over->disk);
	store_close(over->store);
	if (over->faulty)
		store_close(over->faulty);
	store_close(over->memory);
	free(over->reference);
}

/* Sleeps until disk_poll() may have a result, as a front end does. Returns false if it did not need to sleep. */
__attribute__((unused)) static bool disk_over_sleep(struct disk_queue *queue)
{
	struct pollfd fds[2];
	int numbers[2];

	if (disk_arm(queue))
		return false;
	disk_queue_fds(queue, numbers);
	fds[0] = (struct pollfd){.fd = numbers[0], .events = POLLIN};
	fds[1] = (struct pollfd){.fd = numbers[1], .events = POLLIN};
	return poll(fds, 2, -1) > 0;
}

/* Performs one request and returns its status. No other request may be in progress on the queue. */
__attribute__((unused)) static int disk_over_do(struct disk_queue *queue, enum disk_op op, uint64_t offset,
						uint64_t length, void *data, struct store_buffer *buffer)
{
	struct disk_request request = {.op = op, .offset = offset, .length = length, .data = data, .buffer = buffer};
	struct disk_request *done;

	disk_submit(queue, &request);
	while (!disk_poll(queue, &done, 1))
		disk_over_sleep(queue);
	return done == &request ? request.status : -1;
}

/* Changes the reference as a successful request changes the disk. @bytes holds the data of a write. */
__attribute__((unused)) static void disk_over_apply(struct disk_over *over, enum disk_op op, uint64_t offset,
						    uint64_t length, const void *bytes)
{
	uint64_t end = offset + length;

	if (op == DISK_WRITE)
		memcpy(over->reference + offset, bytes, length);
	if (op == DISK_DISCARD) {
		offset = (offset + STORE_PAGE - 1) / STORE_PAGE * STORE_PAGE;
		end = end / STORE_PAGE * STORE_PAGE;
	}
	if ((op == DISK_ZERO || op == DISK_DISCARD) && offset < end)
		memset(over->reference + offset, 0, end - offset);
}

__attribute__((unused)) static void disk_over_fill(void *bytes, uint64_t length, struct random_state *random)
{
	uint64_t *words = bytes;

	for (uint64_t i = 0; i < length / sizeof *words; i++)
		words[i] = random_next(random);
}
#endif

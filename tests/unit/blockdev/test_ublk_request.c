/* ublk_request: conversion of the kernel's requests, and operations that the device does not offer. */
#include "blockdev/ublk/ublk_request.h"
#include "tests/lib/tap.h"

#include <errno.h>

#define ROOM (64u << 10)

static const struct {
	uint32_t operation;
	enum disk_op op;
	bool has_data;
} operations[] = {
    {UBLK_READ, DISK_READ, true},
    {UBLK_WRITE, DISK_WRITE, true},
    {UBLK_DISCARD, DISK_DISCARD, false},
    {UBLK_WRITE_ZEROES, DISK_ZERO, false},
};

static struct ublk_descriptor describe(uint32_t operation, uint64_t offset, uint64_t length)
{
	/* The bits above the operation are hints (FUA, META, SWAP, ...). */
	return (struct ublk_descriptor){.operation_flags = operation | 0x1a900,
					.sector = offset / DISK_SECTOR,
					.sectors = (uint32_t)(length / DISK_SECTOR),
					.address = 0x1000};
}

static void each_operation_is_converted(void)
{
	for (unsigned i = 0; i < sizeof operations / sizeof operations[0]; i++) {
		struct ublk_descriptor descriptor = describe(operations[i].operation, (1ull << 42) - ROOM, ROOM);
		struct disk_request request = {0};
		const char *name = disk_op_name(operations[i].op);

		ok(ublk_request_read(&descriptor, ROOM, &request) == 0 && request.op == operations[i].op &&
		       request.offset == (1ull << 42) - ROOM && request.length == ROOM,
		   "%s requests at the end of 4 TiB are converted", name);
		ok(ublk_request_result(&request) == (operations[i].has_data ? (int32_t)ROOM : 0),
		   "%s requests that succeed return their bytes of data to the kernel", name);
		request.status = -ENOSPC;
		ok(ublk_request_result(&request) == -ENOSPC, "%s requests that fail return their error to the kernel",
		   name);
		descriptor = describe(operations[i].operation, 0, ROOM + DISK_SECTOR);
		ok(ublk_request_read(&descriptor, ROOM, &request) == (operations[i].has_data ? -EINVAL : 0),
		   "%s requests longer than a tag's room are refused only if they have data", name);
	}
}

static void a_flush_has_no_place(void)
{
	/* The sectors of a flush have no meaning. */
	struct ublk_descriptor descriptor = describe(UBLK_FLUSH, 1ull << 50, 1u << 30);
	struct disk_request request = {.offset = 1, .length = 1};

	ok(ublk_request_read(&descriptor, ROOM, &request) == 0 && request.op == DISK_FLUSH && !request.offset &&
	       !request.length,
	   "a flush is converted without offset and length");
	ok(ublk_request_result(&request) == 0, "a flush that succeeds returns 0 to the kernel");
}

static void unknown_operations_are_refused(void)
{
	static const uint32_t unknown[] = {4, 6, 10, 13, 15, 18, 255};

	for (unsigned i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
		struct ublk_descriptor descriptor = describe(unknown[i], 0, STORE_PAGE);
		struct disk_request request = {.op = DISK_OPS};

		ok(ublk_request_read(&descriptor, ROOM, &request) == -EOPNOTSUPP && request.op == DISK_OPS,
		   "operation %u, which the device does not offer, gets -EOPNOTSUPP", unknown[i]);
	}
}

int main(void)
{
	each_operation_is_converted();
	a_flush_has_no_place();
	unknown_operations_are_refused();
	return tap_done();
}

/*
 * ublk_abi: what the kernel's ublk driver and its servers say to each other, as far as farpage speaks it.
 *
 * Source: Linux 6.12 Documentation/block/ublk.rst and include/uapi/linux/ublk_cmd.h. Debian 12's copy of the latter is
 * of 6.1 and knows neither the ioctl-encoded commands nor GET_FEATURES; so the facts are here, under names of our own
 * that do not clash with it.
 *
 * Two devices. Commands about devices go to /dev/ublk-control, as io_uring commands of 128 byte entries with a `struct
 * ublk_command`. Requests of device N go through /dev/ublkcN: each queue's descriptors are mapped from it (read only),
 * one for each tag; a command FETCH or COMMIT_AND_FETCH of a tag (a `struct ublk_io_command` in an entry of 64 bytes)
 * completes when its descriptor holds a request. Data is copied by the kernel between the request and the address that
 * the command named: before it completes for writes, in COMMIT_AND_FETCH for reads.
 */
#ifndef BLOCKDEV_UBLK_ABI_H
#define BLOCKDEV_UBLK_ABI_H

#include <assert.h>
#include <linux/ioctl.h>
#include <stdint.h>

#define UBLK_CONTROL_PATH "/dev/ublk-control"

/* About devices. Kernels before 6.4 know these numbers only. */
enum ublk_operation {
	UBLK_GET_INFO = 0x02,
	UBLK_ADD = 0x04,
	UBLK_DELETE = 0x05,
	UBLK_START = 0x06,
	UBLK_STOP = 0x07,
	UBLK_SET_PARAMETERS = 0x08,
	UBLK_GET_PARAMETERS = 0x09,
	UBLK_START_RECOVERY = 0x10,
	UBLK_END_RECOVERY = 0x11,
	UBLK_GET_FEATURES = 0x13, /* since 6.5, encoded only */
};

/* About a tag. */
enum ublk_io_operation { UBLK_FETCH = 0x20, UBLK_COMMIT_AND_FETCH = 0x21 };

/* Kernels since 6.4, and all they will ever take when built without BLKDEV_UBLK_LEGACY_OPCODES, take them like this. */
#define UBLK_ENCODED_READ(operation) _IOR('u', operation, struct ublk_command)
#define UBLK_ENCODED_BOTH(operation) _IOWR('u', operation, struct ublk_command)
#define UBLK_ENCODED_IO(operation) _IOWR('u', operation, struct ublk_io_command)

#define UBLK_NO_QUEUE UINT16_MAX
#define UBLK_ANY_NUMBER UINT32_MAX /* ADD: the driver chooses */

/* In sqe->cmd of a command about devices. */
struct ublk_command {
	uint32_t number;  /* of the device */
	uint16_t queue;   /* UBLK_NO_QUEUE */
	uint16_t length;  /* of what is at `address` */
	uint64_t address; /* in or out, by operation */
	uint64_t data;    /* START, END_RECOVERY: the server's process id */
	uint16_t path_length, padding;
	uint32_t reserved;
};
static_assert(sizeof(struct ublk_command) == 32, "as the kernel has it");

/* Features of the driver and flags of a device. */
#define UBLK_USER_RECOVERY (1ull << 3)         /* the device waits for another server when its own ends */
#define UBLK_USER_RECOVERY_REISSUE (1ull << 4) /* and then asks again what was not answered */
#define UBLK_PER_IO_DAEMON (1ull << 13)        /* Linux 6.16 */

enum ublk_state { UBLK_DEAD, UBLK_LIVE, UBLK_QUIESCED };

struct ublk_info {
	uint16_t queues, depth; /* ADD: the driver lowers what is too much */
	uint16_t state;         /* enum ublk_state */
	uint16_t padding0;
	uint32_t request_bytes; /* longest request */
	uint32_t number;
	int32_t server_pid;
	uint32_t padding1;
	uint64_t flags;
	uint64_t server_flags; /* the server's own, kept by the driver */
	uint32_t owner_uid, owner_gid;
	uint64_t reserved[2];
};
static_assert(sizeof(struct ublk_info) == 64, "as the kernel has it");

#define UBLK_PARAMETERS_BASIC (1u << 0)
#define UBLK_PARAMETERS_DISCARD (1u << 1)

struct ublk_parameters {
	uint32_t length; /* of this struct: kernels know more or less of it */
	uint32_t types;  /* which of the parts are set */
	struct {
		uint32_t attributes; /* 0: writable, not rotational, no volatile cache */
		uint8_t logical_shift, physical_shift, optimal_shift, minimum_shift;
		uint32_t max_sectors, chunk_sectors;
		uint64_t sectors; /* size of the device */
		uint64_t boundary_mask;
	} basic;
	struct {
		uint32_t alignment, granularity; /* bytes */
		uint32_t max_sectors, max_zero_sectors;
		uint16_t max_segments; /* 1 */
		uint16_t reserved;
	} discard;
	uint32_t unused; /* the first of what later kernels append; `types` says that it is not set */
};
static_assert(sizeof(struct ublk_parameters) == 64, "as the kernel has it");

enum ublk_request_operation {
	UBLK_READ = 0,
	UBLK_WRITE = 1,
	UBLK_FLUSH = 2,
	UBLK_DISCARD = 3,
	UBLK_WRITE_ZEROES = 5,
};

/* A request, in the table mapped from /dev/ublkcN. */
struct ublk_descriptor {
	uint32_t operation_flags; /* bits 0-7: enum ublk_request_operation */
	uint32_t sectors;
	uint64_t sector;
	uint64_t address; /* as the command gave it */
};
static_assert(sizeof(struct ublk_descriptor) == 24, "as the kernel has it");

#define UBLK_DEPTH_MAX 4096u
/* Bytes between the descriptors of one queue and those of the next, as offsets into /dev/ublkcN. */
#define UBLK_DESCRIPTORS_STRIDE (UBLK_DEPTH_MAX * sizeof(struct ublk_descriptor))
static_assert(UBLK_DESCRIPTORS_STRIDE % 4096 == 0, "whole pages");

/* In sqe->cmd of a command about a tag. */
struct ublk_io_command {
	uint16_t queue, tag;
	int32_t result;   /* COMMIT_AND_FETCH: bytes, 0, or -errno */
	uint64_t address; /* of the data of this request and of the next */
};
static_assert(sizeof(struct ublk_io_command) == 16, "as the kernel has it");

/* What FETCH and COMMIT_AND_FETCH complete with: 0: a request; -ENODEV: the device has been stopped. */

#endif

/*
 * ublk_abi: the interface between the kernel's ublk driver and a server, as far as farpage uses it.
 *
 * Source: Linux 6.12, Documentation/block/ublk.rst and include/uapi/linux/ublk_cmd.h. Debian 12's header (Linux 6.1)
 * lacks the ioctl-encoded commands and GET_FEATURES. So this file has definitions of its own, with names that do not
 * clash.
 *
 * Commands about devices are io_uring commands on /dev/ublk-control: 128-byte entries with a `struct ublk_command`.
 *
 * Requests of device N are exchanged on /dev/ublkcN. A read-only mapping of this file has the request descriptors of
 * each queue, one per tag (ublk_queue.h). A FETCH or COMMIT_AND_FETCH command for a tag (a `struct ublk_io_command` in
 * a 64-byte entry) completes when the tag's descriptor has a request. The kernel copies the data between the request
 * and the address in the command. It copies the data of a write before the command completes, and the data of a read at
 * COMMIT_AND_FETCH.
 */
#ifndef BLOCKDEV_UBLK_ABI_H
#define BLOCKDEV_UBLK_ABI_H

#include <assert.h>
#include <linux/ioctl.h>
#include <stdint.h>

#define UBLK_CONTROL_PATH "/dev/ublk-control"

/* Commands about devices. Kernels before 6.4 know the commands only by these numbers. */
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
	UBLK_GET_FEATURES = 0x13, /* since 6.5; always encoded */
};

/* Commands about a tag. */
enum ublk_io_operation { UBLK_FETCH = 0x20, UBLK_COMMIT_AND_FETCH = 0x21 };

/* The encoding of commands since Linux 6.4. Kernels without BLKDEV_UBLK_LEGACY_OPCODES accept only encoded commands. */
#define UBLK_ENCODED_READ(operation) _IOR('u', operation, struct ublk_command)
#define UBLK_ENCODED_BOTH(operation) _IOWR('u', operation, struct ublk_command)
#define UBLK_ENCODED_IO(operation) _IOWR('u', operation, struct ublk_io_command)

#define UBLK_NO_QUEUE UINT16_MAX
#define UBLK_ANY_NUMBER UINT32_MAX /* for ADD: the driver chooses the number */

/* The contents of sqe->cmd in a command about devices. */
struct ublk_command {
	uint32_t number;
	uint16_t queue;   /* always UBLK_NO_QUEUE */
	uint16_t length;  /* length of the data at `address` */
	uint64_t address; /* data to or from the kernel, depending on the operation */
	uint64_t data;    /* for START and END_RECOVERY: the server's process id */
	uint16_t path_length, padding;
	uint32_t reserved;
};
static_assert(sizeof(struct ublk_command) == 32, "as the kernel has it");

/* Features of the driver and flags of a device. */
#define UBLK_USER_RECOVERY (1ull << 3)         /* the device survives its server */
#define UBLK_USER_RECOVERY_REISSUE (1ull << 4) /* a recovered device repeats unanswered requests */
#define UBLK_PER_IO_DAEMON (1ull << 13)        /* of Linux 6.16 */

enum ublk_state { UBLK_DEAD, UBLK_LIVE, UBLK_QUIESCED };

struct ublk_info {
	uint16_t queues, depth; /* ADD lowers values that are too high */
	uint16_t state;         /* enum ublk_state */
	uint16_t padding0;
	uint32_t request_bytes; /* longest request */
	uint32_t number;
	int32_t server_pid;
	uint32_t padding1;
	uint64_t flags;
	uint64_t server_flags; /* for the server's own use */
	uint32_t owner_uid, owner_gid;
	uint64_t reserved[2];
};
static_assert(sizeof(struct ublk_info) == 64, "as the kernel has it");

#define UBLK_PARAMETERS_BASIC (1u << 0)
#define UBLK_PARAMETERS_DISCARD (1u << 1)

struct ublk_parameters {
	uint32_t length; /* length of this struct, which differs between kernels */
	uint32_t types;  /* which parts are set */
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
	uint32_t unused; /* later kernels append fields here, which `types` does not announce */
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
	uint64_t address; /* the address given in the tag's command */
};
static_assert(sizeof(struct ublk_descriptor) == 24, "as the kernel has it");

#define UBLK_DEPTH_MAX 4096u
/* Distance in bytes between the descriptors of two queues, as offsets into /dev/ublkcN. */
#define UBLK_DESCRIPTORS_STRIDE (UBLK_DEPTH_MAX * sizeof(struct ublk_descriptor))
static_assert(UBLK_DESCRIPTORS_STRIDE % 4096 == 0, "whole pages");

/* The contents of sqe->cmd in a command about a tag. */
struct ublk_io_command {
	uint16_t queue, tag;
	int32_t result;   /* COMMIT_AND_FETCH: number of bytes, 0, or -errno */
	uint64_t address; /* memory for the data of this request and the next */
};
static_assert(sizeof(struct ublk_io_command) == 16, "as the kernel has it");

/* FETCH and COMMIT_AND_FETCH complete with 0 for a request, or -ENODEV if the device has been stopped. */

#endif

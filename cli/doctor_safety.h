/*
 * doctor_safety: how safe would it be to swap to far memory on this host: by each fabric, with the front end it has?
 *
 * Theory of operation. Pages leave for a swap device just when memory has run out. What the way there needs from the
 * kernel by then it may not get, or only when pages have left: then the host stands still. Three words for it:
 *
 * Safe: nothing on the way takes memory (an RDMA device that works without the kernel, and ublk), the daemon has the
 * rights to lock its memory and to be spared, and the device outlives it. Best effort: something on the way takes
 * memory (socket buffers, FUSE's requests), and a reserve makes it unlikely that there is none, or the device is lost
 * with its daemon. Unsafe: the daemon itself may be swapped out, killed, or made to wait for what it is to serve.
 *
 * The reserve is vm.min_free_kbytes, which farpage swap on raises while its device is there (blockdev/watermarks.h;
 * doctor_reserves.h tells of it).
 */
#ifndef CLI_DOCTOR_SAFETY_H
#define CLI_DOCTOR_SAFETY_H

#include "cli/doctor_swap.h"

#include <stdbool.h>
#include <stdint.h>

enum swap_frontend { SWAP_FRONTEND_NONE, SWAP_FRONTEND_UBLK, SWAP_FRONTEND_FUSE };
enum swap_fabric { SWAP_FABRIC_RDMA, SWAP_FABRIC_SOFT_RDMA, SWAP_FABRIC_TCP };

struct swap_facts {
	enum swap_frontend frontend;
	bool recovers; /* ublk: devices outlive their daemon */
	enum swap_fabric fabric;
	bool local; /* the donor is this very host */
	struct swap_rights rights;
	struct swap_group group;
	uint64_t memory_kib;   /* MemTotal */
	uint64_t min_free_kib; /* vm.min_free_kbytes */
	uint64_t flight_kib;   /* that all queues may have under way */
};
struct doctor_verdict doctor_judge_safety(const struct swap_facts *facts);

struct doctor;
void doctor_safety(struct doctor *doctor);

#endif

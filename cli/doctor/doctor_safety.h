/*
 * doctor_safety: judges how safe swapping to far memory would be on this host, for each fabric and with the front end
 * that this host has.
 *
 * Theory of operation. Pages leave for a swap device exactly when memory has run out. If the way to the donor then
 * needs memory from the kernel, it may get none until pages have left. In that case the host stands still. The verdict
 * uses three words.
 *
 * Safe:
 * - Nothing on the way takes memory: an RDMA device that works without the kernel, and ublk.
 * - The daemon has the rights to lock its memory and to be spared by reclaim and by the OOM killer.
 * - The device outlives the daemon.
 *
 * Best effort, if any of these conditions is true:
 * - Something on the way takes memory: socket buffers, or FUSE's requests. A reserve makes a lack of memory unlikely.
 * - The device is lost with its daemon.
 *
 * Unsafe, if any of these conditions is true:
 * - The donor is this host itself.
 * - The daemon may be swapped out or killed.
 * - The daemon may be made to wait for the very pages that it should serve.
 *
 * The reserve is vm.min_free_kbytes. farpage swap on raises it while its device exists (blockdev/host/watermarks.h), and
 * doctor_reserves.h reports it.
 */
#ifndef CLI_DOCTOR_SAFETY_H
#define CLI_DOCTOR_SAFETY_H

#include "cli/doctor/doctor_swap.h"

#include <stdbool.h>
#include <stdint.h>

enum swap_frontend { SWAP_FRONTEND_NONE, SWAP_FRONTEND_UBLK, SWAP_FRONTEND_FUSE };
enum swap_fabric { SWAP_FABRIC_RDMA, SWAP_FABRIC_SOFT_RDMA, SWAP_FABRIC_TCP };

struct swap_facts {
	enum swap_frontend frontend;
	bool recovers; /* ublk devices outlive their daemon */
	enum swap_fabric fabric;
	bool local; /* the donor is this host itself */
	struct swap_rights rights;
	struct swap_group group;
	uint64_t memory_kib;   /* MemTotal */
	uint64_t min_free_kib; /* vm.min_free_kbytes */
	uint64_t flight_kib;   /* the most that all queues may have under way */
};
struct doctor_verdict doctor_judge_safety(const struct swap_facts *facts);

struct doctor;
void doctor_safety(struct doctor *doctor);

#endif

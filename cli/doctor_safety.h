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
 * The reserve is vm.min_free_kbytes: below it only those get memory who cannot wait, as the network's interrupts, and
 * they get half of it (mm/page_alloc.c, ALLOC_MIN_RESERVE); others wait for kswapd, which starts a quarter above it. So
 * there are to be: what the kernel chooses by itself (four times the root of the memory in KiB, 128K to 256M;
 * calculate_min_free_kbytes()), for all others, and twice what the queues of a device may have under way.
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
/* vm.min_free_kbytes as it would have to be. */
uint64_t doctor_reserve(const struct swap_facts *facts);
struct doctor_verdict doctor_judge_safety(const struct swap_facts *facts);

struct doctor;
void doctor_safety(struct doctor *doctor);

#endif

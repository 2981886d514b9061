/*
 * domain: the backends' interface to protection domains and to the regions in them.
 *
 * Theory of operation. A domain is a table of regions. fabric_register() takes a free entry and gives it an rkey: the
 * low 16 bits are the entry's index, and the bits above are random. A peer's request names an rkey. The tcp backend
 * finds the entry by the low bits, and compares the whole rkey. So a lookup is cheap, and neither a guessed rkey nor
 * the rkey of a deregistered region matches.
 *
 * While the tcp backend moves bytes of a region, it pins the region, for at most one non-blocking system call.
 * fabric_deregister() first removes the rkey, so that no new pin succeeds. Then it waits until the last pin is
 * released. When it returns, the memory may be unmapped.
 *
 * RDMA devices need registrations of their own. The domain's first connection on a device binds the domain to this
 * device. From then on, the domain's regions are also registered with this device:
 *
 * - A new region is registered with all bound devices by fabric_register().
 * - An older region with only local access is registered by the binding itself, because it is needed soon.
 * - An older region with remote access is registered when it is first exported or posted. Otherwise, a client that
 *   connects over a second device would stop a donor's thread until hundreds of slabs are registered.
 *
 * Threads. A lock guards the table. It is not held while a device registers a new region, which may take long.
 * Pinning takes no lock, and any thread may pin.
 */
#ifndef FABRIC_DOMAIN_H
#define FABRIC_DOMAIN_H

#include "fabric/fabric.h"
#include "fabric/verbs/verbs_device.h"

#include <stdatomic.h>

/* The most regions of one domain: 4 TiB in slabs of 64 MiB. */
#define DOMAIN_REGIONS_MAX (1u << 16)

struct fabric_region {
	_Atomic uint32_t rkey; /* 0 if the region is not registered */
	_Atomic uint32_t pins;
	uint32_t next_free, last_rkey; /* guarded by the domain's lock */
	/* The fields from here to `domain` do not change while rkey is not 0. `access` is a mask of enum
	   fabric_access. */
	unsigned access;
	uint64_t base;
	uint64_t length;
	struct fabric_domain *domain;
	/* Indexed by the device's slot. NULL if the region is not registered with that device. */
	struct ibv_mr *_Atomic mrs[VERBS_DEVICES_MAX];
};

enum domain_refusal {
	DOMAIN_GRANTED,
	DOMAIN_RKEY_UNKNOWN,
	DOMAIN_OUTSIDE,
	DOMAIN_NO_READ,
	DOMAIN_NO_WRITE,
	DOMAIN_REFUSAL_COUNT
};
const char *domain_refusal_name(enum domain_refusal refusal);

/* Checks that the region of @rkey contains [@address, @address + @length) and allows @access, which is one bit of
   enum fabric_access. If so, pins the region: its memory may be accessed until domain_unpin(). */
enum domain_refusal domain_pin(struct fabric_domain *domain, uint32_t rkey, uint64_t address, uint64_t length,
			       unsigned access, struct fabric_region **ret_region);
void domain_unpin(struct fabric_region *region);
bool domain_covers(const struct fabric_region *region, const void *local, uint64_t length);

/* --- RDMA devices ------------------------------------------------------------------------------------------- */

/* Binds the domain to @device, unless it is bound already. *ret_pd stays valid until the domain is closed or the device
   is removed. Returns 0 or -errno. */
int domain_bind(struct fabric_domain *domain, struct verbs_device *device, struct ibv_pd **ret_pd);
/* Finds @region's registration with @device, or makes it. Returns 0, -EINVAL if the domain is not bound to @device, or
   an error of fabric_register(). */
int domain_mr(struct fabric_region *region, const struct verbs_device *device, struct ibv_mr **ret_mr);

#endif

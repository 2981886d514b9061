/*
 * domain: protection domains and the regions registered in them, as the backends see them.
 *
 * Theory of operation. A domain is a table of regions. An rkey is the region's index in its low bits and random
 * above, so that looking one up costs one compare and a stale or guessed one does not fit. A request pins its region
 * while bytes move, which is never longer than one system call that does not block; deregistering takes the key away
 * and then waits for the pins. So once it has returned the memory may be unmapped.
 *
 * The verbs backend adds what the devices keep: a protection domain for each RDMA device that the domain is bound to
 * (by its first connection there), and a registration of each region with each of those devices. A region registered
 * later is registered with all of them at once, by the calling thread; what was there before a device is registered
 * with it then if it is local, and when it is first exported or posted if it is not: a donor's thread does not stop for
 * a hundred slabs because a client comes over a second device.
 *
 * Threads. Registering takes the domain's lock, though not while a device registers; pinning takes none and may happen
 * in any thread.
 */
#ifndef FABRIC_DOMAIN_H
#define FABRIC_DOMAIN_H

#include "fabric/verbs_device.h"
#include "farpage/fabric.h"
#include <stdatomic.h>

/* Most regions of one domain: 4 TiB of slabs of 64 MiB. */
#define DOMAIN_REGIONS_MAX (1u << 16)

struct fabric_region {
	_Atomic uint32_t rkey; /* 0: not registered */
	_Atomic uint32_t pins;
	uint32_t next_free, last_rkey; /* under the domain's lock */
	unsigned access;               /* enum fabric_access; this and the rest are constant while rkey is not 0 */
	uint64_t base;
	uint64_t length;
	struct fabric_domain *domain;
	struct ibv_mr *_Atomic mrs[VERBS_DEVICES_MAX]; /* by the device's slot; NULL: not registered with it */
};

enum domain_refusal {
	DOMAIN_GRANTED,
	DOMAIN_RKEY_UNKNOWN,
	DOMAIN_OUTSIDE,
	DOMAIN_NO_READ,
	DOMAIN_NO_WRITE,
	DOMAIN_REFUSAL_COUNT
};
/* "rkey unknown": for logs. */
const char *domain_refusal_name(enum domain_refusal refusal);

/*
 * Pins the region of @rkey if [@address, @address + @length) is inside it and it may be used with @access (one bit of
 * enum fabric_access). The bytes may be touched until domain_unpin(). Data path.
 */
enum domain_refusal domain_pin(struct fabric_domain *domain, uint32_t rkey, uint64_t address, uint64_t length,
			       unsigned access, struct fabric_region **ret_region);
void domain_unpin(struct fabric_region *region);
/* Whether one's own [@local, @local + @length) is inside @region. */
bool domain_covers(const struct fabric_region *region, const void *local, uint64_t length);

/* --- RDMA devices ------------------------------------------------------------------------------------------- */

/* The domain is going to be used on @device; the protection domain there lives as long as the domain. -errno. */
int domain_bind(struct fabric_domain *domain, struct verbs_device *device, struct ibv_pd **ret_pd);
/* @region's registration with a device that its domain is bound to; may have to be made. -errno as fabric_register().
 */
int domain_mr(struct fabric_region *region, const struct verbs_device *device, struct ibv_mr **ret_mr);

#endif

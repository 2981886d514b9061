/*
 * domain: protection domains and the regions registered in them, as the backends see them.
 *
 * Theory of operation. A domain is a table of regions. An rkey has the region's index in its low bits and random bits
 * above. So a lookup costs one compare, and a stale or guessed rkey does not match. A request pins its region while
 * bytes move, for at most one non-blocking system call. Deregistering first removes the key and then waits for the
 * pins. So the memory may be unmapped when fabric_deregister() returns.
 *
 * For the verbs backend, a domain also has a protection domain on each RDMA device that it is bound to. Its first
 * connection on a device binds it. Each region has a registration with each of those devices:
 *   - A region that is registered after the binding is registered with all bound devices at once, by the calling
 *     thread.
 *   - An older region with only local access is registered with the device at the binding.
 *   - An older region with remote access is registered when it is first exported or posted. So a donor's thread does
 *     not stop for a hundred slabs when a client comes over a second device.
 *
 * Threads. Registering takes the domain's lock, but not while a device registers. Pinning takes no lock and may happen
 * in any thread.
 */
#ifndef FABRIC_DOMAIN_H
#define FABRIC_DOMAIN_H

#include "fabric/fabric.h"
#include "fabric/verbs/verbs_device.h"
#include <stdatomic.h>

/* The most regions of one domain: 4 TiB in slabs of 64 MiB. */
#define DOMAIN_REGIONS_MAX (1u << 16)

struct fabric_region {
	_Atomic uint32_t rkey; /* 0: not registered */
	_Atomic uint32_t pins;
	uint32_t next_free, last_rkey; /* guarded by the domain's lock */
	/* A mask of enum fabric_access. The fields from here to `domain` are constant while rkey is not 0. */
	unsigned access;
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
/* Returns the refusal as a text for logs, such as "rkey unknown". */
const char *domain_refusal_name(enum domain_refusal refusal);

/*
 * Pins the region of @rkey if it contains [@address, @address + @length) and allows @access (one bit of enum
 * fabric_access). The bytes may be accessed until domain_unpin(). Data path.
 */
enum domain_refusal domain_pin(struct fabric_domain *domain, uint32_t rkey, uint64_t address, uint64_t length,
			       unsigned access, struct fabric_region **ret_region);
void domain_unpin(struct fabric_region *region);
/* Returns true if @region contains our own memory at [@local, @local + @length). */
bool domain_covers(const struct fabric_region *region, const void *local, uint64_t length);

/* --- RDMA devices ------------------------------------------------------------------------------------------- */

/* Binds the domain to @device unless it is bound already. The protection domain lives as long as the domain, or until
   the device is removed. Returns 0 or -errno. */
int domain_bind(struct fabric_domain *domain, struct verbs_device *device, struct ibv_pd **ret_pd);
/* Returns @region's registration with a device that its domain is bound to. Registers the region if needed. Errors are
   those of fabric_register(), or -EINVAL if the domain is not bound. */
int domain_mr(struct fabric_region *region, const struct verbs_device *device, struct ibv_mr **ret_mr);

#endif

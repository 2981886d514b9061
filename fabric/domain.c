/* domain: see domain.h. */
#include "fabric/domain.h"

#include "common/log.h"
#include "common/random.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#define INDEX_MASK (DOMAIN_REGIONS_MAX - 1)
#define NO_REGION UINT32_MAX

struct domain_binding {
	struct verbs_binding base; /* first, because binding_let_go() casts it */
	struct fabric_domain *domain;
	struct verbs_device *device; /* NULL if not bound */
	struct ibv_pd *pd;
};

struct fabric_domain {
	pthread_mutex_t lock;
	/* A thread that makes or frees registrations without `lock` holds this for reading. A thread that unbinds a
	   device holds it for writing. So no thread registers a region with a device that is being unbound. */
	pthread_rwlock_t bound;
	/* Protected by `lock`: */
	uint32_t fresh;     /* index of the first region never used */
	uint32_t free_head; /* list of freed regions, linked by next_free */
	uint32_t count;
	struct domain_binding bindings[VERBS_DEVICES_MAX]; /* by the device's slot */
	/* domain_pin() reads these without `lock`: */
	struct fabric_region regions[DOMAIN_REGIONS_MAX];
};

const char *domain_refusal_name(enum domain_refusal refusal)
{
	static const char *const names[] = {
	    [DOMAIN_GRANTED] = "granted",
	    [DOMAIN_RKEY_UNKNOWN] = "rkey unknown",
	    [DOMAIN_OUTSIDE] = "outside the registered range",
	    [DOMAIN_NO_READ] = "no read access",
	    [DOMAIN_NO_WRITE] = "no write access",
	};
	_Static_assert(sizeof names / sizeof *names == DOMAIN_REFUSAL_COUNT, "a name for each");
	return names[refusal];
}

int fabric_domain_open(struct fabric_domain **ret_domain)
{
	/* The table takes 7 MiB of address space, but only its used part should take memory. calloc() might write
	   zeroes to the whole table, and thereby allocate its memory. */
	struct fabric_domain *domain =
	    mmap(NULL, sizeof *domain, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (domain == MAP_FAILED)
		return -ENOMEM;
	pthread_mutex_init(&domain->lock, NULL);
	pthread_rwlock_init(&domain->bound, NULL);
	domain->free_head = NO_REGION;
	*ret_domain = domain;
	return 0;
}

static void pd_free(struct domain_binding *binding)
{
	if (ibv_dealloc_pd(binding->pd) && !binding->device->gone)
		log_error("%s: cannot free a protection domain: %m", binding->device->name);
	binding->pd = NULL;
	binding->device = NULL;
}

void fabric_domain_close(struct fabric_domain *domain)
{
	if (!domain)
		return;
	assert(domain->count == 0);
	verbs_devices_lock();
	for (unsigned i = 0; i < VERBS_DEVICES_MAX; i++) {
		struct verbs_device *device = domain->bindings[i].device;

		if (!device)
			continue;
		pd_free(&domain->bindings[i]);
		verbs_device_unbind(device, &domain->bindings[i].base);
	}
	verbs_devices_unlock();
	pthread_rwlock_destroy(&domain->bound);
	pthread_mutex_destroy(&domain->lock);
	munmap(domain, sizeof *domain);
}

/* Returns a key with @index in its low bits and random bits above. The key is never 0, and never @old, the region's
   previous key. */
static uint32_t rkey_make(uint32_t index, uint32_t old)
{
	uint32_t rkey;

	do {
		random_secret(&rkey, sizeof rkey);
		rkey = (rkey & ~INDEX_MASK) | index;
	} while ((rkey & ~INDEX_MASK) == 0 || rkey == old);
	return rkey;
}

/* --- RDMA devices ------------------------------------------------------------------------------------------ */

static int mr_flags(const struct fabric_region *region, const struct verbs_device *device)
{
	int flags = IBV_ACCESS_LOCAL_WRITE;

	if (region->access & FABRIC_REMOTE_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	/* With iWARP, the data of a read arrives as a remote write (RFC 5040). */
	if (region->access & FABRIC_REMOTE_WRITE || device->iwarp)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	return flags;
}

static int mr_make(struct fabric_region *region, const struct verbs_device *device, struct ibv_pd *pd)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)(uintptr_t)region->base, region->length, mr_flags(region, device));

	if (!mr)
		return verbs_device_register_error(errno);
	atomic_store(&region->mrs[device->slot], mr);
	return 0;
}

static void mr_free(struct fabric_region *region, const struct domain_binding *binding, unsigned slot)
{
	struct ibv_mr *mr = atomic_exchange(&region->mrs[slot], NULL);

	if (mr && ibv_dereg_mr(mr) && !binding->device->gone)
		log_error("%s: cannot deregister memory: %m", binding->device->name);
}

static void mrs_free(struct fabric_region *region)
{
	struct fabric_domain *domain = region->domain;

	pthread_rwlock_rdlock(&domain->bound);
	for (unsigned i = 0; i < VERBS_DEVICES_MAX; i++)
		mr_free(region, &domain->bindings[i], i);
	pthread_rwlock_unlock(&domain->bound);
}

/* Registers a new region with every device of the domain's bindings. After an error, no device has the region. */
static int mrs_make(struct fabric_region *region)
{
	struct fabric_domain *domain = region->domain;
	struct domain_binding binding;
	int status = 0;

	pthread_rwlock_rdlock(&domain->bound);
	for (unsigned i = 0; i < VERBS_DEVICES_MAX && status == 0; i++) {
		pthread_mutex_lock(&domain->lock);
		binding = domain->bindings[i];
		pthread_mutex_unlock(&domain->lock);
		if (binding.pd && !binding.device->gone)
			status = mr_make(region, binding.device, binding.pd);
	}
	pthread_rwlock_unlock(&domain->bound);
	if (status < 0)
		mrs_free(region);
	return status;
}

int domain_mr(struct fabric_region *region, const struct verbs_device *device, struct ibv_mr **ret_mr)
{
	struct fabric_domain *domain = region->domain;
	struct ibv_pd *pd;
	int status = 0;

	if (!atomic_load_explicit(&region->mrs[device->slot], memory_order_acquire)) {
		pthread_mutex_lock(&domain->lock);
		pd = domain->bindings[device->slot].pd;
		if (!pd)
			status = -EINVAL;
		else if (!atomic_load(&region->mrs[device->slot]))
			status = mr_make(region, device, pd);
		pthread_mutex_unlock(&domain->lock);
		if (status < 0)
			return status;
	}
	*ret_mr = atomic_load_explicit(&region->mrs[device->slot], memory_order_acquire);
	return 0;
}

/* The lock must be held. Registers with @device the regions that have only local access. These are buffers for pages:
   few, small, and used soon. */
static int local_mrs_make(struct fabric_domain *domain, const struct verbs_device *device)
{
	int status = 0;

	for (uint32_t i = 0; i < domain->fresh && status == 0; i++) {
		struct fabric_region *region = &domain->regions[i];

		if (atomic_load(&region->rkey) && region->access == FABRIC_LOCAL &&
		    !atomic_load(&region->mrs[device->slot]))
			status = mr_make(region, device, domain->bindings[device->slot].pd);
	}
	return status;
}

static void binding_let_go(struct verbs_binding *base)
{
	struct domain_binding *binding = (struct domain_binding *)base;
	struct fabric_domain *domain = binding->domain;
	unsigned slot = binding->device->slot;

	pthread_rwlock_wrlock(&domain->bound);
	pthread_mutex_lock(&domain->lock);
	for (uint32_t i = 0; i < domain->fresh; i++)
		mr_free(&domain->regions[i], binding, slot);
	pd_free(binding);
	pthread_mutex_unlock(&domain->lock);
	pthread_rwlock_unlock(&domain->bound);
}

static int binding_make(struct fabric_domain *domain, struct verbs_device *device)
{
	struct domain_binding *binding = &domain->bindings[device->slot];
	struct ibv_pd *pd = NULL;
	int status = 0;

	verbs_devices_lock();
	pthread_mutex_lock(&domain->lock);
	if (!binding->pd) {
		pd = ibv_alloc_pd(device->context);
		if (pd) {
			*binding = (struct domain_binding){
			    .base.let_go = binding_let_go, .domain = domain, .device = device, .pd = pd};
			verbs_device_bind(device, &binding->base);
		} else {
			status = errno ? -errno : -ENOMEM;
		}
	}
	pthread_mutex_unlock(&domain->lock);
	verbs_devices_unlock();
	return status;
}

int domain_bind(struct fabric_domain *domain, struct verbs_device *device, struct ibv_pd **ret_pd)
{
	struct domain_binding *binding = &domain->bindings[device->slot];
	int status = 0;
	bool bound;

	pthread_mutex_lock(&domain->lock);
	bound = binding->pd;
	pthread_mutex_unlock(&domain->lock);
	/* The caller's fabric uses the device, so no other thread unbinds the device now. */
	if (!bound)
		status = binding_make(domain, device);
	if (status < 0)
		return status;
	pthread_mutex_lock(&domain->lock);
	status = local_mrs_make(domain, device);
	if (status == 0)
		*ret_pd = binding->pd;
	pthread_mutex_unlock(&domain->lock);
	return status;
}

/* --- Regions ------------------------------------------------------------------------------------------------ */

static struct fabric_region *region_take(struct fabric_domain *domain)
{
	struct fabric_region *region = NULL;

	pthread_mutex_lock(&domain->lock);
	if (domain->free_head != NO_REGION) {
		region = &domain->regions[domain->free_head];
		domain->free_head = region->next_free;
	} else if (domain->fresh < DOMAIN_REGIONS_MAX) {
		region = &domain->regions[domain->fresh++];
	}
	if (region)
		domain->count++;
	pthread_mutex_unlock(&domain->lock);
	return region;
}

static void region_give(struct fabric_region *region)
{
	struct fabric_domain *domain = region->domain;

	pthread_mutex_lock(&domain->lock);
	region->next_free = domain->free_head;
	domain->free_head = (uint32_t)(region - domain->regions);
	domain->count--;
	pthread_mutex_unlock(&domain->lock);
}

int fabric_register(struct fabric_domain *domain, void *base, size_t length, unsigned access,
		    struct fabric_region **ret_region)
{
	struct fabric_region *region;
	int status;

	if (length == 0 || (uint64_t)(uintptr_t)base + length < length)
		return -EINVAL;
	region = region_take(domain);
	if (!region)
		return -ENOSPC;
	region->base = (uintptr_t)base;
	region->length = length;
	region->access = access;
	region->domain = domain;
	status = mrs_make(region);
	if (status < 0) {
		region_give(region);
		return status;
	}
	region->last_rkey = rkey_make((uint32_t)(region - domain->regions), region->last_rkey);
	atomic_store(&region->rkey, region->last_rkey);
	*ret_region = region;
	return 0;
}

void fabric_deregister(struct fabric_region *region)
{
	if (!region)
		return;
	/* local_mrs_make() holds the lock while it registers regions with a device. Either local_mrs_make() has
	   registered this region before, and mrs_free() finds the registration. Or it finds the rkey 0 later and skips
	   the region. */
	pthread_mutex_lock(&region->domain->lock);
	atomic_store(&region->rkey, 0);
	pthread_mutex_unlock(&region->domain->lock);
	while (atomic_load(&region->pins))
		sched_yield();
	mrs_free(region);
	region_give(region);
}

enum domain_refusal domain_pin(struct fabric_domain *domain, uint32_t rkey, uint64_t address, uint64_t length,
			       unsigned access, struct fabric_region **ret_region)
{
	struct fabric_region *region = &domain->regions[rkey & INDEX_MASK];
	enum domain_refusal refusal = DOMAIN_GRANTED;

	/* Pins first, then reads the key. fabric_deregister() removes the key first, then reads the pins. So at least
	   one of the two threads sees the other's change. */
	atomic_fetch_add(&region->pins, 1);
	if (rkey == 0 || atomic_load(&region->rkey) != rkey)
		refusal = DOMAIN_RKEY_UNKNOWN;
	else if (!(region->access & access))
		refusal = access == FABRIC_REMOTE_WRITE ? DOMAIN_NO_WRITE : DOMAIN_NO_READ;
	else if (address < region->base || length > region->length || address - region->base > region->length - length)
		refusal = DOMAIN_OUTSIDE;
	if (refusal == DOMAIN_GRANTED)
		*ret_region = region;
	else
		domain_unpin(region);
	return refusal;
}

void domain_unpin(struct fabric_region *region)
{
	atomic_fetch_sub(&region->pins, 1);
}

bool domain_covers(const struct fabric_region *region, const void *local, uint64_t length)
{
	uint64_t address = (uintptr_t)local;

	return address >= region->base && length <= region->length && address - region->base <= region->length - length;
}

/* domain.h */
#include "fabric/domain.h"
#include "common/random.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define INDEX_MASK (DOMAIN_REGIONS_MAX - 1)
#define NO_REGION UINT32_MAX

struct fabric_domain {
	pthread_mutex_t lock;
	/* Under the lock: */
	uint32_t fresh;     /* regions from here on were never used */
	uint32_t free_head; /* given back; linked by next_free */
	uint32_t count;
	/* Pinned without it: */
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
	/* 3 MiB of address space, of which only what is used is ever touched. */
	struct fabric_domain *domain = calloc(1, sizeof *domain);

	if (!domain)
		return -ENOMEM;
	pthread_mutex_init(&domain->lock, NULL);
	domain->free_head = NO_REGION;
	*ret_domain = domain;
	return 0;
}

void fabric_domain_close(struct fabric_domain *domain)
{
	if (!domain)
		return;
	assert(domain->count == 0);
	pthread_mutex_destroy(&domain->lock);
	free(domain);
}

/* Random above the index; never 0, and never the key this slot had before. */
static uint32_t rkey_make(uint32_t index, uint32_t old)
{
	uint32_t rkey;

	do {
		random_secret(&rkey, sizeof rkey);
		rkey = (rkey & ~INDEX_MASK) | index;
	} while ((rkey & ~INDEX_MASK) == 0 || rkey == old);
	return rkey;
}

int fabric_register(struct fabric_domain *domain, void *base, size_t length, unsigned access,
		    struct fabric_region **ret_region)
{
	struct fabric_region *region;
	uint32_t index;

	if (length == 0 || (uint64_t)(uintptr_t)base + length < length)
		return -EINVAL;
	pthread_mutex_lock(&domain->lock);
	if (domain->free_head != NO_REGION) {
		index = domain->free_head;
		domain->free_head = domain->regions[index].next_free;
	} else if (domain->fresh < DOMAIN_REGIONS_MAX) {
		index = domain->fresh++;
	} else {
		pthread_mutex_unlock(&domain->lock);
		return -ENOSPC;
	}
	domain->count++;
	region = &domain->regions[index];
	region->base = (uintptr_t)base;
	region->length = length;
	region->access = access;
	region->domain = domain;
	region->last_rkey = rkey_make(index, region->last_rkey);
	atomic_store(&region->rkey, region->last_rkey);
	pthread_mutex_unlock(&domain->lock);
	*ret_region = region;
	return 0;
}

void fabric_deregister(struct fabric_region *region)
{
	struct fabric_domain *domain;

	if (!region)
		return;
	domain = region->domain;
	atomic_store(&region->rkey, 0);
	while (atomic_load(&region->pins))
		sched_yield();
	pthread_mutex_lock(&domain->lock);
	region->next_free = domain->free_head;
	domain->free_head = (uint32_t)(region - domain->regions);
	domain->count--;
	pthread_mutex_unlock(&domain->lock);
}

enum domain_refusal domain_pin(struct fabric_domain *domain, uint32_t rkey, uint64_t address, uint64_t length,
			       unsigned access, struct fabric_region **ret_region)
{
	struct fabric_region *region = &domain->regions[rkey & INDEX_MASK];
	enum domain_refusal refusal = DOMAIN_GRANTED;

	/* The pin comes first: deregistering takes the key first. One of the two sees the other. */
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

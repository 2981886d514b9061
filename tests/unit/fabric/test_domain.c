/* domain: regions and their keys. */
#include "fabric/domain.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <stdint.h>

#define BASE 0x10000u
#define LENGTH 0x1000u

static enum domain_refusal pin(struct fabric_domain *domain, uint32_t rkey, uint64_t address, uint64_t length,
			       unsigned access)
{
	struct fabric_region *region;
	enum domain_refusal refusal = domain_pin(domain, rkey, address, length, access, &region);

	if (refusal == DOMAIN_GRANTED)
		domain_unpin(region);
	return refusal;
}

static void a_key_grants_its_range_and_rights_only(void)
{
	struct fabric_domain *domain;
	struct fabric_region *region, *top;
	uint32_t rkey;

	fabric_domain_open(&domain);
	ok(fabric_register(domain, (void *)BASE, 0, 0, &region) == -EINVAL, "an empty range cannot be registered");
	ok(fabric_register(domain, (void *)(UINTPTR_MAX - 10), 100, 0, &region) == -EINVAL,
	   "a range that wraps around cannot be registered");
	ok(fabric_register(domain, (void *)BASE, LENGTH, FABRIC_REMOTE_READ, &region) == 0, "a range is registered");
	rkey = region->rkey;
	ok(pin(domain, rkey, BASE, LENGTH, FABRIC_REMOTE_READ) == DOMAIN_GRANTED, "a key grants all of its range");
	ok(pin(domain, rkey, BASE + LENGTH - 1, 1, FABRIC_REMOTE_READ) == DOMAIN_GRANTED,
	   "a key grants the last byte of its range");
	ok(pin(domain, rkey, BASE - 1, 1, FABRIC_REMOTE_READ) == DOMAIN_OUTSIDE,
	   "a key does not grant the byte before its range");
	ok(pin(domain, rkey, BASE + LENGTH, 1, FABRIC_REMOTE_READ) == DOMAIN_OUTSIDE,
	   "a key does not grant the byte behind its range");
	ok(pin(domain, rkey, BASE + 1, LENGTH, FABRIC_REMOTE_READ) == DOMAIN_OUTSIDE,
	   "a key does not grant a range across the end of its own");
	ok(pin(domain, rkey, BASE + 1, UINT64_MAX, FABRIC_REMOTE_READ) == DOMAIN_OUTSIDE,
	   "a key does not grant a length that wraps around");
	ok(pin(domain, rkey, UINT64_MAX, 2, FABRIC_REMOTE_READ) == DOMAIN_OUTSIDE,
	   "a key does not grant an address that wraps around");
	ok(pin(domain, rkey, BASE, 1, FABRIC_REMOTE_WRITE) == DOMAIN_NO_WRITE,
	   "a key without the right to write grants no write");
	fabric_register(domain, (void *)(UINTPTR_MAX - LENGTH), LENGTH, FABRIC_REMOTE_WRITE, &top);
	ok(pin(domain, top->rkey, UINT64_MAX - LENGTH, LENGTH, FABRIC_REMOTE_WRITE) == DOMAIN_GRANTED,
	   "a key grants a range at the top of the address space");
	ok(pin(domain, top->rkey, UINT64_MAX - LENGTH, 1, FABRIC_REMOTE_READ) == DOMAIN_NO_READ,
	   "a key without the right to read grants no read");
	ok(pin(domain, rkey ^ 0x80000000, BASE, 1, FABRIC_REMOTE_READ) == DOMAIN_RKEY_UNKNOWN,
	   "an unknown key grants nothing");
	ok(pin(domain, 0, BASE, 1, FABRIC_REMOTE_READ) == DOMAIN_RKEY_UNKNOWN, "key 0 grants nothing");
	fabric_deregister(region);
	ok(pin(domain, rkey, BASE, 1, FABRIC_REMOTE_READ) == DOMAIN_RKEY_UNKNOWN,
	   "the key of a deregistered region grants nothing");
	fabric_deregister(top);
	fabric_domain_close(domain);
}

static void keys_of_a_place_differ_from_one_to_the_next(void)
{
	struct fabric_domain *domain;
	struct fabric_region *region;
	uint32_t last = 0;
	bool fresh = true;

	fabric_domain_open(&domain);
	for (unsigned i = 0; i < 1000; i++) {
		fabric_register(domain, (void *)BASE, LENGTH, FABRIC_REMOTE_READ, &region);
		fresh = fresh && region->rkey != 0 && region->rkey != last;
		last = region->rkey;
		fabric_deregister(region);
		fresh = fresh && pin(domain, last, BASE, 1, FABRIC_REMOTE_READ) == DOMAIN_RKEY_UNKNOWN;
	}
	ok(fresh, "a place in the table never has the same key twice in a row");
	fabric_domain_close(domain);
}

static void the_regions_of_a_domain_are_bounded(void)
{
	static struct fabric_region *regions[DOMAIN_REGIONS_MAX];
	struct fabric_domain *domain;
	struct fabric_region *region;
	unsigned count = 0;

	fabric_domain_open(&domain);
	while (count < DOMAIN_REGIONS_MAX && fabric_register(domain, (void *)BASE, 1, 0, &regions[count]) == 0)
		count++;
	ok(count == DOMAIN_REGIONS_MAX && fabric_register(domain, (void *)BASE, 1, 0, &region) == -ENOSPC,
	   "a domain takes %u regions and no more", count);
	fabric_deregister(regions[77]);
	ok(fabric_register(domain, (void *)BASE, 1, 0, &regions[77]) == 0,
	   "a full domain takes a region once another one is deregistered");
	while (count)
		fabric_deregister(regions[--count]);
	fabric_domain_close(domain);
}

int main(void)
{
	a_key_grants_its_range_and_rights_only();
	keys_of_a_place_differ_from_one_to_the_next();
	the_regions_of_a_domain_are_bounded();
	return tap_done();
}

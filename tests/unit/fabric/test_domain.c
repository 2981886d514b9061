/* Regions and their keys. */
#include "fabric/domain.h"
#include "tests/tap.h"
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

static void test_ranges(void)
{
	struct fabric_domain *domain;
	struct fabric_region *region, *top;
	uint32_t rkey;

	fabric_domain_open(&domain);
	ok(fabric_register(domain, (void *)BASE, 0, 0, &region) == -EINVAL, "nothing cannot be registered");
	ok(fabric_register(domain, (void *)(UINTPTR_MAX - 10), 100, 0, &region) == -EINVAL, "nor what wraps around");
	ok(fabric_register(domain, (void *)BASE, LENGTH, FABRIC_REMOTE_READ, &region) == 0, "a range is registered");
	rkey = region->rkey;
	ok(pin(domain, rkey, BASE, LENGTH, FABRIC_REMOTE_READ) == DOMAIN_GRANTED, "all of it");
	ok(pin(domain, rkey, BASE + LENGTH - 1, 1, FABRIC_REMOTE_READ) == DOMAIN_GRANTED, "its last byte");
	ok(pin(domain, rkey, BASE - 1, 1, FABRIC_REMOTE_READ) == DOMAIN_OUTSIDE, "not the byte before");
	ok(pin(domain, rkey, BASE + LENGTH, 1, FABRIC_REMOTE_READ) == DOMAIN_OUTSIDE, "not the byte behind");
	ok(pin(domain, rkey, BASE + 1, LENGTH, FABRIC_REMOTE_READ) == DOMAIN_OUTSIDE, "not across its end");
	ok(pin(domain, rkey, BASE + 1, UINT64_MAX, FABRIC_REMOTE_READ) == DOMAIN_OUTSIDE, "not a length that wraps");
	ok(pin(domain, rkey, UINT64_MAX, 2, FABRIC_REMOTE_READ) == DOMAIN_OUTSIDE, "not an address that wraps");
	ok(pin(domain, rkey, BASE, 1, FABRIC_REMOTE_WRITE) == DOMAIN_NO_WRITE, "not to write");
	fabric_register(domain, (void *)(UINTPTR_MAX - LENGTH), LENGTH, FABRIC_REMOTE_WRITE, &top);
	ok(pin(domain, top->rkey, UINT64_MAX - LENGTH, LENGTH, FABRIC_REMOTE_WRITE) == DOMAIN_GRANTED,
	   "the top of the address space");
	ok(pin(domain, top->rkey, UINT64_MAX - LENGTH, 1, FABRIC_REMOTE_READ) == DOMAIN_NO_READ, "not to read");
	ok(pin(domain, rkey ^ 0x80000000, BASE, 1, FABRIC_REMOTE_READ) == DOMAIN_RKEY_UNKNOWN, "not by another key");
	ok(pin(domain, 0, BASE, 1, FABRIC_REMOTE_READ) == DOMAIN_RKEY_UNKNOWN, "not by key 0");
	fabric_deregister(region);
	ok(pin(domain, rkey, BASE, 1, FABRIC_REMOTE_READ) == DOMAIN_RKEY_UNKNOWN, "not once it is deregistered");
	fabric_deregister(top);
	fabric_domain_close(domain);
}

static void test_keys(void)
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

static void test_full(void)
{
	static struct fabric_region *regions[DOMAIN_REGIONS_MAX];
	struct fabric_domain *domain;
	struct fabric_region *region;
	unsigned count = 0;

	fabric_domain_open(&domain);
	while (count < DOMAIN_REGIONS_MAX && fabric_register(domain, (void *)BASE, 1, 0, &regions[count]) == 0)
		count++;
	ok(count == DOMAIN_REGIONS_MAX && fabric_register(domain, (void *)BASE, 1, 0, &region) == -ENOSPC,
	   "a domain takes %u regions, no more", count);
	fabric_deregister(regions[77]);
	ok(fabric_register(domain, (void *)BASE, 1, 0, &regions[77]) == 0, "and one again for each that goes");
	while (count)
		fabric_deregister(regions[--count]);
	fabric_domain_close(domain);
}

int main(void)
{
	test_ranges();
	test_keys();
	test_full();
	return tap_done();
}

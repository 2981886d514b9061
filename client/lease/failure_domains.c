/* failure_domains: see failure_domains.h. */
#include "client/lease/failure_domains.h"

#include "common/format.h"

#include <assert.h>
#include <string.h>

void failure_domains_name(struct failure_domains *domains, unsigned donor, const char *name)
{
	format_text(domains->names[donor], FAR_FAILURE_DOMAIN_SIZE, "%s", name);
	donor_set_remove(&domains->unknown, donor);
}

void failure_domains_forget(struct failure_domains *domains, unsigned donor)
{
	*domains->names[donor] = '\0';
	donor_set_add(&domains->unknown, donor);
}

void failure_domains_empty(struct failure_domains *domains, unsigned donor)
{
	donor_set_remove(&domains->unknown, donor);
}

static bool names_are_equal(const struct failure_domains *domains, unsigned one, unsigned other)
{
	return *domains->names[one] && strcmp(domains->names[one], domains->names[other]) == 0;
}

bool failure_domains_are_mates(const struct failure_domains *domains, unsigned one, unsigned other)
{
	return one == other || donor_set_has(&domains->unknown, one) || donor_set_has(&domains->unknown, other) ||
	       names_are_equal(domains, one, other);
}

/* Returns the first known mate of @donor that has a smaller index and is not leaving, or -1. */
static int mate_before(const struct failure_domains *domains, unsigned donor)
{
	if (!*domains->names[donor] || donor_set_has(&domains->unknown, donor))
		return -1;
	for (unsigned i = 0; i < donor; i++)
		if (names_are_equal(domains, i, donor) && !donor_set_has(&domains->unknown, i) &&
		    !donor_set_has(&domains->leaving, i))
			return (int)i;
	return -1;
}

unsigned failure_domains_count(const struct failure_domains *domains, unsigned count)
{
	unsigned domains_found = 0;

	for (unsigned i = 0; i < count; i++)
		domains_found += !donor_set_has(&domains->leaving, i) && mate_before(domains, i) < 0;
	return domains_found;
}

bool failure_domains_lack(const struct failure_domains *domains, unsigned count, unsigned replicas,
			  const char *const uris[], char text[FAILURE_DOMAINS_TEXT_MAX])
{
	unsigned there = failure_domains_count(domains, count), mate = 0;

	assert(count >= replicas);
	if (there >= replicas)
		return false;
	/* There are fewer domains than donors, so some donor has a mate before it. Finds that donor. */
	while (mate_before(domains, mate) < 0)
		mate++;
	format_text(
	    text, FAILURE_DOMAINS_TEXT_MAX,
	    "%u replicas cannot be kept in %u failure domain%s (donors %s and %s are both in '%s'): name donors "
	    "of others, or restart some with another --domain",
	    replicas, there, there > 1 ? "s" : "", uris[mate_before(domains, mate)], uris[mate], domains->names[mate]);
	return true;
}

/* --- Capacity -------------------------------------------------------------------------------------------------- */

/* Adds up the free slabs of each failure domain in @ret_slabs. Returns the number of failure domains. */
static unsigned shares_join(const struct failure_domains_share *shares, unsigned count, uint64_t ret_slabs[])
{
	unsigned of[FAR_DONORS_MAX] = {0}, domains = 0;

	assert(count <= FAR_DONORS_MAX);
	for (unsigned i = 0; i < count; i++) {
		unsigned before = *shares[i].failure_domain ? 0 : i;

		while (before < i && strcmp(shares[before].failure_domain, shares[i].failure_domain) != 0)
			before++;
		of[i] = before < i ? of[before] : domains++;
		if (before == i)
			ret_slabs[of[i]] = 0;
		ret_slabs[of[i]] += shares[i].slabs;
	}
	return domains;
}

static bool chunks_fit(const uint64_t slabs[], unsigned domains, unsigned replicas, uint64_t chunks)
{
	uint64_t room = 0;

	for (unsigned i = 0; i < domains; i++)
		room += slabs[i] < chunks ? slabs[i] : chunks;
	return room >= chunks * replicas;
}

uint64_t failure_domains_chunks(const struct failure_domains_share *shares, unsigned count, unsigned replicas)
{
	uint64_t slabs[FAR_DONORS_MAX], low = 0, high = 0;
	unsigned domains = shares_join(shares, count, slabs);

	assert(replicas);
	for (unsigned i = 0; i < domains; i++)
		high += slabs[i];
	high /= replicas;
	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;

		if (chunks_fit(slabs, domains, replicas, middle))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

uint64_t failure_domains_room(const struct far_donor_info *donors, unsigned count, unsigned replicas)
{
	struct failure_domains_share shares[FAR_DONORS_MAX];
	uint64_t slab_bytes = 0;

	assert(count <= FAR_DONORS_MAX);
	for (unsigned i = 0; i < count; i++) {
		const struct far_donor_info *donor = &donors[i];

		shares[i] = (struct failure_domains_share){.failure_domain = donor->failure_domain};
		if (donor->status < 0 || !donor->slab_bytes || donor->donated < donor->leased)
			continue;
		slab_bytes = donor->slab_bytes; /* the same for all donors of a store */
		shares[i].slabs = (donor->donated - donor->leased) / slab_bytes;
	}
	return failure_domains_chunks(shares, count, replicas) * slab_bytes;
}

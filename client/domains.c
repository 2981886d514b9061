/* domains: see domains.h. */
#include "client/domains.h"

#include <stdio.h>
#include <string.h>

void domains_name(struct domains *domains, unsigned donor, const char *name)
{
	snprintf(domains->names[donor], FAR_DOMAIN_SIZE, "%s", name);
	domains->unknown &= ~(UINT64_C(1) << donor);
}

void domains_forget(struct domains *domains, unsigned donor)
{
	*domains->names[donor] = '\0';
	domains->unknown |= UINT64_C(1) << donor;
}

uint64_t domains_mates(const struct domains *domains, unsigned donor)
{
	const char *name = domains->names[donor];
	uint64_t mates = UINT64_C(1) << donor;

	if (domains->unknown >> donor & 1)
		return UINT64_MAX;
	for (unsigned i = 0; i < FAR_DONORS_MAX && *name; i++)
		if (strcmp(domains->names[i], name) == 0)
			mates |= UINT64_C(1) << i;
	return mates | domains->unknown;
}

unsigned domains_count(const struct domains *domains, unsigned count)
{
	unsigned domains_found = 0;

	for (unsigned i = 0; i < count; i++) {
		uint64_t before = domains_mates(domains, i) & ~domains->unknown & ((UINT64_C(1) << i) - 1);

		domains_found += domains->unknown >> i & 1 || !before;
	}
	return domains_found;
}

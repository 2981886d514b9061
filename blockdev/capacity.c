#include "blockdev/capacity.h"

#include "client/lease/failure_domains.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>

int capacity_check(const struct store *store, uint64_t bytes, unsigned replicas)
{
	char wanted[SIZE_TEXT_MAX], have[SIZE_TEXT_MAX];
	struct far_donor_info donors[FAR_DONORS_MAX];
	unsigned count = far_donors(store, donors, FAR_DONORS_MAX);
	uint64_t most = failure_domains_room(donors, count, replicas);

	if (bytes <= most)
		return 0;
	if (most)
		log_error("--size %s: the donors have only %s free%s; give at most that, add donors, or --overcommit",
			  size_format(bytes, wanted), size_format(most, have),
			  replicas > 1 ? " for as many replicas" : "");
	else
		log_error("--size %s: the donors have nothing free; add donors, or --overcommit",
			  size_format(bytes, wanted));
	return -ENOSPC;
}

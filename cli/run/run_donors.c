/* run_donors: see run_donors.h. */
#include "cli/run/run_donors.h"
#include "cli/ask.h"
#include "client/lease/failure_domains.h"
#include "common/log.h"
#include <errno.h>

int run_donors_check(const struct far_config *config, struct run_donors *ret_donors)
{
	struct far_donor_info answers[FAR_DONORS_MAX] = {0};
	struct ask asks[FAR_DONORS_MAX];
	struct failure_domains domains = {0};
	char text[FAILURE_DOMAINS_TEXT_MAX];
	int error = 0;
	for (unsigned i = 0; i < config->donor_count; i++)
		asks[i] = (struct ask){.config = config, .uri = config->donors[i], .answer = &answers[i]};
	ask_all(asks, config->donor_count, ask_figures);
	for (unsigned i = 0; i < config->donor_count && !error; i++)
		error = asks[i].status;
	if (error)
		return error;
	for (unsigned i = 0; i < config->donor_count; i++)
		failure_domains_name(&domains, i, answers[i].failure_domain);
	if (failure_domains_lack(&domains, config->donor_count, config->replicas, config->donors, text)) {
		log_error("%s", text);
		return -EINVAL;
	}
	ret_donors->free_bytes = failure_domains_room(answers, config->donor_count, config->replicas);
	ret_donors->slab_bytes = answers[0].slab_bytes;
	return 0;
}

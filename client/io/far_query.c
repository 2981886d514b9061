/*
 * far_query: asks one donor for its figures, in a separate session. The donor sends them in its WELCOME.
 *
 * Threads: the caller's.
 */
#include "client/donor/operate.h"

int far_query(const struct far_config *config, const char *uri, struct far_donor_info *ret_donor)
{
	struct operate *operate;
	int status = operate_open(config, uri, &operate);

	if (status < 0)
		return status;
	operate_figures(operate, ret_donor);
	operate_close(operate);
	return 0;
}

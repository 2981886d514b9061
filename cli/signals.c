/* signals: see signals.h. */
#include "cli/signals.h"

#include <stddef.h>

static const int endings[] = {SIGINT, SIGTERM, SIGHUP};
#define ENDINGS (sizeof endings / sizeof endings[0])

void signals_block(sigset_t *ret_blocked, sigset_t *ret_before)
{
	struct sigaction action;

	sigemptyset(ret_blocked);
	for (size_t i = 0; i < ENDINGS; i++)
		if (sigaction(endings[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(ret_blocked, endings[i]);
	sigprocmask(SIG_BLOCK, ret_blocked, ret_before);
}

bool signals_came(const sigset_t *blocked)
{
	sigset_t pending;

	sigpending(&pending);
	return sigandset(&pending, &pending, blocked) == 0 && !sigisemptyset(&pending);
}

sigset_t signals_open(void)
{
	sigset_t set;

	sigprocmask(SIG_BLOCK, NULL, &set);
	for (size_t i = 0; i < ENDINGS; i++)
		sigdelset(&set, endings[i]);
	return set;
}

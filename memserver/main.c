/* farpage-memserver: lends memory of this machine. This file starts and ends the program; server.h has the rest. */
#include "common/daemon_log.h"
#include "common/log.h"
#include "memserver/handover.h"
#include "memserver/settings.h"
#include "memserver/upgrade.h"

#include <errno.h>
#include <stdlib.h>

/* The exit status for settings that are wrong. The units do not restart a daemon that ended with it. */
#define USAGE 2

static int reload(void *user, struct keyring *ret_before)
{
	return settings_reload(user, ret_before);
}

/* Returns the exit status. */
static int run(struct settings *settings, const struct handover *handover, int argc, char **argv)
{
	int status = settings_read(settings, argc, argv);

	if (status < 0)
		return status == -ECANCELED ? EXIT_SUCCESS : status == -EINVAL ? USAGE : EXIT_FAILURE;
	/* Not USAGE: a service manager must start the donor again, even though the pages are lost. */
	if (handover && handover_check(handover, &settings->server.donor) < 0)
		return EXIT_FAILURE;
	if (upgrade_is_trial())
		return server_ports_are_fixed(&settings->server) ? EXIT_SUCCESS : USAGE;
	settings->server.handover = handover;
	settings->server.argv = argv;
	settings->server.reload = reload;
	settings->server.user = settings;
	return server_run(&settings->server) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct settings settings;
	struct handover handover;
	int status;

	log_setup("farpage-memserver", LOG_LEVEL_INFO);
	daemon_log_open(DAEMON_LOG_JOURNAL);
	status = handover_read(&handover);
	if (status < 0 && status != -ENOENT)
		return EXIT_FAILURE;
	status = run(&settings, status == 0 ? &handover : NULL, argc, argv);
	handover_free(&handover);
	return status;
}

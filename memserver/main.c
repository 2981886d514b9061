/* farpage-memserver: lends memory of this machine. This file starts and ends the program; server.h has the rest. */
#include "common/log.h"
#include "memserver/settings.h"

#include <errno.h>
#include <stdlib.h>

static int reload(void *user, struct keyring *ret_before)
{
	return settings_reload(user, ret_before);
}

int main(int argc, char **argv)
{
	static struct settings settings;
	int status;

	log_setup("farpage-memserver", LOG_LEVEL_INFO);
	status = settings_read(&settings, argc, argv);
	if (status == -ECANCELED)
		return EXIT_SUCCESS;
	if (status < 0)
		return EXIT_FAILURE;
	settings.server.reload = reload;
	settings.server.user = &settings;
	return server_run(&settings.server) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

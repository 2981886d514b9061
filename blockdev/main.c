/* farpage-blockdev: serves a block device whose contents are in donors' memory. keeper.h has the theory. */
#include "blockdev/daemon/keeper.h"
#include "blockdev/daemon/settings.h"
#include "common/daemon_log.h"
#include "common/descriptors.h"
#include "common/log.h"
#include "common/user.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The exit status for settings that are wrong. The systemd units do not restart a daemon that ended with this
   status. */
#define USAGE 2

/* Returns true if a process waits for this daemon's start. It may show its user the lines, also
   those about settings. */
static bool is_awaited(char **argv)
{
	static const char option[] = "--ready-fd";

	while (*argv)
		if (strncmp(*argv++, option, sizeof option - 1) == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	static struct settings settings;
	enum log_level level = LOG_LEVEL_INFO;
	int status;

	log_setup("farpage-blockdev", LOG_LEVEL_INFO);
	daemon_log_open(DAEMON_LOG_JOURNAL);
	daemon_log_stamp(!is_awaited(argv));
	status = settings_read(&settings, argc, argv);
	if (status == -ECANCELED)
		return EXIT_SUCCESS;
	if (status < 0)
		return USAGE;
	/* The process that started this daemon and waits for it needs only errors and warnings. */
	if (settings.verbose)
		level = LOG_LEVEL_DEBUG;
	else if (settings.ready_fd || settings.remove)
		level = LOG_LEVEL_WARNING;
	log_setup("farpage-blockdev", level);
	/* Looks up the user's name now, because a worker that serves swap must not call a directory service. */
	settings.user = user_name();
	umask(077);
	descriptors_raise();
	if (chdir("/") < 0)
		log_warning("cannot change to /: %m");
	return keeper_run(&settings) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

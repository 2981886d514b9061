/* upgrade: see upgrade.h. */
#include "memserver/upgrade.h"

#include "common/config.h"
#include "common/events.h"
#include "common/log.h"
#include "memserver/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

/* Stores the path by which this program was started, or "". Symbolic links in the path are kept, because an upgrade may
   replace such a link. */
static void path_find(char ret_path[PATH_MAX])
{
	const char *given = (const char *)(uintptr_t)getauxval(AT_EXECFN);
	ssize_t length;

	/* fexecve(3) starts a program under a name that is gone, or means another file, later. */
	if (given && strncmp(given, "/dev/fd/", strlen("/dev/fd/")) != 0 && config_absolute_path(given, ret_path) == 0)
		return;
	length = readlink("/proc/self/exe", ret_path, PATH_MAX - 1);
	ret_path[length > 0 ? length : 0] = '\0';
}

void upgrade_open(struct upgrade *upgrade, char *const *argv)
{
	path_find(upgrade->path);
	upgrade->argv = argv;
	upgrade->trial = 0;
}

void upgrade_close(struct upgrade *upgrade)
{
	if (!upgrade->trial)
		return;
	kill(upgrade->trial, SIGKILL);
	while (waitpid(upgrade->trial, NULL, 0) < 0 && errno == EINTR)
		;
	upgrade->trial = 0;
}

bool upgrade_is_trial(void)
{
	return getenv(UPGRADE_TRIAL_VARIABLE) != NULL;
}

/* Returns 0 or -errno. */
static int list_announce(int fd)
{
	char text[16];

	snprintf(text, sizeof text, "%d", fd);
	return setenv(HANDOVER_VARIABLE, text, 1) < 0 ? -errno : 0;
}

/* Starts the program file with the descriptor @list, and without the signal mask and handlers of this program. */
static int trial_start(struct upgrade *upgrade, int list)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, defaults;
	int status;

	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, list, list); /* clears close-on-exec in the child */
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	status = list_announce(list);
	if (status == 0 && setenv(UPGRADE_TRIAL_VARIABLE, "1", 1) < 0)
		status = -errno;
	if (status == 0)
		status = -posix_spawn(&upgrade->trial, upgrade->path, &actions, &attributes, upgrade->argv, environ);
	unsetenv(UPGRADE_TRIAL_VARIABLE);
	unsetenv(HANDOVER_VARIABLE);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	if (status < 0)
		upgrade->trial = 0;
	return status;
}

void upgrade_try(struct upgrade *upgrade, const struct donor *donor)
{
	int list, status;

	if (upgrade->trial) {
		log_info("an upgrade is already in progress");
		return;
	}
	handover_measure(donor, &upgrade->extent);
	upgrade->give_up_at = donor_now(donor) + UPGRADE_TRIAL_NS;
	list = handover_write(donor);
	status = list < 0 ? list : trial_start(upgrade, list);
	if (list >= 0)
		close(list);
	if (status < 0)
		log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_NOT_UPGRADED),
			  "not upgraded, %s cannot be started: %s", upgrade->path, strerror(-status));
}

void upgrade_expire(struct upgrade *upgrade, uint64_t now)
{
	if (now < upgrade_due(upgrade))
		return;
	log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_NOT_UPGRADED),
		  "not upgraded, because %s has not read its settings in %.3g s: this program continues", upgrade->path,
		  (double)UPGRADE_TRIAL_NS / 1e9);
	upgrade_close(upgrade);
}

uint64_t upgrade_due(const struct upgrade *upgrade)
{
	return upgrade->trial ? upgrade->give_up_at : UINT64_MAX;
}

bool upgrade_is_outdated(const struct upgrade *upgrade, const struct donor *donor)
{
	struct handover_extent now;

	handover_measure(donor, &now);
	return now.slabs > upgrade->extent.slabs || now.clients > upgrade->extent.clients;
}

/* Sets whether the descriptor stays open in the program that execve(2) starts. Ignores -1. */
static void stay_open(int fd, bool stay)
{
	if (fd >= 0)
		fcntl(fd, F_SETFD, stay ? 0 : FD_CLOEXEC);
}

static void files_stay_open(const struct donor *donor, int list, bool stay)
{
	const struct slab_files files = slab_files(donor->worker);

	stay_open(files.plain, stay);
	stay_open(files.huge, stay);
	stay_open(list, stay);
}

void upgrade_replace(struct upgrade *upgrade, const struct donor *donor)
{
	int list = handover_write(donor), status;

	if (list < 0) {
		log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_NOT_UPGRADED), "not upgraded: %s", strerror(-list));
		return;
	}
	status = list_announce(list);
	if (status == 0) {
		files_stay_open(donor, list, true);
		execv(upgrade->path, upgrade->argv);
		status = -errno;
	}
	files_stay_open(donor, list, false);
	unsetenv(HANDOVER_VARIABLE);
	close(list);
	log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_NOT_UPGRADED), "not upgraded, cannot execute %s: %s",
		  upgrade->path, strerror(-status));
}

bool upgrade_has_succeeded(struct upgrade *upgrade)
{
	int status;

	if (!upgrade->trial || waitpid(upgrade->trial, &status, WNOHANG) != upgrade->trial)
		return false;
	upgrade->trial = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_NOT_UPGRADED),
		  "not upgraded, because %s could not take over (the line above says why): this program continues",
		  upgrade->path);
	return false;
}

/*
 * farpage swap on: a device (disk_daemon.h), mkswap(8), swapon(2); what was done is undone when a later step fails.
 *
 * Threads: none.
 */
#include "blockdev/watermarks.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/disk_daemon.h"
#include "cli/signals.h"
#include "cli/survival.h"
#include "cli/swap.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

/* The signature; mkswap(8) is where root finds it, which need not be in PATH. */
static int signature_write(const char *path)
{
	static const char *const programs[] = {"/usr/sbin/mkswap", "/sbin/mkswap", "mkswap"};
	char *argv[] = {(char[]){"mkswap"}, strdupa(path), NULL};
	posix_spawn_file_actions_t actions;
	int status = ENOENT, result = -1;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	for (unsigned i = 0; i < sizeof programs / sizeof programs[0] && status == ENOENT; i++)
		status = posix_spawnp(&pid, programs[i], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (status) {
		log_error("swap on: cannot run mkswap: %s; install util-linux", strerror(status));
		return -status;
	}
	while (waitpid(pid, &result, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(result) && WEXITSTATUS(result) == 0)
		return 0;
	log_error("swap on: mkswap %s failed", path);
	return -EIO;
}

static int swap_begin(const char *path, unsigned priority)
{
	int flags = SWAP_FLAG_DISCARD;

	if (priority != UINT_MAX)
		flags |= SWAP_FLAG_PREFER | (int)(priority << SWAP_FLAG_PRIO_SHIFT & SWAP_FLAG_PRIO_MASK);
	if (swapon(path, flags) == 0)
		return 0;
	if (errno == EPERM)
		log_error("swap on: no more swap spaces, or no right to add one (CAP_SYS_ADMIN)");
	else if (errno == ENOSYS)
		log_error("swap on: this kernel was built without swapping (CONFIG_SWAP)");
	else
		log_error("swap on: swapon %s: %m", path);
	return -errno;
}

/* Swap space on a device that is there, or no device. */
static int swap_make(const char *name, const char *path, unsigned priority, const sigset_t *signals)
{
	int status = signature_write(path);

	if (!status)
		status = swap_begin(path, priority);
	if (!status && !signals_came(signals))
		return 0;
	if (!status && swapoff(path) < 0) {
		log_error("swap on: interrupted, but swapoff %s: %m; run: farpage swap off %s", path, name);
		return -EINTR;
	}
	disk_daemon_detach(name);
	return -EINTR;
}

/* All of it or nothing: who interrupts that does so before the device is there, or when there is none any more. */
static int swap_attach(const struct settings *settings, unsigned priority, char ret_path[FRONTEND_PATH_MAX])
{
	sigset_t set, before;
	int status;

	signals_block(&set, &before);
	status = disk_daemon_attach(settings, ret_path);
	if (!status)
		status = swap_make(settings->name, ret_path, priority, &set);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return status;
}

/* What the daemon has changed on this machine. */
static void changes_tell(const char *name)
{
	struct watermarks_record record;
	char changes[WATERMARKS_TEXT_MAX];

	if (watermarks_record_read(name, &record) == 0 && watermarks_changes(&record, changes))
		fprintf(stderr, "set for as long as %s is there: %s\n", name, changes);
}

/* What becomes of what is swapped out when donors die. */
static void survival_tell(const struct settings *settings)
{
	struct survival survival = survival_of(settings->replicas, settings->backup);

	if (settings->memory)
		return;
	fprintf(stderr, "%u cop%s, %s backup: survives %s; costs %s\n", settings->replicas,
		settings->replicas == 1 ? "y" : "ies", settings->backup ? "a" : "no", survival.survives,
		survival.costs);
}

static void on_help(const struct config_setting *settings)
{
	printf(
	    "usage: farpage swap on --size SIZE --donor URI... [--name NAME] [--priority P] [OPTION...]\n\n"
	    "Makes a block device whose contents are in the donors' memory (farpage disk attach), and swaps to it. "
	    "The\n"
	    "last line it prints is the device's path. For as long as the device is there the kernel keeps more memory "
	    "free, which\n"
	    "the way to the donors needs. farpage doctor tells how safe all that is on this machine.\n\n");
	config_help(settings);
	printf("  --config FILE    read further settings from this file, farpage-blockdev's\n\n"
	       "  farpage swap on --size 64G --donor rdma://10.0.0.7 --key /etc/farpage/key\n");
}

int swap_on(int argc, char **argv)
{
	static struct settings settings; /* config_read() gives strings that live until exit */
	struct config_setting table[SETTINGS_TABLE_MAX + 2];
	unsigned priority = UINT_MAX, count;
	char path[FRONTEND_PATH_MAX];
	int first;

	settings_defaults(&settings);
	count = settings_table(&settings, table);
	table[count] =
	    (struct config_setting){.name = "priority",
				    .kind = CONFIG_NUMBER,
				    .value = &priority,
				    .max = SWAP_FLAG_PRIO_MASK,
				    .argument = "P",
				    .help = "among swap spaces, the highest is used first (default: the kernel's)"};
	table[count + 1] = (struct config_setting){.name = NULL};
	first = defaults_read(table, SETTINGS_SECTION, argc, argv, "--config");
	if (first == -ECANCELED) {
		on_help(table);
		return COMMAND_OK;
	}
	if (first < 0)
		return COMMAND_USAGE;
	if (first < argc) {
		log_error("swap on: takes no argument \"%s\"; the device is named with --name", argv[first]);
		return COMMAND_USAGE;
	}
	settings.swap = true;
	if (!settings.name)
		settings.name = SWAP_NAME;
	if (settings_check(&settings) < 0)
		return COMMAND_USAGE;
	if (disk_daemon_allowed("swap on") < 0 || swap_attach(&settings, priority, path) < 0)
		return COMMAND_FAILED;
	survival_tell(&settings);
	changes_tell(settings.name);
	printf("%s\n", path);
	return COMMAND_OK;
}

/*
 * farpage swap off: brings what is swapped out home and removes the device.
 *
 * Theory of operation. swapoff(2) reads every page back, which takes as long as that takes, and fails half-way when
 * they do not fit; so that is looked at before. A child of ours makes the call: a signal ends it, and then the kernel
 * goes on swapping to the device as before. Meanwhile this process shows from /proc/swaps how far it is. A device that
 * is not swapped to any more is only removed: what could not be ended once can be ended the next time.
 *
 * Threads: none.
 */
#include "blockdev/runtime.h"
#include "blockdev/settings.h"
#include "cli/commands.h"
#include "cli/disk_daemon.h"
#include "cli/signals.h"
#include "cli/swap.h"
#include "cli/swap_groups.h"
#include "cli/swaps.h"
#include "cli/verbs.h"
#include "common/config.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_NS 200000000

static int device_find(const char *name, struct runtime_device *ret_device)
{
	if (runtime_check_name(name) < 0)
		return -EINVAL;
	if (runtime_read_device(name, ret_device) < 0) {
		log_error("there is no device %s: see `farpage disk list`", name);
		return -ENOENT;
	}
	if (access(ret_device->device.path, F_OK) < 0) {
		log_error("swap off: %s has vanished: make it again with `udevadm trigger`, or mknod",
			  ret_device->device.path);
		return -ENOENT;
	}
	return 0;
}

/* Without its daemon nothing can be read back. */
static int daemon_check(const char *name)
{
	static char reply[CONTROL_REPLY_MAX];

	if (disk_daemon_state(name, reply) != DISK_LEFT)
		return 0;
	log_error("the daemon of %s has ended, and nothing can be read back: run `farpage disk adopt %s` first", name,
		  name);
	return -ENOTCONN;
}

/* What a swap off before has left, because somebody had the device open; or swapoff(8). Other devices are kept. */
static int rest_remove(const char *name, const char *path)
{
	static struct settings settings;

	if (settings_kept(name, &settings) == 0 && settings.swap)
		return disk_daemon_detach(name);
	log_error("swap off: %s is no swap space; farpage disk detach %s removes it", path, name);
	return -EINVAL;
}

/* Beyond its limit a control group would lose a program, not gain memory. */
static int groups_check(const struct swap_area *area)
{
	char needed[SIZE_TEXT_MAX], limit[SIZE_TEXT_MAX];
	struct swap_group group;

	if (!swap_groups_overflow(NULL, area->used, &group))
		return 0;
	log_error(
	    "swap off: the control group %s would need %s for what is swapped out of it, and may have %s: raise its "
	    "limit, or end programs in it, first",
	    group.path, size_format(group.needed, needed), size_format(group.limit, limit));
	return -ENOMEM;
}

static int room_check(const struct swap_area *area)
{
	char used[SIZE_TEXT_MAX], memory_text[SIZE_TEXT_MAX], swap_text[SIZE_TEXT_MAX];
	uint64_t memory, swap;
	int status = swaps_room_beside(area->path, &memory, &swap);

	if (status < 0) {
		log_error("swap off: cannot tell how much memory there is: %s", strerror(-status));
		return status;
	}
	if (area->used <= memory + swap)
		return groups_check(area);
	log_error(
	    "swap off: %s holds %s, and there is room for less: %s of memory available and %s of other swap space; "
	    "end programs, or add swap space, first",
	    area->path, size_format(area->used, used), size_format(memory, memory_text), size_format(swap, swap_text));
	return -ENOMEM;
}

static void progress_print(const char *path, uint64_t all)
{
	char left[SIZE_TEXT_MAX], total[SIZE_TEXT_MAX];
	struct swap_area area;

	if (swaps_find(path, &area) == 0)
		fprintf(stderr, "%s of %s left to bring home\033[K\r", size_format(area.used, left),
			size_format(all, total));
}

/* Waits for @child; Ctrl-C and the like end it, and only it. Its wait status. */
static int child_wait(pid_t child, const struct swap_area *area, const sigset_t *set)
{
	const struct timespec step = {.tv_nsec = PROGRESS_NS};
	bool terminal = isatty(STDERR_FILENO);
	int status, signal_number;

	while (waitpid(child, &status, WNOHANG) != child) {
		signal_number = sigtimedwait(set, NULL, &step);
		if (signal_number > 0 && signal_number != SIGCHLD)
			kill(child, SIGKILL);
		if (terminal)
			progress_print(area->path, area->used);
	}
	if (terminal)
		fprintf(stderr, "\033[K");
	return status;
}

static int swap_end(const struct swap_area *area)
{
	struct swap_area after;
	sigset_t set, before;
	pid_t child, parent = getpid();
	int status;

	signals_block(&set, &before);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EINTR);
		_exit(swapoff(area->path) < 0 ? errno : 0);
	}
	status = child < 0 ? -errno : child_wait(child, area, &set);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (child < 0) {
		log_error("swap off: cannot start: %s", strerror(-status));
		return status;
	}
	if (swaps_find(area->path, &after) == -ENOENT)
		return 0; /* whatever came in between */
	if (WIFEXITED(status))
		log_error("swap off: %s: %s; it is still swap space", area->path, strerror(WEXITSTATUS(status)));
	else
		log_error("swap off: interrupted; %s is still swap space", area->path);
	return -EINTR;
}

static void off_help(void)
{
	printf(
	    "usage: farpage swap off [NAME]\n\n"
	    "Brings what is swapped out to a device of farpage swap on (NAME, or \"" SWAP_NAME
	    "\") back into memory, or\n"
	    "to other swap space, and removes the device. Refuses if it would not fit. Ctrl-C interrupts it, and the\n"
	    "device stays swap space. A device that was swapped off already is removed.\n");
}

int swap_off(int argc, char **argv)
{
	static const struct config_setting none[] = {{.name = NULL}};
	int first = config_read(none, NULL, argc, argv, NULL);
	struct runtime_device device;
	struct swap_area area;
	const char *name;

	if (first == -ECANCELED) {
		off_help();
		return COMMAND_OK;
	}
	name = first < 0 ? NULL : verbs_name("swap off", first, argc, argv, SWAP_NAME);
	if (!name)
		return COMMAND_USAGE;
	if (disk_daemon_allowed("swap off") < 0 || device_find(name, &device) < 0)
		return COMMAND_FAILED;
	if (swaps_find(device.device.path, &area) == -ENOENT)
		return rest_remove(name, device.device.path) < 0 ? COMMAND_FAILED : COMMAND_OK;
	if (daemon_check(name) < 0 || room_check(&area) < 0 || swap_end(&area) < 0 || disk_daemon_detach(name) < 0)
		return COMMAND_FAILED;
	return COMMAND_OK;
}

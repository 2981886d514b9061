/* swap_space: see swap_space.h. */
#include "cli/swap/swap_space.h"

#include "cli/disk/disk_daemon.h"
#include "cli/signals.h"
#include "cli/swap/swap_groups.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_NS 200000000

/* --- Making swap space ------------------------------------------------------------------------------------- */

/* mkswap(8) is in one of these folders, which may be missing in PATH. */
static const char *const programs[] = {"/usr/sbin/mkswap", "/sbin/mkswap", "mkswap"};

bool swap_space_has_mkswap(void)
{
	return access(programs[0], X_OK) == 0 || access(programs[1], X_OK) == 0;
}

static int signature_write(const char *path)
{
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
		log_error("cannot run mkswap: %s; install util-linux", strerror(status));
		return -status;
	}
	while (waitpid(pid, &result, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(result) && WEXITSTATUS(result) == 0)
		return 0;
	log_error("mkswap %s failed", path);
	return -EIO;
}

static int swap_begin(const char *path, unsigned priority)
{
	int flags = SWAP_FLAG_DISCARD, error;

	if (priority != UINT_MAX)
		flags |= SWAP_FLAG_PREFER | (int)(priority << SWAP_FLAG_PRIO_SHIFT & SWAP_FLAG_PRIO_MASK);
	if (swapon(path, flags) == 0)
		return 0;
	error = errno;
	if (error == EPERM)
		log_error("swapon %s: no more swap spaces, or no right to add one (CAP_SYS_ADMIN)", path);
	else if (error == ENOSYS)
		log_error("swapon %s: this kernel was built without swapping (CONFIG_SWAP)", path);
	else
		log_error("swapon %s: %s", path, strerror(error));
	return -error;
}

/* Makes swap space on an existing device. After a failure or a signal, ends the swapping and removes the device, unless
   swapoff(2) fails. Returns 0, or after one logged line the -errno of the failed step, or -EINTR. */
static int swap_make(const char *name, const char *path, unsigned priority, const sigset_t *signals)
{
	int status = signature_write(path);

	if (!status)
		status = swap_begin(path, priority);
	if (!status && !signals_came(signals))
		return 0;
	if (!status && swapoff(path) < 0) {
		log_error("interrupted, but swapoff %s: %m; run: farpage swap off %s", path, name);
		return -EINTR;
	}
	if (!status)
		log_error("interrupted; %s is removed again", name);
	disk_daemon_detach(name);
	return status ? status : -EINTR;
}

int swap_space_attach(const struct settings *settings, unsigned priority, char ret_path[FRONTEND_PATH_MAX])
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

/* --- Ending swap space ------------------------------------------------------------------------------------- */

/* Checks that the device's daemon runs, because otherwise no page can be read back. */
static int daemon_check(const char *name)
{
	static char reply[CONTROL_REPLY_MAX];

	if (disk_daemon_state(name, reply) != DISK_LEFT)
		return 0;
	log_error("the daemon of %s has ended, and nothing can be read back: run `farpage disk adopt %s` first", name,
		  name);
	return -ENOTCONN;
}

/* Checks that the swapped pages fit into their control groups, or that other swap space, which has @swap bytes free,
   has room for the excess. Otherwise the kernel would kill a program of such a group. */
static int groups_check(const struct swap_area *area, uint64_t swap)
{
	char needed[SIZE_TEXT_MAX], limit[SIZE_TEXT_MAX];
	struct swap_group group;

	if (!swap_groups_overflow(NULL, area->used, &group) || group.needed - group.limit <= swap)
		return 0;
	log_error("the control group %s would need %s for what is swapped out of it, and may have %s: raise its "
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
		log_error("cannot tell how much memory there is: %s", strerror(-status));
		return status;
	}
	if (area->used <= memory + swap)
		return groups_check(area, swap);
	log_error("%s holds %s, but only %s of memory and %s of other swap space are free; end programs, or add swap "
		  "space, first",
		  area->path, size_format(area->used, used), size_format(memory, memory_text),
		  size_format(swap, swap_text));
	return -ENOMEM;
}

static void progress_print(const char *path, uint64_t all)
{
	char left[SIZE_TEXT_MAX], total[SIZE_TEXT_MAX];
	struct swap_area area;

	if (swaps_find(path, &area) == 0)
		fprintf(stderr, "%s of %s left to read back\033[K\r", size_format(area.used, left),
			size_format(all, total));
}

/* Waits for @child. A signal in @set other than SIGCHLD ends only the child. Its number is written to *@signal_came.
   Returns the wait status. */
static int child_wait(pid_t child, const struct swap_area *area, const sigset_t *set, int *signal_came)
{
	const struct timespec step = {.tv_nsec = PROGRESS_NS};
	bool terminal = isatty(STDERR_FILENO);
	int status, signal_number;

	while (waitpid(child, &status, WNOHANG) != child) {
		signal_number = sigtimedwait(set, NULL, &step);
		if (signal_number > 0 && signal_number != SIGCHLD) {
			kill(child, SIGKILL);
			*signal_came = signal_number;
		}
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
	int status, came = 0;

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
	status = child < 0 ? -errno : child_wait(child, area, &set, &came);
	if (came && sigismember(&before, came) == 1)
		raise(came); /* a caller that had blocked SIGCHLD looks for it as pending */
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (child < 0) {
		log_error("cannot start: %s", strerror(-status));
		return status;
	}
	if ((WIFEXITED(status) && !WEXITSTATUS(status)) || swaps_find(area->path, &after) == -ENOENT)
		return 0; /* a signal that came meanwhile does not matter */
	if (WIFEXITED(status)) {
		log_error("swapoff %s: %s; it is still swap space", area->path, strerror(WEXITSTATUS(status)));
		return -WEXITSTATUS(status);
	}
	log_error("interrupted; %s is still swap space", area->path);
	return -EINTR;
}

int swap_space_detach(const char *name, const struct swap_area *area)
{
	int status = area->used ? daemon_check(name) : 0;

	if (!status)
		status = room_check(area);
	if (!status)
		status = swap_end(area);
	return status ? status : disk_daemon_detach(name);
}

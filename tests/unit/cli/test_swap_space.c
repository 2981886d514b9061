/*
 * swap_space: the error and the log line when a step of making or ending swap space fails. The device, mkswap(8),
 * swapon(2), swapoff(2) and /proc/swaps are the test's own.
 */
#include "cli/disk/disk_daemon.h"
#include "cli/swap/swap_space.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICE "/dev/nowhere"

int __real_posix_spawnp(pid_t *ret_pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);
int __wrap_posix_spawnp(pid_t *ret_pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);
int __wrap_swapon(const char *path, int flags);
int __wrap_swapoff(const char *path);
int __wrap_swaps_find(const char *path, struct swap_area *ret_area);

static struct {
	int spawn;          /* the error that posix_spawnp() returns, or 0 */
	const char *mkswap; /* the program that runs in place of mkswap(8) */
	int on, off;        /* errno of swapon(2) and swapoff(2), or 0 */
	int signal;         /* the signal that comes during swapon(2), or 0 */
	bool hang;          /* swapoff(2) goes on until it is killed */
	unsigned detached;  /* devices removed */
} machine;
static char said[4096];

int __wrap_posix_spawnp(pid_t *ret_pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	(void)file;
	return machine.spawn ? machine.spawn
			     : __real_posix_spawnp(ret_pid, machine.mkswap, actions, attributes, argv, envp);
}

int __wrap_swapon(const char *path, int flags)
{
	(void)path;
	(void)flags;
	if (machine.signal)
		raise(machine.signal);
	errno = machine.on;
	return machine.on ? -1 : 0;
}

int __wrap_swapoff(const char *path)
{
	(void)path;
	if (machine.hang)
		pause();
	errno = machine.off;
	return machine.off ? -1 : 0;
}

/* The swap space exists until swapoff(2) has succeeded. */
int __wrap_swaps_find(const char *path, struct swap_area *ret_area)
{
	(void)path;
	*ret_area = (struct swap_area){.path = DEVICE};
	return machine.off ? 0 : -ENOENT;
}

int disk_daemon_attach(const struct settings *settings, char ret_path[FRONTEND_PATH_MAX])
{
	(void)settings;
	strcpy(ret_path, DEVICE);
	return 0;
}

int disk_daemon_detach(const char *name)
{
	(void)name;
	machine.detached++;
	return 0;
}

enum disk_state disk_daemon_state(const char *name, char ret_reply[CONTROL_REPLY_MAX])
{
	(void)name;
	(void)ret_reply;
	return DISK_SERVING;
}

static void ignore(int number)
{
	(void)number;
}

/* Makes or ends swap space on this machine. Keeps the log in `said`. */
static int perform(bool on)
{
	static struct settings settings = {.name = "swap"};
	const struct swap_area area = {.path = DEVICE};
	char path[FRONTEND_PATH_MAX];
	int saved = dup(STDERR_FILENO), lines = memfd_create("lines", MFD_CLOEXEC), status;

	dup2(lines, STDERR_FILENO);
	machine.detached = 0;
	status = on ? swap_space_attach(&settings, UINT_MAX, path) : swap_space_detach("swap", &area);
	dup2(saved, STDERR_FILENO);
	close(saved);
	memset(said, 0, sizeof said);
	if (pread(lines, said, sizeof said - 1, 0) < 0)
		status = -EIO;
	close(lines);
	return status;
}

static bool is_one_line(const char *a, const char *b)
{
	const char *end = strchr(said, '\n');

	return end && !end[1] && strstr(said, a) && strstr(said, b);
}

static void failures_to_make_swap_space_are_named(void)
{
	machine = (typeof(machine)){.mkswap = "true"};
	ok(perform(true) == 0 && !machine.detached && !*said, "swap space is made without a line");
	machine.spawn = EACCES;
	ok(perform(true) == -EACCES && machine.detached == 1, "mkswap that cannot be run is the error returned");
	ok(is_one_line("mkswap", strerror(EACCES)), "one line names a mkswap that cannot be run");
	machine = (typeof(machine)){.mkswap = "false"};
	ok(perform(true) == -EIO && machine.detached == 1, "mkswap that fails is the error returned");
	ok(is_one_line("mkswap", DEVICE), "one line names a mkswap that fails, and the device");
	machine = (typeof(machine)){.mkswap = "true", .on = EPERM};
	ok(perform(true) == -EPERM && machine.detached == 1, "the error of swapon(2) is returned");
	ok(is_one_line("swapon", DEVICE), "one line names swapon and the device");
	machine.on = EBUSY;
	ok(perform(true) == -EBUSY && is_one_line("swapon", strerror(EBUSY)), "one line names the error of swapon(2)");
}

static void signal_removes_what_was_made(void)
{
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = ignore}, NULL);
	machine = (typeof(machine)){.mkswap = "true", .signal = SIGTERM};
	ok(perform(true) == -EINTR && machine.detached == 1,
	   "a signal ends swap space that was just made, with -EINTR");
	ok(is_one_line("interrupted", "swap"), "one line says that swap space was interrupted");
	machine.off = EPERM;
	ok(perform(true) == -EINTR && !machine.detached && is_one_line("swapoff", strerror(EPERM)),
	   "after a signal, a device that swapoff(2) fails on is left, and one line says so");
}

static void failures_to_end_swap_space_are_named(void)
{
	machine = (typeof(machine)){.off = 0};
	ok(perform(false) == 0 && machine.detached == 1 && !*said, "swap space is ended without a line");
	machine.off = EPERM;
	ok(perform(false) == -EPERM && !machine.detached,
	   "the error of swapoff(2) is returned, and the device is left");
	ok(is_one_line("swapoff", strerror(EPERM)), "one line names swapoff and its error");
}

static void caller_that_blocked_a_signal_finds_it_pending(void)
{
	sigset_t blocked, before, pending;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	raise(SIGTERM);
	machine = (typeof(machine)){.off = EPERM, .hang = true};
	ok(perform(false) == -EINTR && !machine.detached, "a signal ends swapoff(2)");
	ok(sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1,
	   "a signal that ended swapoff(2) is pending afterwards for a caller that had blocked it");
	sigprocmask(SIG_SETMASK, &before, NULL);
}

int main(void)
{
	failures_to_make_swap_space_are_named();
	signal_removes_what_was_made();
	failures_to_end_swap_space_are_named();
	caller_that_blocked_a_signal_finds_it_pending();
	return tap_done();
}

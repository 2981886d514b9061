/* run_guard: see run_guard.h. */
#include "cli/run/run_guard.h"

#include "cli/disk/disk_daemon.h"
#include "cli/run/run_group.h"
#include "cli/swap/swap_space.h"
#include "common/clock.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS 20000000
/* A starting daemon needs at most this time to be ready, or to notice the end of the program that started it. */
#define READY_NS UINT64_C(60000000000)
#define UNUSED_NS UINT64_C(10000000000)

/* Waits while the device is being made. Its daemon removes the device if the process that started the daemon has
   ended. Returns false if there is no device. */
static bool await_device(const char *name)
{
	static char reply[CONTROL_REPLY_MAX];
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	char folder[RUNTIME_PATH_MAX + 16];
	uint64_t deadline = clock_now() + READY_NS;

	if (runtime_path(name, NULL, folder) < 0)
		return false;
	while (access(folder, F_OK) == 0) {
		if (disk_state_is_reported(disk_daemon_state(name, reply)) || !runtime_is_served(name) ||
		    clock_now() > deadline)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* Waits while some process has the device open. mkswap(8) may outlive a `farpage run` that was killed. */
static void await_unused(const char *path)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	char use[USE_TEXT_MAX];
	struct swap_area area;
	uint64_t deadline = clock_now() + UNUSED_NS;

	while (use_find(path, use) && swaps_find(path, &area) < 0 && clock_now() < deadline)
		nanosleep(&pause, NULL);
}

static int remove_device(const char *name)
{
	struct runtime_device device;
	struct swap_area area;

	if (!await_device(name))
		return 0;
	if (runtime_read_device(name, &device) < 0)
		return disk_daemon_detach(name);
	await_unused(device.device.path);
	if (swaps_find(device.device.path, &area) == 0)
		return swap_space_detach(name, &area);
	return disk_daemon_detach(name);
}

static int remove_all(const struct run_group *group, const char *name)
{
	run_group_kill(group);
	int status = run_group_remove(group);
	return name && remove_device(name) ? -EBUSY : status;
}

static void __attribute__((noreturn)) guard(const struct run_group *group, const char *name, int pipe)
{
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
	char unused;

	setsid();
	for (unsigned i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
		signal(ignored[i], SIG_IGN);
	while (read(pipe, &unused, 1) < 0 && errno == EINTR)
		;
	_exit(remove_all(group, name) ? 1 : 0);
}

int run_guard_start(const struct run_group *group, const char *name, struct run_guard *ret_guard)
{
	int pipe_fds[2];

	if (pipe2(pipe_fds, O_CLOEXEC)) {
		log_error("cannot make a pipe: %s", strerror(errno));
		return -errno;
	}
	pid_t pid = fork();
	if (pid == 0) {
		close(pipe_fds[1]);
		guard(group, name, pipe_fds[0]);
	}
	int error = pid < 0 ? -errno : 0;
	close(pipe_fds[0]);
	if (error) {
		close(pipe_fds[1]);
		log_error("cannot start another process: %s", strerror(-error));
		return error;
	}
	*ret_guard = (struct run_guard){.group = group, .name = name, .pid = pid, .pipe = pipe_fds[1]};
	return 0;
}

int run_guard_end(struct run_guard *guard)
{
	int status = 0;
	pid_t pid = guard->pid;

	guard->pid = 0;
	if (pid)
		close(guard->pipe);
	while (pid && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!pid || !WIFEXITED(status)) /* the guard has ended before, or was killed */
		return remove_all(guard->group, guard->name);
	return WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

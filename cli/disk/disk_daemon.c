/* disk_daemon: see disk_daemon.h. */
#include "cli/disk/disk_daemon.h"

#include "cli/beside.h"
#include "cli/commands.h"
#include "cli/signals.h"
#include "client/page/seal.h"
#include "common/clock.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DAEMON "farpage-blockdev"
#define ARGUMENTS_MAX 128
#define STATUS_MS 1000  /* the daemon's main thread may have to finish other work before it answers */
#define DETACH_MS 60000 /* the daemon returns its leases before it answers */
#define LEAVE_MS 10000  /* the time to leave, in addition to the longest time that requests in flight may take */

static const char *const states[] = {
    [DISK_SERVING] = "serving",   [DISK_DEGRADED] = "degraded", [DISK_FAILED] = "failed",
    [DISK_ADOPTING] = "adopting", [DISK_LEFT] = "left",         [DISK_UNKNOWN] = "unknown",
};
_Static_assert(sizeof states / sizeof states[0] == DISK_STATES, "a name for each state");

const char *disk_state_name(enum disk_state state)
{
	return states[state];
}

/* --- Starting the daemon ----------------------------------------------------------------------------------- */

/* Finds the daemon's program. Returns 0, or -ENOENT after one logged line. */
static int daemon_find(char ret_path[PATH_MAX])
{
	/* Beside this program, in a build tree, where it is installed. */
	static const char *const folders[] = {"", "../blockdev/", "../sbin/"};

	if (beside_find(folders, sizeof folders / sizeof folders[0], DAEMON, ret_path))
		return 0;
	log_error("cannot find %s, which should be in the folder of this program, or in ../sbin: install it there",
		  DAEMON);
	return -ENOENT;
}

void disk_daemon_load_ublk(void)
{
	static const char *const programs[] = {"/usr/sbin/modprobe", "/sbin/modprobe"};
	char *argv[] = {(char[]){"modprobe"}, (char[]){"-q"}, (char[]){"ublk_drv"}, NULL};
	int status = ENOENT;
	pid_t pid;

	if (access("/dev/ublk-control", F_OK) == 0)
		return;
	for (unsigned i = 0; i < sizeof programs / sizeof programs[0] && status == ENOENT; i++)
		status = posix_spawn(&pid, programs[i], NULL, NULL, argv, environ);
	while (!status && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Starts the daemon in a session of its own, with the signals of signals.h unblocked. The daemon inherits standard
   error, and @keep as descriptor 3 if @keep is not -1. Returns 0, or -errno after one logged line. */
static int daemon_spawn(char **argv, int keep, pid_t *ret_pid)
{
	char path[PATH_MAX];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int status = daemon_find(path);
	sigset_t set = signals_open();

	if (status < 0)
		return status;
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (keep >= 0)
		posix_spawn_file_actions_adddup2(&actions, keep, 3);
	posix_spawn_file_actions_addclosefrom_np(&actions, keep >= 0 ? 4 : 3);
	posix_spawnattr_setsigmask(&attributes, &set);
	/* If SIGCHLD is ignored here, it must not be ignored in the daemon, which waits for its own children. */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	posix_spawnattr_setsigdefault(&attributes, &set);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	status = -posix_spawn(ret_pid, path, &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	if (status < 0)
		log_error("cannot start %s: %s", path, strerror(-status));
	return status;
}

static int daemon_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status))
		log_error("%s was killed by signal %d", DAEMON, WTERMSIG(status));
	return -EIO;
}

/* Reads the device's path, which the daemon writes when it is ready. Returns 0, or -EPIPE if the daemon ends before. */
static int ready_read(int fd, char ret_path[FRONTEND_PATH_MAX])
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	sigset_t set = signals_open();
	size_t have = 0;
	ssize_t got;

	for (;;) {
		if (ppoll(&polled, 1, NULL, &set) < 0 && errno != EINTR)
			return -errno;
		got = read(fd, ret_path + have, FRONTEND_PATH_MAX - 1 - have);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EPIPE;
		have += (size_t)got;
		if (ret_path[have - 1] == '\n')
			break;
	}
	ret_path[have - 1] = 0;
	return 0;
}

/* Starts the daemon with @argv and waits until its device is ready. @argv must have room for one more argument.
   On a terminal, shows @what meanwhile. Returns 0, or -errno after a logged line. */
static int daemon_start(char **argv, const char *what, char ret_path[FRONTEND_PATH_MAX])
{
	bool terminal = isatty(STDERR_FILENO);
	static char option[] = "--ready-fd=3";
	char path[FRONTEND_PATH_MAX];
	int ready[2], status, count = 0;
	pid_t pid;

	while (argv[count])
		count++;
	argv[count] = option;
	argv[count + 1] = NULL;
	if (pipe2(ready, O_CLOEXEC) < 0) {
		log_error("cannot start %s: %m", DAEMON);
		return -errno;
	}
	status = daemon_spawn(argv, ready[1], &pid);
	close(ready[1]);
	if (status < 0) {
		close(ready[0]);
		return status;
	}
	if (terminal)
		fprintf(stderr, "%s ...\r", what);
	status = ready_read(ready[0], path);
	close(ready[0]);
	if (terminal)
		fprintf(stderr, "\033[K");
	if (status < 0) {
		daemon_wait(pid);
		return -EIO;
	}
	memcpy(ret_path, path, sizeof path);
	return 0;
}

int disk_daemon_attach(const struct settings *settings, char ret_path[FRONTEND_PATH_MAX])
{
	static char text[RUNTIME_OPTIONS_MAX];
	char *argv[ARGUMENTS_MAX + 2] = {(char[]){DAEMON}}, *rest = text, *line, what[64];
	int count = 1;

	if (strcmp(settings->frontend, "fuse") != 0)
		disk_daemon_load_ublk();
	settings_write(settings, text, sizeof text);
	while ((line = strsep(&rest, "\n")) && *line && count < ARGUMENTS_MAX)
		argv[count++] = line;
	snprintf(what, sizeof what, "attaching %s", settings->name);
	return daemon_start(argv, what, ret_path);
}

/* Asks the daemon of @name to leave its device. Before it answers, the daemon waits for its requests in flight,
   which may wait for a donor out of reach until this donor is lost. Returns 0 or more if the daemon leaves. Returns
   -EBUSY or -ETIMEDOUT after one logged line. Also returns errors of settings_kept(), and of control_ask() if there
   is no daemon. */
static int leave_ask(const char *name)
{
	static char reply[CONTROL_REPLY_MAX];
	static struct settings settings;
	int status = settings_kept(name, &settings);

	if (status < 0)
		return status;
	status = control_ask(name, CONTROL_LEAVE, settings_timeout_ms(&settings) + LEAVE_MS, reply);
	if (status > 0 && strncmp(reply, "error: ", 7) == 0) {
		log_error("%s is unchanged: %s", name, reply + 7);
		return -EBUSY;
	}
	if (status == -ETIMEDOUT)
		log_error("%s is unchanged: its daemon does not answer; see its log", name);
	return status;
}

/* Checks that another daemon could start. This is called before the present daemon ends, because all I/O waits while
   there is no daemon. Returns 0 or -errno. */
static int successor_check(const char *name)
{
	static struct settings settings;
	char path[PATH_MAX];
	int status = daemon_find(path);

	if (!status)
		status = settings_kept(name, &settings);
	if (!status) {
		settings.adopt = true; /* a daemon that adopts a device does not need the donors file */
		status = settings_check(&settings);
	}
	if (!status && settings.encrypt && !settings.memory)
		status = seal_load();
	explicit_bzero(settings.key, sizeof settings.key);
	return status;
}

int disk_daemon_adopt(const char *name, char ret_path[FRONTEND_PATH_MAX])
{
	char option[RUNTIME_NAME_MAX + 16], what[64];
	char *argv[8] = {(char[]){DAEMON}, option, (char[]){"--adopt"}};
	int status = successor_check(name);

	if (status < 0)
		return status;
	status = leave_ask(name);
	if (status == -EBUSY || status == -ETIMEDOUT || status == -EINVAL)
		return status;
	snprintf(option, sizeof option, "--name=%s", name);
	snprintf(what, sizeof what, "adopting %s", name);
	return daemon_start(argv, what, ret_path);
}

int disk_daemon_leave(const char *name)
{
	const struct timespec step = {.tv_nsec = 2000000};
	uint64_t deadline;
	int status = leave_ask(name);

	if (status == -EBUSY || status == -ETIMEDOUT || status == -EINVAL)
		return status;
	if (status < 0) {
		log_error("%s has no daemon that could leave it: see `farpage disk list`", name);
		return status;
	}
	deadline = clock_now() + (uint64_t)LEAVE_MS * 1000000;
	while (runtime_is_served(name)) {
		if (clock_now() > deadline) {
			log_error("the daemon of %s does not end; see its log", name);
			return -ETIMEDOUT;
		}
		nanosleep(&step, NULL);
	}
	return 0;
}

/* Removes a device whose daemon has ended. Returns 0 or -errno. */
static int device_remove(const char *name)
{
	char option[RUNTIME_NAME_MAX + 16];
	char *argv[] = {(char[]){DAEMON}, option, (char[]){"--remove"}, NULL};
	pid_t pid;
	int status;

	snprintf(option, sizeof option, "--name=%s", name);
	status = daemon_spawn(argv, -1, &pid);
	return status < 0 ? status : daemon_wait(pid);
}

/* --- Asking the daemon ------------------------------------------------------------------------------------- */

bool disk_state_is_reported(enum disk_state state)
{
	return state <= DISK_FAILED;
}

int disk_state_status(enum disk_state state, int status)
{
	int own = state == DISK_FAILED ? COMMAND_LOST : state == DISK_DEGRADED ? COMMAND_DEGRADED : COMMAND_OK;

	return own > status ? own : status;
}

/* Returns the state in @reply, a JSON text in which no name contains a quotation mark. Returns DISK_SERVING if there is
   none, because a daemon of an older farpage reports no state. */
static enum disk_state state_told(const char *reply)
{
	char text[32];

	for (enum disk_state state = DISK_SERVING; disk_state_is_reported(state); state++) {
		snprintf(text, sizeof text, "\"state\":\"%s\"", disk_state_name(state));
		if (strstr(reply, text))
			return state;
	}
	return DISK_SERVING;
}

enum disk_state disk_daemon_state(const char *name, char ret_reply[CONTROL_REPLY_MAX])
{
	if (geteuid())
		return runtime_read_status(name, ret_reply, CONTROL_REPLY_MAX) > 0 ? state_told(ret_reply)
										   : DISK_UNKNOWN;
	if (control_ask(name, CONTROL_STATUS, STATUS_MS, ret_reply) > 0)
		return state_told(ret_reply);
	return runtime_is_served(name) ? DISK_ADOPTING : DISK_LEFT;
}

static int refusal_tell(const char *name, const char *why)
{
	struct runtime_device device;
	char use[USE_TEXT_MAX];

	if (runtime_read_device(name, &device) == 0 && use_find(device.device.path, use))
		log_error("%s is in use: %s is %s; end that first", name, device.device.path, use);
	else
		log_error("%s: %s", name, why);
	return -EBUSY;
}

/* Waits until the daemon has removed its folder, which is its last step. */
static int daemon_wait_gone(const char *name, unsigned timeout_ms)
{
	const struct timespec step = {.tv_nsec = 2000000};
	uint64_t deadline = clock_now() + (uint64_t)timeout_ms * 1000000;
	char path[RUNTIME_PATH_MAX + 16];

	if (runtime_path(name, NULL, path) < 0)
		return -ENAMETOOLONG;
	while (access(path, F_OK) == 0) {
		if (clock_now() > deadline)
			return -ETIMEDOUT;
		nanosleep(&step, NULL);
	}
	return 0;
}

int disk_daemon_detach(const char *name)
{
	static char reply[CONTROL_REPLY_MAX];
	char path[RUNTIME_PATH_MAX + 16];
	int status;

	if (runtime_check_name(name) < 0)
		return -EINVAL;
	if (runtime_path(name, NULL, path) < 0 || access(path, F_OK) < 0) {
		log_error("there is no device %s: see `farpage disk list`", name);
		return -ENOENT;
	}
	status = control_ask(name, CONTROL_DETACH, DETACH_MS, reply);
	if (status > 0 && strncmp(reply, "error: ", 7) == 0)
		return refusal_tell(name, reply + 7);
	if (status < 0 && !runtime_is_served(name))
		return device_remove(name);
	if (status >= 0)
		status = daemon_wait_gone(name, DETACH_MS);
	if (status < 0)
		log_error("the daemon of %s does not answer: %s; see its log", name, strerror(-status));
	return status;
}

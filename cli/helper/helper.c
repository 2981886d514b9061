/*
 * farpage helper: makes a control group and swap space for an ordinary user's `farpage run` (farpage-helper(8)).
 *
 * Theory of operation. systemd starts one process for each connection to the helper's socket, with the connection as
 * standard input. The process reads one request (helper_message.h), finds out who sent it (helper_peer.h), and takes a
 * record in the ledger (helper_ledger.h). Only then it makes the control group and the device (run_space.h), moves the
 * sender into the group, and answers. It keeps everything until the connection ends, or a signal comes. Then it ends
 * the processes in the group and removes everything. If the process is killed, the guard does so (run_guard.h).
 *
 * The device cannot be removed while pages of other programs are on it that have no room in memory. Then a second
 * process, the remover, tries again until it succeeds. A signal ends only the first process, and the record counts
 * until both have ended.
 *
 * Everything but two sizes comes from the administrator's configuration: /etc/farpage/farpage.ini.
 *
 * Threads: one, except that run_donors_check() starts and joins its own.
 */
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/helper/helper_ledger.h"
#include "cli/helper/helper_peer.h"
#include "cli/run/run_options.h"
#include "cli/run/run_space.h"
#include "cli/signals.h"
#include "cli/subcommands.h"
#include "common/donors_option.h"
#include "common/least.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUEST_MS 5000 /* a client that has connected must send its request in this time */
#define AGAIN_MAX_S 10  /* the longest time between two attempts to remove everything; the first is 1 s */
#define LOOK_MS 500     /* time between two looks at what the remover has done */

struct helper {
	struct run_options options;
	struct helper_limits limits;
	int socket;
	int signal_fd; /* becomes readable when a signal comes, and is never read, so signals stay pending */
	struct helper_peer peer;
	struct helper_ledger ledger;
	struct run_space space;
};

static const struct subcommands_text text = {
    .name = "helper",
    .before = "usage: farpage helper [OPTION...]\n\n"
	      "Makes a control group and swap space for the `farpage run` of an ordinary user. farpage-helper.socket\n"
	      "starts it, with a connection as standard input; see farpage-helper(8). Options:\n\n",
    .after = "",
    .instead = "farpage-helper.socket starts it",
};

/* Reads the options from the command line, and from the configuration that belongs to the administrator. Returns -1,
   or an exit status after one logged line. */
static int read_options(int argc, char **argv, struct helper *helper)
{
	struct run_options *options = &helper->options;
	const struct config_setting settings[] = {
	    {"donor", CONFIG_LIST, &options->donors, 0, 0, "URI", "a donor; give one or several, or @FILE"},
	    {"key", CONFIG_STRING, &options->key_file, 0, 0, "FILE", "the key shared with the donors"},
	    {"replicas", CONFIG_NUMBER, &options->replicas, 1, FAR_REPLICAS_MAX, "N",
	     "donors that hold each page (default 1)"},
	    {"encrypt", CONFIG_FLAG, &options->encrypt, 0, 0, NULL, "encrypt pages before they leave"},
	    {"timeout-ms", CONFIG_NUMBER, &options->timeout_ms, 100, 600000, "MS",
	     "a donor out of reach for this long is lost (default 600000; with another copy in reach 5000)"},
	    {"devices", CONFIG_NUMBER, &helper->limits.devices, 1, HELPER_GRANTS_MAX, "N",
	     "runs of all users at a time (default 16)"},
	    {"devices-per-user", CONFIG_NUMBER, &helper->limits.user_devices, 1, HELPER_GRANTS_MAX, "N",
	     "runs of one user at a time (default 4)"},
	    {"swap", CONFIG_SIZE, &helper->limits.swap, SETTINGS_SIZE_MIN, SETTINGS_SIZE_MAX, "SIZE",
	     "swap space of all users together (default 64G)"},
	    {"swap-per-user", CONFIG_SIZE, &helper->limits.user_swap, SETTINGS_SIZE_MIN, SETTINGS_SIZE_MAX, "SIZE",
	     "swap space of one user (default 16G)"},
	    {0},
	};

	/* Only the administrator's file counts, not that in a home folder. */
	unsetenv("HOME");
	unsetenv("XDG_CONFIG_HOME");
	int status =
	    subcommands_begin(&text, settings, defaults_read(settings, "helper", argc, argv, NULL), argc, argv);
	if (status < 0 && donors_option_expand(&options->donors, &options->donors_file) < 0)
		status = COMMAND_USAGE;
	return status;
}

/* Takes the connection from standard input, and puts /dev/null into its place. Returns 0, or -EINVAL after one logged
   line. */
static int take_connection(struct helper *helper)
{
	int type = 0, domain = 0, null = open("/dev/null", O_RDWR | O_CLOEXEC);
	socklen_t size = sizeof type;

	if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &size) ||
	    getsockopt(STDIN_FILENO, SOL_SOCKET, SO_DOMAIN, &domain, &size) || type != SOCK_SEQPACKET ||
	    domain != AF_UNIX) {
		log_error("helper: standard input is no connection; farpage-helper.socket starts this command");
		return -EINVAL;
	}
	helper->socket = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (helper->socket >= 0 && null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0)
		return 0;
	log_error("helper: cannot take the connection: %m");
	return -EINVAL;
}

/* --- The request ------------------------------------------------------------------------------------------------ */

/* Returns true if the connection has ended, or has another message, or does so within @timeout_ms. */
static bool is_ready(const struct helper *helper, int timeout_ms)
{
	struct pollfd ready = {.fd = helper->socket, .events = POLLIN | POLLRDHUP};

	return poll(&ready, 1, timeout_ms) != 0;
}

/* Receives the request. recv(2) closes descriptors that came with the message. */
static enum helper_status receive(const struct helper *helper, struct helper_request *ret_request)
{
	char message[sizeof *ret_request + 1]; /* a longer message is cut to a wrong length */
	ssize_t length = is_ready(helper, REQUEST_MS) ? recv(helper->socket, message, sizeof message, MSG_DONTWAIT) : 0;

	return helper_message_check(message, length > 0 ? (size_t)length : 0, ret_request);
}

/* Does what the request asks for, if all checks pass. The caller removes whatever was made before an error. */
static enum helper_status grant(struct helper *helper, const struct helper_request *request)
{
	struct run_options *options = &helper->options;
	struct run_donors donors;
	uint64_t swap;

	if (helper_peer_find(helper->socket, &helper->peer) || is_ready(helper, 0))
		return HELPER_PEER;
	enum helper_status status =
	    helper_ledger_take(&helper->limits, helper->peer.uid, request->swap, &helper->ledger, &swap);
	if (status)
		return status;
	options->local = request->local;
	options->far = request->swap;
	if (!options->donors.count)
		log_error("no donor is named in /etc/farpage/farpage.ini");
	if (!options->donors.count || run_donors_check(options, &donors))
		return HELPER_DONORS;
	if (donors.free_bytes > swap)
		donors.free_bytes = swap;
	if (run_space_make(options, &donors, helper->peer.pid, &helper->space))
		return HELPER_SPACE;
	helper_ledger_settle(&helper->ledger, helper->peer.uid, helper->space.device.size);
	int error = is_ready(helper, 0) ? -ECONNRESET : helper_peer_move(&helper->peer, &helper->space.group);
	if (error)
		log_warning("cannot move process %d: %s", (int)helper->peer.pid, strerror(-error));
	return error ? HELPER_PEER : HELPER_OK;
}

/* Sends the answer. Returns @status, or HELPER_PEER if the answer cannot be sent. */
static enum helper_status answer(const struct helper *helper, enum helper_status status)
{
	const struct run_space *space = &helper->space;
	struct helper_answer answer = {.version = HELPER_VERSION, .status = status};

	helper_limits_text(&helper->limits, status, answer.text);
	if (status == HELPER_OK) {
		answer.local = helper->options.local;
		answer.swap = space->device.size;
		answer.replicas = helper->options.replicas;
		answer.encrypts = helper->options.encrypt;
		answer.group_version = space->group.version;
		if (snprintf(answer.group, sizeof answer.group, "%s", space->group.folder) >= (int)sizeof answer.group)
			return HELPER_SPACE;
		snprintf(answer.device, sizeof answer.device, "%s", space->device.path);
	}
	bool sent = send(helper->socket, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof answer;
	return sent || status ? status : HELPER_PEER;
}

/* --- Until the end ---------------------------------------------------------------------------------------------- */

/* Returns a descriptor that becomes readable when the connection ends, or has a message, or one of @signals comes.
   Returns -1 on failure. */
static int wake_open(struct helper *helper, const sigset_t *signals)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
	int fd = epoll_create1(EPOLL_CLOEXEC);

	helper->signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd >= 0 && helper->signal_fd >= 0 && !epoll_ctl(fd, EPOLL_CTL_ADD, helper->signal_fd, &event) &&
	    !epoll_ctl(fd, EPOLL_CTL_ADD, helper->socket, &event))
		return fd;
	log_error("cannot wait: %m");
	return -1;
}

static void keep(struct helper *helper, int wake)
{
	struct run_space *space = &helper->space;
	struct run_group_use use = {0};
	char local[SIZE_TEXT_MAX], swap[SIZE_TEXT_MAX], unused;
	int pause_ms = space->group.version == CONTROL_GROUP_V1 ? RUN_GROUP_LOOK_MS : -1;

	log_info("process %d of user %u has %s of memory and %s of swap space on %s", (int)helper->peer.pid,
		 helper->peer.uid, size_format(helper->options.local, local), size_format(space->device.size, swap),
		 space->device.path);
	while (!run_group_wait(&space->group, wake, pause_ms, &use))
		run_group_look(&space->group, run_device_room(&space->device, use.swapped), &use);
	if (recv(helper->socket, &unused, sizeof unused, MSG_DONTWAIT | MSG_PEEK) > 0)
		log_warning("process %d sent a second message, which ends its connection", (int)helper->peer.pid);
}

static void tell(const struct helper *helper, enum helper_removal removal)
{
	char byte = (char)removal;

	send(helper->socket, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The remover. It outlives the helper, and ignores signals, because nobody else would remove the device. */
static void __attribute__((noreturn)) remove_until_done(struct helper *helper)
{
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

	close(helper->socket); /* the client must not wait for this process */
	setsid();
	for (unsigned i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
		signal(ignored[i], SIG_IGN);
	for (uint64_t pause_s = 1;; pause_s = least(2 * pause_s, AGAIN_MAX_S)) {
		sleep((unsigned)pause_s);
		if (run_space_end(&helper->space) == 0)
			_exit(0);
	}
}

/* Removes everything. Returns true when nothing is left. Returns false after a signal; then the remover continues. */
static bool remove_all(struct helper *helper)
{
	struct pollfd signalled = {.fd = helper->signal_fd, .events = POLLIN};
	bool removed = run_space_end(&helper->space) == 0, told = false;
	pid_t remover = 0;
	int status;

	while (!removed) {
		if (remover <= 0 && (remover = fork()) == 0)
			remove_until_done(helper);
		if (!told && access(helper->space.group.folder, F_OK) < 0) {
			tell(helper, HELPER_REMAINS);
			told = true;
		}
		if (poll(&signalled, 1, LOOK_MS) > 0 && remover > 0)
			return false;
		if (remover > 0 && waitpid(remover, &status, WNOHANG) == remover) {
			removed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
			remover = 0; /* if it was killed, there will be another one */
		}
	}
	return true;
}

int command_helper(int argc, char **argv)
{
	/* static, because strings from the configuration are never freed, and the guard uses the space */
	static struct helper helper = {
	    .options = {.replicas = 1, .scrub_rate = FAR_SCRUB_RATE},
	    .limits = {.swap = UINT64_C(64) << 30, .user_swap = UINT64_C(16) << 30, .devices = 16, .user_devices = 4}};
	struct helper_request request;
	sigset_t signals, before;
	int status = read_options(argc, argv, &helper);

	if (status >= 0)
		return status;
	if (subcommands_root("helper") || take_connection(&helper))
		return COMMAND_FAILED;
	log_set_level(LOG_LEVEL_INFO);
	signal(SIGCHLD, SIG_DFL); /* if SIGCHLD were ignored, the status of every child would be lost */
	signals_block(&signals, &before);
	int wake = wake_open(&helper, &signals);
	enum helper_status result = wake < 0 ? HELPER_SPACE : receive(&helper, &request);
	if (!result)
		result = grant(&helper, &request);
	result = answer(&helper, result);
	if (!result)
		keep(&helper, wake);
	if (remove_all(&helper) && !result && !signals_came(&signals)) {
		/* Before the client knows: it may ask for its next device at once. */
		helper_ledger_release(&helper.ledger);
		tell(&helper, HELPER_REMOVED);
	}
	return result ? COMMAND_FAILED : COMMAND_OK;
}

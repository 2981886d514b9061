/* helper_peer: see helper_peer.h. */
#include "cli/helper/helper_peer.h"

#include "common/process.h"
#include "common/text_file.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

#define TRACE_S 5 /* PTRACE_SEIZE waits while the process is in execve(2), which a user can make wait for ever */

int helper_peer_find(int socket, struct helper_peer *ret_peer)
{
	struct ucred user;
	socklen_t size = sizeof user;
	int fd;

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &user, &size))
		return -errno;
	if (user.pid <= 0) /* a process of a PID namespace that is not visible here */
		return -ESRCH;
	if (!process_shares_namespace(user.pid, "user") || !getpwuid(user.uid))
		return -EPERM;
	size = sizeof fd;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size)) {
		if (errno != ENOPROTOOPT)
			return -errno;
		fd = pidfd_open(user.pid, 0);
	}
	if (fd < 0)
		return -errno;
	*ret_peer = (struct helper_peer){.pid = user.pid, .uid = user.uid, .fd = fd};
	return 0;
}

bool helper_peer_lives(const struct helper_peer *peer)
{
	return pidfd_send_signal(peer->fd, 0, NULL, 0) == 0;
}

/* Returns true if all four user ids of the process are that of the peer. */
static bool has_its_user(const struct helper_peer *peer)
{
	char path[32], text[4096];
	unsigned ids[4];

	snprintf(path, sizeof path, "/proc/%d/status", (int)peer->pid);
	if (text_file_read(path, text, sizeof text) < 0)
		return false;
	const char *line = strstr(text, "\nUid:");
	if (!line || sscanf(line, "\nUid: %u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
		return false;
	for (unsigned i = 0; i < 4; i++)
		if (ids[i] != peer->uid)
			return false;
	return true;
}

/* Runs in a child, whose end ends the tracing. Returns 0 or -errno. */
static int move_traced(const struct helper_peer *peer, const struct run_group *group)
{
	sigset_t alarms;

	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	signal(SIGALRM, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	alarm(TRACE_S);
	if (ptrace(PTRACE_SEIZE, peer->pid, NULL, NULL))
		return -errno;
	if (!helper_peer_lives(peer) || !has_its_user(peer))
		return -ESRCH;
	if (!process_shares_namespace(peer->pid, "user"))
		return -EPERM;
	return run_group_move(group, peer->pid);
}

int helper_peer_move(const struct helper_peer *peer, const struct run_group *group)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		return -errno;
	if (child == 0)
		_exit(-move_traced(peer, group));
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status))
		return -WEXITSTATUS(status);
	return WTERMSIG(status) == SIGALRM ? -ETIMEDOUT : -EIO;
}

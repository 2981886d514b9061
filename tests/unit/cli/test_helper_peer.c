/* Unit tests of cli/helper/helper_peer: only the process that has connected is moved into a control group. The control
   group is a folder with a file that records what would be moved. */
#include "cli/helper/helper_peer.h"
#include "common/text_file.h"
#include "tests/lib/tap.h"

#include "tests/lib/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct run_group group;

static const char *moved(void)
{
	static char text[32];
	text_file_read(folder_path("cgroup.procs"), text, sizeof text);
	return text;
}

static void group_empty(void)
{
	folder_put("cgroup.procs", "");
}

/* Starts a process that connects, then calls @act, then waits. Returns its number. *@ret_socket is the other end. */
static pid_t start(void (*act)(void), int *ret_socket)
{
	const struct sockaddr_un any = {.sun_family = AF_UNIX};
	struct sockaddr_un address;
	socklen_t size = sizeof address;
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), ready[2];
	char byte;
	if (bind(listener, (const struct sockaddr *)&any, sizeof any.sun_family) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &size) || pipe2(ready, O_CLOEXEC))
		tap_bail("cannot listen: %s", strerror(errno));
	pid_t pid = fork();
	if (pid == 0) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		if (connect(fd, (const struct sockaddr *)&address, size))
			_exit(1);
		if (act)
			act();
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		tap_bail("the process did not connect");
	close(ready[0]);
	*ret_socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Starts a process with the number @pid, which waits. Returns false if that is not possible. */
static bool start_as(pid_t pid)
{
	struct clone_args arguments = {.exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1};
	long child = syscall(SYS_clone3, &arguments, sizeof arguments);
	if (child == 0) {
		pause();
		_exit(1);
	}
	return child == pid;
}

static void a_living_peer_is_moved(void)
{
	struct helper_peer peer;
	char number[32];
	int fd;
	pid_t pid = start(NULL, &fd);
	group_empty();
	ok(helper_peer_find(fd, &peer) == 0 && peer.pid == pid && peer.uid == geteuid(),
	   "the process that has connected is found");
	snprintf(number, sizeof number, "%d", (int)pid);
	ok(helper_peer_lives(&peer) && helper_peer_move(&peer, &group) == 0 && strcmp(moved(), number) == 0,
	   "the process that has connected is moved");
	ok(kill(pid, 0) == 0 && waitpid(pid, NULL, WNOHANG) == 0, "a process that was moved goes on");
	end(pid);
	close(fd);
}

static void another_process_with_the_number_is_not_moved(void)
{
	struct helper_peer peer;
	int fd;
	pid_t pid = start(NULL, &fd);
	group_empty();
	ok(helper_peer_find(fd, &peer) == 0, "the process is found before it ends");
	end(pid);
	ok(!helper_peer_lives(&peer) && helper_peer_move(&peer, &group) == -ESRCH && !*moved(),
	   "a process that has ended is not moved");
	if (start_as(pid)) {
		ok(!helper_peer_lives(&peer) && helper_peer_move(&peer, &group) == -ESRCH && !*moved(),
		   "another process that got the number is not moved");
		end(pid);
	} else {
		tap_skip("another process that got the number is not moved", "the kernel refuses a chosen number");
	}
	close(fd);
}

static void change_user(void)
{
	if (setresuid(65534, 65534, 65534))
		_exit(1);
}

static void be_traced(void)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(1);
}

static bool is_refused(void (*act)(void), int error)
{
	struct helper_peer peer;
	int fd;
	pid_t pid = start(act, &fd);
	group_empty();
	bool good = helper_peer_find(fd, &peer) == 0 && helper_peer_move(&peer, &group) == error && !*moved();
	end(pid);
	close(fd);
	return good;
}

int main(void)
{
	if (geteuid() != 0)
		return tap_skip_all("moving processes needs root");
	snprintf(group.folder, sizeof group.folder, "%s", folder());
	a_living_peer_is_moved();
	another_process_with_the_number_is_not_moved();
	ok(is_refused(change_user, -ESRCH), "a process that has another user now is not moved");
	ok(is_refused(be_traced, -EPERM), "a process that is traced is not moved");
	return tap_done();
}

/* Unit tests of cli/helper/helper_peer: only the process that has connected is moved into a control group. The control
   group is a folder with a file that records what would be moved. */
#include "cli/helper/helper_peer.h"
#include "common/text_file.h"
#include "tests/lib/folder.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_ACCOUNT 4294967000u /* a user id that no system gives to anybody */

static struct run_group group;
static uid_t connect_as; /* the user of the next process that start() starts; 0 for root */
static int ready_fd;     /* in that process: gets a byte when the process is ready */

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

/* Starts a process that connects, calls @act, and then waits. Returns its number. *@ret_socket is the other end. */
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

		ready_fd = ready[1];
		if (connect_as && setresuid(connect_as, connect_as, connect_as))
			_exit(1);
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
	snprintf(number, sizeof number, "%d\n", (int)pid);
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

static void change_namespace(int unused)
{
	(void)unused;
	if (unshare(CLONE_NEWUSER))
		_exit(1);
	raise(SIGSTOP);
}

static void change_namespace_when_told(void)
{
	signal(SIGUSR1, change_namespace);
}

static void another_user_namespace_is_refused(void)
{
	struct helper_peer peer, unused;
	int fd, status;
	pid_t pid = start(change_namespace_when_told, &fd);

	group_empty();
	ok(helper_peer_find(fd, &peer) == 0, "a process is found before it enters a user namespace");
	kill(pid, SIGUSR1);
	if (waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status)) {
		ok(helper_peer_find(fd, &unused) == -EPERM, "a process in another user namespace is refused");
		ok(helper_peer_move(&peer, &group) == -EPERM && !*moved(),
		   "a process that entered a user namespace later is not moved");
		end(pid);
	} else {
		tap_skip("a process in another user namespace is refused", "no user namespaces");
	}
	close(fd);
}

static void user_without_account_is_refused(void)
{
	struct helper_peer peer;
	int fd;

	connect_as = NO_ACCOUNT;
	pid_t pid = start(NULL, &fd);
	connect_as = 0;
	ok(helper_peer_find(fd, &peer) == -EPERM, "a user id without an account is refused");
	end(pid);
	close(fd);
}

static void *be_traced_thread(void *traced)
{
	be_traced();
	pthread_barrier_wait(traced);
	pause();
	return NULL;
}

/* Hangs in execve(2), which waits for the other thread's end. That needs its tracer, which is this test. */
static void hang(void)
{
	pthread_barrier_t traced;
	pthread_t thread;

	pthread_barrier_init(&traced, NULL, 2);
	if (pthread_create(&thread, NULL, be_traced_thread, &traced))
		_exit(1);
	pthread_barrier_wait(&traced);
	if (write(ready_fd, "", 1) == 1)
		execl("/bin/sh", "sh", "-c", "exit 1", NULL);
	_exit(1);
}

static void hanging_peer_does_not_hang_the_helper(void)
{
	struct helper_peer peer;
	siginfo_t ended;
	int fd;
	pid_t pid = start(hang, &fd);

	group_empty();
	waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT | __WALL); /* now only this test can end execve() */
	ok(helper_peer_find(fd, &peer) == 0 && helper_peer_move(&peer, &group) == -ETIMEDOUT && !*moved(),
	   "a process that hangs in execve is given up after some seconds");
	kill(pid, SIGKILL);
	while (waitpid(-1, NULL, __WALL) > 0)
		;
	close(fd);
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
	another_user_namespace_is_refused();
	user_without_account_is_refused();
	hanging_peer_does_not_hang_the_helper();
	return tap_done();
}

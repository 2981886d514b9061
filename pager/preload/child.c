/*
 * child: handles forked children that outlive their parent and its pager.
 *
 * If only the pager's process held the child's userfaultfd, the kernel would close the userfaultfd when that process
 * ends. The child's far pages would then read as zeroes. So each child holds its userfaultfd open, too. The pager sends
 * this descriptor to the child during the fork (pager_fork_announce()).
 *
 * A thread of the child, the watcher, waits for the end of the pager's process. After that, a thread that touches a
 * far page waits for an answer that nobody will give. The watcher then logs a line and ends the child. A child that
 * touches no far page continues.
 *
 * A child does not announce its own children to the pager, so they have no userfaultfd. When the pager's process ends,
 * the watcher of such a child ends the child at once.
 *
 * Without CAP_SYS_PTRACE the kernel does not report forks. A child then does not have the window at all (farpage.c),
 * but can call exec. If the child touches the window, a signal handler logs the reason, and SIGSEGV ends the child.
 *
 * Threads: child_prepare() and child_after_*() run in the forking thread; in the parent, preload.lock is held.
 */
#include "common/log.h"
#include "pager/preload/latch.h"
#include "pager/preload/preload.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WATCHER_STACK (64u << 10)

static int pager_process = -1; /* the pager's process, a pidfd */
static pid_t pager_pid;
static int own_uffd = -1;         /* this process's userfaultfd, if it is a child */
static int sockets[2] = {-1, -1}; /* during a fork: the child's end, and the pager's end */
static struct latch watching;     /* set by the watcher when it needs no more locks */

int child_open(void)
{
	pager_pid = getpid();
	pager_process = (int)syscall(SYS_pidfd_open, pager_pid, 0);
	return pager_process < 0 ? -errno : 0;
}

void child_prepare(void)
{
	/* A process made by clone(CLONE_VM) announces no fork. It shares the parent's memory but not the parent's
	   descriptors, so the pager could not use its socket. */
	if (preload_mode() != PRELOAD_RUNNING || getpid() != pager_pid)
		return;
	preload_near++;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets)) {
		sockets[0] = sockets[1] = -1;
	} else if (!pager_fork_announce(preload.farpage, sockets[1])) {
		close(sockets[0]);
		close(sockets[1]);
		sockets[0] = sockets[1] = -1;
	}
	preload_near--;
}

void child_after_in_parent(void)
{
	if (sockets[0] >= 0)
		close(sockets[0]);
	sockets[0] = sockets[1] = -1;
}

static void __attribute__((noreturn)) stop(const char *why)
{
	log_error("process %d was forked from one whose memory was partly far, and %s: it is stopped; farpage run "
		  "--engine swap can run such programs",
		  getpid(), why);
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

static void count_stopped(void)
{
	if (preload.counters)
		__atomic_fetch_add(&preload.counters->children_stopped, 1, __ATOMIC_RELAXED);
}

static int receive_uffd(int from)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec bytes = {&byte, 1};
	struct msghdr message = {
	    .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	ssize_t got;
	int fd = -1;

	while ((got = recvmsg(from, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(header), sizeof fd);
	else if (got > 0)
		stop("too many of that one's children live");
	return fd;
}

static void wait_for(int fd)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};

	while (poll(&wanted, 1, -1) < 0 && errno == EINTR)
		;
}

static void *watch(void *unused)
{
	struct uffdio_range all = {(uintptr_t)preload.window.base, preload.window.length};

	(void)unused;
	latch_set(&watching);
	wait_for(pager_process);
	if (own_uffd < 0) {
		count_stopped();
		stop("that one has ended");
	}
	/* Wakes threads that wait for the ended pager. These threads fault again, and the kernel now reports their
	   faults to the watcher. */
	ioctl(own_uffd, UFFDIO_WAKE, &all);
	wait_for(own_uffd);
	count_stopped();
	stop("that one, which could have brought it, has ended");
}

/* Logs why the process is stopped. When this returns, the access faults again and ends the process, because
   SA_RESETHAND has restored the default action. */
static void tell_unfollowed(int number, siginfo_t *info, void *unused)
{
	(void)number, (void)unused;
	if (!window_contains(&preload.window, info->si_addr))
		return;
	count_stopped();
	log_error(
	    "process %d was forked from one with far memory and continues without executing another program, which "
	    "works as root only: it is stopped; as root, farpage run --engine swap can run such programs, too",
	    getpid());
}

static void await_touch(void)
{
	struct sigaction action = {.sa_sigaction = tell_unfollowed, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};

	sigemptyset(&action.sa_mask);
	sigaction(SIGSEGV, &action, NULL);
}

void child_after_in_child(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;

	if (preload_mode() != PRELOAD_CHILD)
		return;
	if (!preload.forks_followed) {
		await_touch();
		return;
	}
	preload_near++;
	if (own_uffd >= 0)
		close(own_uffd); /* the parent's userfaultfd */
	own_uffd = -1;
	watching = (struct latch){0};
	if (sockets[0] >= 0) {
		close(sockets[1]);
		own_uffd = receive_uffd(sockets[0]);
		close(sockets[0]);
		sockets[0] = sockets[1] = -1;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, WATCHER_STACK);
	if (pthread_create(&thread, &attributes, watch, NULL)) {
		count_stopped();
		stop("there is no room for the thread that watches over that");
	}
	pthread_attr_destroy(&attributes);
	/* If this thread forks again at once, it holds the locks of process.c until the pager has read the fork's
	   event. If the pager has ended by then, only the watcher can end this process. So this thread waits here until
	   the watcher needs none of these locks. */
	latch_await(&watching);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	preload_near--;
}

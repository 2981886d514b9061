/*
 * child: handles forked children that outlive their parent and its pager.
 *
 * If no page of a child is far, it can do without its parent's pager: pages that it lacks were never used, and read as
 * zeroes. Daemons fork early and so are such children. When the pager's process has ended, such a child ends the
 * registration of the window. It is then WAITING (preload.h), and starts a pager of its own at once.
 *
 * If only the pager's process held the child's userfaultfd, the kernel would close the userfaultfd when that process
 * ends. The child's far pages would then read as zeroes. So each child holds its userfaultfd open, too. The pager sends
 * this descriptor to the child during the fork (pager/pass.h). A child announces its own forks over the same socket. A
 * child that gets no answer, because the pager's process has ended, is stopped before fork() returns in it.
 *
 * If the pager's process exits, it first brings all far pages of its children back (pager/farewell.h).
 *
 * A thread of the child, the watcher, removes pages when the pager asks for it (remove.c). When the pager's process has
 * ended, a thread that touches a far page waits for an answer that nobody will give. The watcher then logs a line and
 * ends the child. A child that touches no far page continues.
 *
 * If there is no room for a socket, the child has no userfaultfd. If it may have far pages, the watcher ends it as soon
 * as the pager's process has ended.
 *
 * Without CAP_SYS_PTRACE the kernel does not report forks. A child then does not have the window at all (farpage.c),
 * but can call exec. If the child touches the window, a signal handler logs the reason, and SIGSEGV ends the child.
 *
 * A fork needs descriptors in both processes, and the program may have used all its numbers. So the limit on
 * descriptors is raised until the fork is done.
 *
 * Threads: child_prepare() and child_after_*() run in the forking thread; in the parent, preload.lock is held.
 */
#include "common/descriptors.h"
#include "common/log.h"
#include "fabric/fabric.h"
#include "pager/pass.h"
#include "pager/preload/latch.h"
#include "pager/preload/preload.h"
#include "pager/uffd.h"

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
#define LOCK_POLL_MS 1

static int pager_process = -1; /* the pager's process, a pidfd */
static pid_t own_pid;
static int own_uffd = -1;         /* this process's userfaultfd, if it is a child */
static int pager_socket = -1;     /* to the pager, if this process is a child */
static bool poisoned;             /* far pages raise SIGBUS, in this process and its children */
static bool all_local;            /* no page of this child is far */
static int sockets[2] = {-1, -1}; /* during a fork: the child's end, and the pager's end or -1 */
static uint64_t limit_before;     /* during a fork: of descriptors_raise_briefly() */
static struct latch watching;     /* set by the watcher when it needs no more locks */

int child_open(void)
{
	own_pid = getpid();
	pager_process = (int)syscall(SYS_pidfd_open, own_pid, 0);
	return pager_process < 0 ? -errno : 0;
}

/* Announces a fork to the pager, which then owns sockets[1]. Returns true if the pager will answer. */
static bool announce(void)
{
	if (preload_mode() == PRELOAD_RUNNING)
		return pager_fork_announce(preload.farpage, sockets[1]);
	const struct pass_message message = {.fd = sockets[1]};
	if (pass_send(pager_socket, PASS_ANNOUNCE, &message) < 0)
		return false;
	close(sockets[1]);
	sockets[1] = -1;
	return true;
}

static void close_sockets(void)
{
	for (unsigned i = 0; i < 2; i++) {
		if (sockets[i] >= 0)
			close(sockets[i]);
		sockets[i] = -1;
	}
}

static void restore_limit(void)
{
	descriptors_restore(limit_before);
	limit_before = 0;
}

void child_prepare(void)
{
	enum preload_mode mode = preload_mode();

	/* A process made by clone(CLONE_VM) announces no fork. It shares the memory of its maker but not the maker's
	   descriptors, so the pager could not use its socket. */
	if (getpid() != own_pid || !preload.forks_followed ||
	    !(mode == PRELOAD_RUNNING || (mode == PRELOAD_CHILD && pager_socket >= 0 && !poisoned)))
		return;
	preload_near++;
	limit_before = descriptors_raise_briefly();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		sockets[0] = sockets[1] = -1;
	else if (!announce())
		close_sockets();
	preload_near--;
}

void child_after_in_parent(void)
{
	bool announced = sockets[0] >= 0;

	sockets[1] = -1; /* the pager's */
	close_sockets();
	restore_limit();
	if (announced && preload_mode() == PRELOAD_RUNNING)
		pager_fork_await(preload.farpage);
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

static void wait_for(int fd)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};

	while (poll(&wanted, 1, -1) < 0 && errno == EINTR)
		;
}

/* Receives this child's userfaultfd, or sets `poisoned`. If the pager's process ends and this child may have far pages,
   does not return, because far pages may read as zeroes then. `all_local` is at first what it was in the parent. */
static void receive_uffd(void)
{
	struct pollfd wanted[] = {{.fd = pager_socket, .events = POLLIN}, {.fd = pager_process, .events = POLLIN}};
	struct pass_message message;
	int what;

	/* A sibling may hold the pager's end open, so the end of the pager's process must be awaited, too. */
	while ((what = pass_receive(pager_socket, &message)) == -EAGAIN && !wanted[1].revents)
		poll(wanted, 2, -1);
	own_uffd = message.fd;
	poisoned = what == PASS_POISONED;
	if (what == PASS_SERVED && own_uffd >= 0)
		all_local = message.count == 1 && message.words[0] == 0;
	else if (what == PASS_REFUSED)
		all_local = false;
	if (poisoned || own_uffd >= 0 || all_local)
		return;
	if (what == PASS_REFUSED)
		stop("too many of that one's children live"); /* the pager has counted it */
	count_stopped();
	stop("that one has ended");
}

/* Removes pages when the pager asks for it. Returns when the pager's process has ended, and all that it has sent before
   is read. */
static void serve_pager(void)
{
	struct pollfd wanted[] = {{.fd = pager_process, .events = POLLIN}, {.fd = pager_socket, .events = POLLIN}};
	struct pass_message message;

	while (!wanted[0].revents || wanted[1].revents) {
		if (poll(wanted, 2, -1) <= 0 || !wanted[1].revents)
			continue;
		int what = pass_receive(pager_socket, &message);
		if (what == PASS_REMOVE) {
			all_local = false; /* first, because this process may fork while pages are removed */
			remove_pages(&message, pager_socket, pager_process);
		} else if (what == PASS_FORGOTTEN) {
			served_answered();
		} else if (what == PASS_LOCAL) {
			all_local = true;
			pass_send(pager_socket, PASS_LOCAL, &(struct pass_message){.fd = -1});
		} else if (what != -EAGAIN) {
			wanted[1].fd = -1; /* the pager has closed its end */
			served_end();
		}
	}
	served_end();
}

static struct uffdio_range window_range(void)
{
	return (struct uffdio_range){(uintptr_t)preload.window.base, preload.window.length};
}

static void close_own(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Reads the events of forks, which nobody else reads any more. A fork waits until its event is read. When the new
   child's userfaultfd is closed, the window is ordinary memory there, too. */
static void let_forks_go(void)
{
	struct uffd_message message;

	while (own_uffd >= 0 && uffd_read(own_uffd, &message, 1) == 1)
		if (message.kind == UFFD_FORKED)
			close(message.child);
}

/* Makes the window ordinary memory, so that threads that wait for the ended pager continue. Returns with preload.lock
   held. A thread that forks holds this lock. */
static void leave_pager(void)
{
	struct uffdio_range all = window_range();
	struct pollfd event = {.fd = own_uffd, .events = POLLIN};

	if (own_uffd >= 0)
		ioctl(own_uffd, UFFDIO_UNREGISTER, &all); /* if it fails, close() does the same */
	while (pthread_mutex_trylock(&preload.lock)) {
		poll(&event, 1, LOCK_POLL_MS);
		let_forks_go();
	}
	served_close();
	remove_lock();
	remove_close();
	close_own(&own_uffd);
	remove_unlock();
}

void child_farewell(void)
{
	/* A process made by clone(CLONE_VM) shares the pager, which does not end with it. */
	if (preload_near || preload_mode() != PRELOAD_RUNNING || !preload.forks_followed || getpid() != own_pid)
		return;
	struct entry entry = entry_begin();
	pager_farewell(preload.farpage);
	entry_end(entry, 0);
}

/* Starts a pager of this child's own. */
static void go_alone(void)
{
	leave_pager();
	close_own(&pager_socket);
	close_own(&pager_process);
	all_local = false;
	preload.orphan = true;
	far_leave_child();
	pthread_mutex_unlock(&preload.lock);
	start_again();
	start_at_once();
}

static void *watch(void *unused)
{
	struct uffdio_range all = window_range();

	(void)unused;
	latch_set(&watching);
	serve_pager();
	if (all_local && fabric_after_fork() == 0) {
		go_alone();
		return NULL;
	}
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
	    "needs CAP_SYS_PTRACE: it is stopped; run farpage as root (in a container: --cap-add SYS_PTRACE), or use "
	    "--engine swap",
	    getpid());
}

static void await_touch(void)
{
	struct sigaction action = {.sa_sigaction = tell_unfollowed, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};

	sigemptyset(&action.sa_mask);
	sigaction(SIGSEGV, &action, NULL);
}

static void start_watcher(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;

	watching = (struct latch){0};
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
}

void child_after_in_child(void)
{
	if (preload_mode() != PRELOAD_CHILD || poisoned)
		return;
	if (!preload.forks_followed) {
		await_touch();
		return;
	}
	preload_near++;
	/* These two are the parent's. */
	close_own(&own_uffd);
	close_own(&pager_socket);
	served_begin(-1, -1);
	remove_after_in_child();
	own_pid = getpid();
	pager_socket = sockets[0];
	sockets[0] = -1;
	close_sockets();
	descriptor_note(pager_process);
	descriptor_note(pager_socket);
	if (pager_socket >= 0)
		receive_uffd();
	if (!poisoned && own_uffd >= 0) {
		served_begin(pager_socket, own_uffd);
		remove_open(own_uffd);
	}
	restore_limit();
	if (!poisoned)
		start_watcher();
	preload_near--;
}

/* run_watch: see run_watch.h. */
#include "cli/run/run_watch.h"

#include "common/log.h"
#include "common/process.h"
#include "pager/counters.h"
#include "pager/uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_MS 20 /* time between two checks while memory without a pager exists */

int run_watch_open(struct run_watch *ret_watch)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	*ret_watch = (struct run_watch){.told = fds[0], .tell = fds[1]};
	snprintf(ret_watch->path, sizeof ret_watch->path, "/proc/%d/fd/%d", (int)getpid(), fds[1]);
	return 0;
}

static void forget(struct run_watch *watch, unsigned index)
{
	struct watched *pager = &watch->pagers[index];

	if (pager->pidfd >= 0)
		close(pager->pidfd);
	close(pager->uffd);
	*pager = watch->pagers[--watch->count];
}

void run_watch_close(struct run_watch *watch)
{
	while (watch->count)
		forget(watch, 0);
	close(watch->told);
	close(watch->tell);
}

static bool memory_exists(const struct watched *pager)
{
	/* This call changes nothing. Its error shows if the memory still exists. */
	const struct uffd probe = {.fd = pager->uffd};

	return uffd_protect(&probe, (void *)pager->base, (size_t)sysconf(_SC_PAGESIZE), false) != -ESRCH;
}

/* Records that the process has ended. Returns false if no process uses its memory any more. */
static bool note_end(struct watched *pager)
{
	if (pager->pidfd >= 0)
		close(pager->pidfd);
	pager->pidfd = -1;
	if (!memory_exists(pager))
		return false;
	/* Wakes the threads that wait for the dead pager. They fault again, and the copied descriptor reports these
	   faults. */
	uffd_wake(pager->uffd, (void *)pager->base, pager->length);
	return true;
}

static void add(struct run_watch *watch, const struct watched *pager)
{
	if (watch->count < RUN_WATCH_MAX) {
		watch->pagers[watch->count++] = *pager;
		return;
	}
	if (pager->pidfd >= 0)
		close(pager->pidfd);
	close(pager->uffd);
}

/* Records the end of the pagers of process @pid, which has executed another program. */
static void end_pagers_of(struct run_watch *watch, pid_t pid)
{
	for (unsigned i = watch->count; i-- > 0;)
		if (watch->pagers[i].pid == pid && watch->pagers[i].pidfd >= 0 && !note_end(&watch->pagers[i]))
			forget(watch, i);
}

static void add_told(struct run_watch *watch, const struct report_pager *told)
{
	struct watched pager = {.pid = told->pid,
				.base = told->base,
				.length = told->length,
				.foreign = !process_shares_namespace(told->pid, "pid")};

	end_pagers_of(watch, told->pid);
	pager.pidfd = (int)syscall(SYS_pidfd_open, told->pid, 0);
	if (pager.pidfd < 0)
		return;
	pager.uffd = (int)syscall(SYS_pidfd_getfd, pager.pidfd, told->uffd, 0);
	if (pager.uffd >= 0)
		add(watch, &pager);
	else
		close(pager.pidfd);
}

static void read_told(struct run_watch *watch)
{
	struct report_pager told;

	while (read(watch->told, &told, sizeof told) == (ssize_t)sizeof told)
		add_told(watch, &told);
}

/* Kills process @pid, which shares the memory of @pager. Does not kill if @pid is of another PID namespace. */
static void stop_sharer(const struct watched *pager, pid_t pid)
{
	if (pager->foreign)
		log_error("process %d of a PID namespace shares the memory of process %d, which was partly far and has "
			  "ended: it waits until somebody ends it",
			  pid, pager->pid);
	else if (kill(pid, SIGKILL) == 0)
		log_error("process %d shares the memory of process %d, which was partly far and has ended: it is "
			  "stopped",
			  pid, pager->pid);
}

/* Handles the faults on memory whose pager has ended. */
static void stop_sharers(struct run_watch *watch, unsigned index)
{
	const struct watched pager = watch->pagers[index];
	struct uffd_message message;

	while (uffd_read(pager.uffd, &message, 1) == 1) {
		if (message.kind == UFFD_FORKED) {
			struct watched child = pager;

			child.uffd = message.child;
			add(watch, &child);
		} else if (message.kind != UFFD_OTHER) {
			stop_sharer(&pager, message.thread);
		}
	}
}

/* Forgets memory that no longer exists. Returns true if some process uses memory whose pager has ended. */
static bool has_sharers(struct run_watch *watch)
{
	bool any = false;

	for (unsigned i = watch->count; i-- > 0;) {
		struct watched *pager = &watch->pagers[i];
		struct pollfd ended = {.fd = pager->pidfd, .events = POLLIN};

		if (pager->pidfd >= 0 && poll(&ended, 1, 0) != 1)
			continue;
		if (pager->pidfd >= 0 ? note_end(pager) : memory_exists(pager))
			any = true;
		else
			forget(watch, i);
	}
	return any;
}

bool run_watch_wait(struct run_watch *watch, int fd, bool for_sharers)
{
	struct pollfd fds[2 + RUN_WATCH_MAX] = {{.fd = fd, .events = POLLIN}, {.fd = watch->told, .events = POLLIN}};

	do {
		read_told(watch);
		bool any = has_sharers(watch);
		unsigned count = watch->count;
		if (for_sharers && !any)
			return false;
		for (unsigned i = 0; i < count; i++) {
			const struct watched *pager = &watch->pagers[i];

			fds[2 + i] =
			    (struct pollfd){.fd = pager->pidfd >= 0 ? pager->pidfd : pager->uffd, .events = POLLIN};
		}
		if (poll(fds, 2 + count, any ? LOOK_MS : -1) < 0)
			fds[0].revents = 0;
		for (unsigned i = 0; i < count; i++)
			if (watch->pagers[i].pidfd < 0)
				stop_sharers(watch, i);
	} while (!(fds[0].revents & POLLIN));
	return true;
}

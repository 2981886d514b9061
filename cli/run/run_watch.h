/*
 * run_watch: handles processes that share memory with a process that has ended, and its pager with it.
 *
 * Theory of operation. A vfork child, or another process made with CLONE_VM, lives in its maker's memory. When the
 * maker ends, its pager ends, but that memory remains. Its far pages can then never come back. So each process that
 * starts a pager reports to `farpage run` (struct report_pager). `farpage run` takes a copy of its userfaultfd and
 * waits for its end.
 *
 * If the memory still exists after that end, a process that asks for one of its pages is killed, and one line is
 * logged. A process that needs no page lives on. Without the copy, a process that needs a page would hang for ever, or
 * read zeroes.
 *
 * Not covered:
 * - processes from which `farpage run` may not take descriptors, because they changed their user or are not dumpable;
 * - processes that outlive `farpage run`.
 *
 * If a maker executes another program, `farpage run` notices this when that program ends or starts a pager.
 *
 * Threads: one.
 */
#ifndef CLI_RUN_WATCH_H
#define CLI_RUN_WATCH_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_WATCH_MAX 128

struct run_watch {
	int told, tell; /* a pipe for the reports of processes */
	char path[32];  /* of `tell`, for other processes */
	unsigned count;
	struct watched {
		pid_t pid;
		int pidfd; /* -1 if the process has ended and its memory lives on */
		int uffd;  /* a copy of the process's userfaultfd */
		uintptr_t base;
		uint64_t length;
	} pagers[RUN_WATCH_MAX];
};

/* Opens @ret_watch. Returns 0 or -errno. */
int run_watch_open(struct run_watch *ret_watch);
void run_watch_close(struct run_watch *watch);
/* Watches until @fd is readable, and returns true. With @for_sharers it returns false as soon as no process has
   memory whose pager has ended. */
bool run_watch_wait(struct run_watch *watch, int fd, bool for_sharers);

#endif

/*
 * run_watch: what becomes of processes that share the memory of another one, whose pager has ended with it.
 *
 * Theory of operation. A vfork child, or another process made with CLONE_VM, lives in its maker's memory. When the
 * maker ends, its pager ends, but that memory does not: far pages never come any more. So each process that starts a
 * pager tells `farpage run` (struct report_pager), which takes a copy of its userfaultfd and waits for its end. If the
 * memory still exists then, whoever asks for a page of it is killed, and one line says so; a process that needs none
 * lives on. Without that copy such a process would hang for ever, or read zeroes.
 *
 * One thread. Not covered: processes that `farpage run` may not take descriptors from (they changed their user, or are
 * not dumpable), and those that live on when it has ended. A maker that executes another program is noticed when that
 * program ends, or starts a pager.
 */
#ifndef CLI_RUN_WATCH_H
#define CLI_RUN_WATCH_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_WATCH_MAX 128

struct run_watch {
	int told, tell; /* a pipe: what processes tell */
	char path[32];  /* of `tell`, for other processes */
	unsigned count;
	struct watched {
		pid_t pid;
		int pidfd; /* -1: the process has ended, and its memory lives on */
		int uffd;  /* a copy */
		uintptr_t base;
		uint64_t length;
	} pagers[RUN_WATCH_MAX];
};

/* -errno. */
int run_watch_open(struct run_watch *ret_watch);
void run_watch_close(struct run_watch *watch);
/* Watches until @fd is readable, and returns true; or, @for_sharers, until no process has memory whose pager has ended,
   and returns false. */
bool run_watch_wait(struct run_watch *watch, int fd, bool for_sharers);

#endif

/*
 * run_watch: kills processes that wait for a page of a pager that has ended, because they would wait for ever.
 *
 * Theory of operation. A vfork child, or another process made with CLONE_VM, shares its parent's memory. When the
 * parent ends, its pager ends, too. But the memory remains while the child uses it, and nobody can bring the far pages
 * of this memory back. So each process that starts a pager reports to `farpage run` (struct report_pager). `farpage
 * run` copies the process's userfaultfd and waits for the process's end.
 *
 * If the memory still exists after the process's end, the copied userfaultfd reports each fault on a far page. `farpage
 * run` then kills the faulting process and logs one line. A process that touches no far page continues. Without the
 * copy, a faulting process would hang for ever, or read zeroes.
 *
 * Not covered:
 * - processes whose userfaultfd `farpage run` may not copy, because they changed their user or are not dumpable;
 * - processes that outlive `farpage run`.
 *
 * Processes of another PID namespace are not killed, because the userfaultfd names them by PIDs of that namespace. They
 * wait, and a line says so.
 *
 * If the parent executes another program, its pager ends as well. `farpage run` notices this only when that program
 * ends or starts a pager.
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
	int told, tell; /* a pipe: processes write their reports to `tell` */
	char path[32];  /* the path of `tell`, for other processes */
	unsigned count;
	struct watched {
		pid_t pid;
		int pidfd;    /* -1 if the process has ended and its memory still exists */
		int uffd;     /* a copy of the process's userfaultfd */
		bool foreign; /* of another PID namespace than this process: `uffd` names threads by PIDs of that one */
		uintptr_t base;
		uint64_t length;
	} pagers[RUN_WATCH_MAX];
};

/* Opens @ret_watch. Returns 0 or -errno. */
int run_watch_open(struct run_watch *ret_watch);
void run_watch_close(struct run_watch *watch);
/* Watches until @fd is readable, and returns true. With @for_sharers it returns false as soon as no process uses
   memory whose pager has ended. */
bool run_watch_wait(struct run_watch *watch, int fd, bool for_sharers);

#endif

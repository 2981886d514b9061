/* bench_apart: see bench_apart.h. */
#include "cli/bench/bench_apart.h"

#include "cli/bench/bench_interrupt.h"
#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void *bench_apart_alloc(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Waits until @child has ended. Does not only call waitpid(), because ThreadSanitizer runs no signal handlers in it. */
static void child_wait_end(pid_t child)
{
	struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};

	while (ended.fd >= 0 && poll(&ended, 1, -1) < 0 && errno == EINTR)
		;
	if (ended.fd >= 0)
		close(ended.fd);
}

int bench_apart_run(int (*step)(void *context), void *context)
{
	pid_t parent = getpid(), child = fork();
	int status;

	if (child < 0) {
		log_error("cannot start a process: %s", strerror(errno));
		return -EAGAIN;
	}
	if (child == 0) {
		bench_interrupt_leave();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exit(getppid() == parent ? -step(context) : EINTR);
	}
	child_wait_end(child);
	if (waitpid(child, &status, 0) != child || WIFSIGNALED(status)) {
		bench_progress_erase();
		return -EIO;
	}
	return -WEXITSTATUS(status);
}

#include "pager/preload/report.h"

#include "common/log.h"
#include "pager/preload/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct report *claimed;
static pid_t outer_pid; /* this process's PID in the PID namespace of `farpage run` */

/* Returns true if this process has the PID namespace @pids, or if @pids is NULL. */
static bool has_pids(const char *pids)
{
	char own[32] = "";

	return !pids || (readlink("/proc/self/ns/pid", own, sizeof own - 1) > 0 && strcmp(own, pids) == 0);
}

/* Returns this process's PID in the PID namespace of /proc, or in its own if there is no /proc. */
static pid_t pid_of_proc(void)
{
	char text[16];
	ssize_t length = readlink("/proc/self", text, sizeof text);
	pid_t pid = 0;

	for (ssize_t i = 0; i < length; i++)
		pid = pid * 10 + text[i] - '0';
	return pid ? pid : getpid();
}

/* Ends the slot of the program that this process was before it executed the present one. */
static void end_earlier(struct report *report)
{
	for (unsigned i = 0; i < REPORT_SLOTS; i++) {
		int32_t pid = outer_pid;

		__atomic_compare_exchange_n(&report->slots[i].pid, &pid, REPORT_ENDED, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED);
	}
}

struct pager_counters *report_claim(const char *path, const char *pids)
{
	struct stat status;

	if (!path)
		return NULL;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		/* Otherwise `farpage run` has ended. */
		if (errno == EACCES || !has_pids(pids))
			log_warning("process %d may not report to farpage run, because it has another user, fewer "
				    "rights or namespaces of its own: the summary does not count its memory",
				    getpid());
		return NULL;
	}
	struct report *report = MAP_FAILED;
	if (!fstat(fd, &status) && (size_t)status.st_size == sizeof *report)
		report = kernel_mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (report == MAP_FAILED)
		return NULL;
	if (report->magic != REPORT_MAGIC) {
		kernel_munmap(report, sizeof *report);
		return NULL;
	}
	claimed = report;
	outer_pid = pid_of_proc();
	end_earlier(report);
	for (unsigned i = 0; i < REPORT_SLOTS; i++) {
		int32_t free_slot = 0;

		if (__atomic_compare_exchange_n(&report->slots[i].pid, &free_slot, outer_pid, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return &report->slots[i].counters;
	}
	log_warning("process %d does not report to farpage run, because %d others do: the summary does not count its "
		    "memory",
		    getpid(), REPORT_SLOTS);
	return NULL;
}

void report_pager(int uffd, const struct window *window)
{
	const struct report_pager pager = {outer_pid, uffd, (uintptr_t)window->base, window->length};
	int fd = claimed ? open(claimed->told, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	if (write(fd, &pager, sizeof pager) < 0) {
		/* The pipe is full, because `farpage run` is stopped and many other processes have started a pager.
		   `farpage run` then does not know this pager. */
	}
	close(fd);
}

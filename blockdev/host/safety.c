#include "blockdev/host/safety.h"

#include "blockdev/daemon/lines.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define STACK_BYTES ((size_t)512 << 10) /* per thread; a thread needs little */
#define HEAP_AHEAD (1 << 20)            /* malloc extends its heap by this many bytes */
#define MAPPED_APART (8 << 20)          /* larger blocks are mappings of their own */
/* Larger mappings are not touched here. Such mappings are a store's tables or a front end's buffers, and their owners
   touch the used parts. */
#define TOUCHED_MAX ((uint64_t)16 << 20)

static const char *const names[] = {
    [SAFETY_LOCKED] = "locked",   [SAFETY_IO_FLUSHER] = "io_flusher", [SAFETY_OOM_EXEMPT] = "oom_exempt",
    [SAFETY_TOUCHED] = "touched", [SAFETY_REALTIME] = "realtime",
};
_Static_assert(sizeof names / sizeof names[0] == SAFETY_STEPS, "a name for each step");

static const char *const consequences[] = {
    [SAFETY_LOCKED] =
	"memory cannot be locked (needs CAP_IPC_LOCK or LimitMEMLOCK=infinity), and may itself be swapped",
    [SAFETY_IO_FLUSHER] =
	"PR_SET_IO_FLUSHER is refused (needs CAP_SYS_RESOURCE, Linux 5.6), and swapping may wait for itself",
    [SAFETY_OOM_EXEMPT] =
	"oom_score_adj is refused (needs CAP_SYS_RESOURCE), and the OOM killer may choose this daemon",
    [SAFETY_TOUCHED] = "not all of the daemon is in memory, and it may wait for its own code",
    [SAFETY_REALTIME] =
	"a real-time policy is refused (needs CAP_SYS_NICE), and without free memory it may wait for itself",
};
_Static_assert(sizeof consequences / sizeof consequences[0] == SAFETY_STEPS, "a line for each step");

/* For each step: 0, or the errno with which the kernel refused the step. Belongs to the main thread. */
static int errors[SAFETY_STEPS] = {
    [SAFETY_LOCKED] = EAGAIN,  [SAFETY_IO_FLUSHER] = EAGAIN, [SAFETY_OOM_EXEMPT] = EAGAIN,
    [SAFETY_TOUCHED] = EAGAIN, [SAFETY_REALTIME] = EAGAIN,
};
static bool realtime_wanted;

const char *safety_step_name(enum safety_step step)
{
	return names[step];
}

unsigned safety_steps(void)
{
	unsigned steps = 0;

	for (unsigned i = 0; i < SAFETY_STEPS; i++)
		steps |= (unsigned)!errors[i] << i;
	return steps;
}

bool safety_wants(enum safety_step step)
{
	return step != SAFETY_REALTIME || realtime_wanted;
}

void safety_tell(void)
{
	for (unsigned i = 0; i < SAFETY_STEPS; i++)
		if (errors[i] && safety_wants((enum safety_step)i))
			log_warning("not safe to swap to: %s: %s", consequences[i], strerror(errors[i]));
}

/* --- Before threads are started --------------------------------------------------------------------------- */

static void malloc_settle(void)
{
	/* One arena, which grows in large pieces and never shrinks. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TOP_PAD, HEAP_AHEAD);
	mallopt(M_TRIM_THRESHOLD, INT32_MAX);
	mallopt(M_MMAP_THRESHOLD, MAPPED_APART);
}

static void stacks_settle(void)
{
	pthread_attr_t attributes;

	if (pthread_attr_init(&attributes) != 0)
		return;
	if (pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0)
		pthread_setattr_default_np(&attributes);
	pthread_attr_destroy(&attributes);
}

/* Touches the part of the main thread's stack that will be used. */
__attribute__((noinline)) static void stack_touch(void)
{
	char below[128 << 10];

	explicit_bzero(below, sizeof below);
}

static int memory_lock(void)
{
	const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};

	/* If setrlimit() fails, mlockall() shows whether the old limit is enough. */
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	if (mlockall(MCL_CURRENT) < 0 || mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0)
		return errno;
	return 0;
}

static int oom_exempt(void)
{
	static const char least[] = "-1000";
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return errno;
	if (write(fd, least, sizeof least - 1) < 0)
		error = errno;
	close(fd);
	return error;
}

/* Uses the lowest real-time priority: above all programs, below the machine's own real-time tasks. */
static int realtime_begin(void)
{
	struct sched_param parameters = {.sched_priority = sched_get_priority_min(SCHED_RR)};

	return sched_setscheduler(0, SCHED_RR, &parameters) < 0 ? errno : 0;
}

unsigned safety_spin_us(unsigned us, bool realtime)
{
	return realtime && sysconf(_SC_NPROCESSORS_ONLN) < 2 ? 0 : us;
}

void safety_start(bool realtime)
{
	realtime_wanted = realtime;
	if (realtime)
		errors[SAFETY_REALTIME] = realtime_begin();
	malloc_settle();
	stacks_settle();
	errors[SAFETY_LOCKED] = memory_lock();
	errors[SAFETY_IO_FLUSHER] = prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) < 0 ? errno : 0;
	errors[SAFETY_OOM_EXEMPT] = oom_exempt();
	stack_touch();
}

/* --- When all threads run --------------------------------------------------------------------------------- */

struct mapping {
	unsigned long begin, end;
	char access[5];
};

/* Reads the next line, like "7f00-7f01 rw-p ...". Returns false at the end. */
static bool mapping_next(struct lines *maps, struct mapping *mapping)
{
	char line[LINES_MAX];

	return lines_next(maps, line) &&
	       sscanf(line, "%lx-%lx %4s", &mapping->begin, &mapping->end, mapping->access) == 3;
}

static int mapping_touch(const struct mapping *mapping)
{
	size_t length = mapping->end - mapping->begin;
	int advice;

	if (length > TOUCHED_MAX || mapping->access[0] != 'r')
		return 0;
	advice = mapping->access[1] == 'w' ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
	if (madvise((void *)(uintptr_t)mapping->begin, length, advice) == 0)
		return 0;
	/* Other errors come from mappings of devices (rings, registers), which need not be touched. */
	return errno == ENOMEM ? ENOMEM : 0;
}

void safety_settle(void)
{
	struct mapping mapping;
	struct lines maps;
	int error = -lines_open(&maps, "/proc/self/maps"), failed;

	while (mapping_next(&maps, &mapping)) {
		failed = mapping_touch(&mapping);
		if (failed)
			error = failed;
	}
	lines_close(&maps);
	errors[SAFETY_TOUCHED] = error;
}

void safety_log(void)
{
	int fd = open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

	if (fd < 0) { /* fails for a socket, such as the journal's, which no other process shares */
		fcntl(STDERR_FILENO, F_SETFL, fcntl(STDERR_FILENO, F_GETFL) | O_NONBLOCK);
		return;
	}
	dup2(fd, STDERR_FILENO);
	close(fd);
}

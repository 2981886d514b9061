/* Unit tests of blockdev/safety: the steps that safety_steps() reports, compared with what the kernel says. */
#include "blockdev/host/safety.h"
#include "common/log.h"
#include "tests/lib/sanitizers.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRESH_BYTES ((size_t)4 << 20)

/* Returns the value of the field @name of /proc/self/status, such as 1234 for "VmLck:  1234 kB". Returns -1 if
   there is no such field. */
static long status_of(const char *name)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	long value = -1;

	while (file && value < 0 && fgets(line, sizeof line, file))
		if (!strncmp(line, name, strlen(name)))
			value = atol(line + strlen(name) + 1);
	if (file)
		fclose(file);
	return value;
}

static long oom_score(void)
{
	FILE *file = fopen("/proc/self/oom_score_adj", "r");
	long value = 0;

	if (!file || fscanf(file, "%ld", &value) != 1)
		value = -9999;
	if (file)
		fclose(file);
	return value;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

static void *idle(void *argument)
{
	pthread_barrier_wait(argument);
	pthread_barrier_wait(argument);
	return NULL;
}

static void *use_stack(void *argument)
{
	pthread_barrier_t *barrier = argument;
	volatile char below[64 << 10];
	static long counted;
	long before;

	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier); /* waits until safety_settle() has run */
	before = faults();
	for (size_t i = 0; i < sizeof below; i += 1024)
		below[i] = 1;
	counted = faults() - before;
	return &counted;
}

/* Returns true under a sanitizer, where mlockall(2) does nothing. */
static bool is_sanitized(void)
{
	return UNDER_ASAN || UNDER_TSAN;
}

static void the_steps_are_what_the_kernel_says(void)
{
	unsigned steps;

	safety_start(false);
	steps = safety_steps();
	ok(!(steps & 1u << SAFETY_TOUCHED), "safety_start() does not report that memory is touched");
	if (is_sanitized())
		tap_skip("memory is locked if safety_steps() says so", "sanitizers make mlockall(2) do nothing");
	else
		ok((steps & 1u << SAFETY_LOCKED ? status_of("VmLck:") > 1000 : status_of("VmLck:") >= 0),
		   "memory is locked if safety_steps() says so");
	ok((prctl(58 /* PR_GET_IO_FLUSHER */, 0, 0, 0, 0) == 1) == !!(steps & 1u << SAFETY_IO_FLUSHER),
	   "the process is an I/O flusher exactly if safety_steps() says so");
	ok((oom_score() == -1000) == !!(steps & 1u << SAFETY_OOM_EXEMPT),
	   "the OOM score is -1000 exactly if safety_steps() says so");
}

static void *policy_of(void *argument)
{
	(void)argument;
	return (void *)(intptr_t)sched_getscheduler(0);
}

/* Runs in a child, because a real-time policy stays. */
static void a_real_time_policy_is_inherited(void)
{
	pid_t child = fork();
	int status = 1;

	if (child == 0) {
		pthread_t thread;
		void *policy = NULL;
		bool taken, before = safety_wants(SAFETY_REALTIME);

		safety_start(true);
		taken = safety_steps() & 1u << SAFETY_REALTIME;
		pthread_create(&thread, NULL, policy_of, NULL);
		pthread_join(thread, &policy);
		_exit(!before && safety_wants(SAFETY_REALTIME) && taken == (sched_getscheduler(0) == SCHED_RR) &&
			      taken == ((intptr_t)policy == SCHED_RR)
			  ? 0
			  : 1);
	}
	waitpid(child, &status, 0);
	ok(status == 0, "the process and its later threads are real-time exactly if safety_steps() says so");
	ok(safety_wants(SAFETY_LOCKED) && !safety_wants(SAFETY_REALTIME),
	   "safety_wants() is false only for a real-time policy that was not asked for");
	ok(safety_spin_us(50, false) == 50 && safety_spin_us(50, true) == (sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 50 : 0),
	   "a real-time daemon on a single processor does not poll");
}

static void settled_memory_does_not_fault(void)
{
	pthread_barrier_t barrier;
	pthread_t threads[2];
	void *counted, *fresh;

	pthread_barrier_init(&barrier, NULL, 3);
	pthread_create(&threads[0], NULL, use_stack, &barrier);
	pthread_create(&threads[1], NULL, idle, &barrier);
	pthread_barrier_wait(&barrier);
	fresh = mmap(NULL, FRESH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	safety_settle();
	ok(safety_steps() & 1u << SAFETY_TOUCHED, "safety_settle() reports that memory is touched");
	if (!is_sanitized()) {
		long before = faults();

		memset(fresh, 1, FRESH_BYTES);
		ok(faults() == before, "a 4 MiB mapping made before safety_settle() does not fault afterwards");
	}
	munmap(fresh, FRESH_BYTES);
	pthread_barrier_wait(&barrier);
	pthread_join(threads[1], NULL);
	pthread_join(threads[0], &counted);
	if (!is_sanitized())
		ok(*(long *)counted == 0, "a thread's stack does not fault after safety_settle()");
	pthread_barrier_destroy(&barrier);
}

/* This test would hang if a line waited for its reader. */
static void a_log_that_nobody_reads_does_not_block(void)
{
	int saved = dup(STDERR_FILENO), pipes[2], held = 0;

	if (pipe(pipes) < 0)
		exit(EXIT_FAILURE);
	dup2(pipes[1], STDERR_FILENO);
	safety_log();
	for (unsigned i = 0; i < 10000; i++)
		log_error("line %u", i);
	dup2(saved, STDERR_FILENO);
	ok(!ioctl(pipes[0], FIONREAD, &held) && held > 0 && held < 10000 * (int)sizeof "line 9999",
	   "log lines beyond what a pipe holds that nobody reads are dropped (%d bytes are kept)", held);
	close(saved);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	ok(!strcmp(safety_step_name(SAFETY_LOCKED), "locked"), "the name of the first step is \"locked\"");
	the_steps_are_what_the_kernel_says();
	a_real_time_policy_is_inherited();
	settled_memory_does_not_fault();
	a_log_that_nobody_reads_does_not_block();
	return tap_done();
}

/* Unit tests of blockdev/safety: what is set is asked of the kernel, in a process of its own. */
#include "blockdev/host/safety.h"
#include "common/log.h"
#include "tests/sanitizers.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRESH_BYTES ((size_t)4 << 20)

/* "VmLck:  1234 kB" of /proc/self/status; -1: no such line. */
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
	pthread_barrier_wait(barrier); /* settled */
	before = faults();
	for (size_t i = 0; i < sizeof below; i += 1024)
		below[i] = 1;
	counted = faults() - before;
	return &counted;
}

/* Sanitizers have no use for locked memory: mlockall(2) does nothing under them. */
static bool is_sanitized(void)
{
	return UNDER_ASAN || UNDER_TSAN;
}

static void test_steps(void)
{
	unsigned steps;

	safety_start(false);
	steps = safety_steps();
	ok(!(steps & 1u << SAFETY_TOUCHED), "nothing is settled yet");
	if (is_sanitized())
		tap_skip("memory is locked", "sanitizers make mlockall(2) do nothing");
	else
		ok((steps & 1u << SAFETY_LOCKED ? status_of("VmLck:") > 1000 : status_of("VmLck:") >= 0),
		   "memory is locked, or it says that it is not");
	ok((prctl(58 /* PR_GET_IO_FLUSHER */, 0, 0, 0, 0) == 1) == !!(steps & 1u << SAFETY_IO_FLUSHER),
	   "the I/O flusher is what it says");
	ok((oom_score() == -1000) == !!(steps & 1u << SAFETY_OOM_EXEMPT), "so is the OOM score");
}

static void *policy_of(void *argument)
{
	(void)argument;
	return (void *)(intptr_t)sched_getscheduler(0);
}

/* In a child, whose end it is. */
static void test_realtime(void)
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
	ok(status == 0, "in real time, threads that are started later as well, or it says that it is not");
	ok(safety_wants(SAFETY_LOCKED) && !safety_wants(SAFETY_REALTIME), "not asked for");
	ok(safety_spin_us(50, false) == 50 && safety_spin_us(50, true) == (sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 50 : 0),
	   "polling, but not where nobody else could run meanwhile");
}

static void test_settle(void)
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
	ok(safety_steps() & 1u << SAFETY_TOUCHED, "settled");
	if (!is_sanitized()) {
		long before = faults();

		memset(fresh, 1, FRESH_BYTES);
		ok(faults() == before, "a small mapping is there already");
	}
	munmap(fresh, FRESH_BYTES);
	pthread_barrier_wait(&barrier);
	pthread_join(threads[1], NULL);
	pthread_join(threads[0], &counted);
	if (!is_sanitized())
		ok(*(long *)counted == 0, "a thread's stack does not fault");
	pthread_barrier_destroy(&barrier);
}

/* Lines go to a pipe that nobody reads: they are lost, and nobody waits. */
static void test_log(void)
{
	int saved = dup(STDERR_FILENO), pipes[2];

	if (pipe(pipes) < 0)
		exit(EXIT_FAILURE);
	dup2(pipes[1], STDERR_FILENO);
	safety_log();
	for (unsigned i = 0; i < 10000; i++)
		log_error("line %u", i);
	dup2(saved, STDERR_FILENO);
	ok(true, "a log that nobody reads stops nobody");
	close(saved);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	ok(!strcmp(safety_step_name(SAFETY_LOCKED), "locked"), "steps have names");
	test_steps();
	test_realtime();
	test_settle();
	test_log();
	return tap_done();
}

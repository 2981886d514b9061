/* Unit tests of common/process. */
#include "common/clock.h"
#include "common/process.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void *sleep_for_ever(void *argument)
{
	(void)argument;
	for (;;)
		pause();
	return NULL;
}

/* Starts a child that runs @child. */
static pid_t start(void (*child)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		child();
		_exit(0);
	}
	return pid;
}

static void end_at_once(void)
{
}

static void leave_a_thread_behind(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, sleep_for_ever, NULL);
	pthread_exit(NULL);
}

/* Waits until the main thread of @pid has ended. */
static void wait_ended(pid_t pid)
{
	struct process process;

	while (process_look(pid, &process) == 0 && !process.ended)
		usleep(1000);
}

/* Computes until this process has used more user time than @before, at most for 10 s. */
static bool user_time_grows(uint64_t before)
{
	struct process process;
	volatile unsigned work = 0;

	for (uint64_t begin = clock_now(); clock_now() - begin < 10000000000;) {
		for (unsigned i = 0; i < 1000000; i++)
			work++;
		if (process_look(getpid(), &process) < 0)
			return false;
		if (process.user_ns > before)
			return true;
	}
	return false;
}

int main(void)
{
	struct process process;
	pid_t pid;

	ok(process_look(getpid(), &process) == 0 && !process.ended && process.threads >= 1,
	   "a process with one thread has not ended");
	ok(!process_has_ended(getpid()), "process_has_ended() is false for this process");
	ok(process.parent == getppid(), "a process has its parent");
	prctl(PR_SET_NAME, "a) R (b", 0, 0, 0);
	ok(user_time_grows(process.user_ns), "user time grows, although the name contains parentheses");

	pid = start(end_at_once);
	waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT); /* all its threads have ended */
	ok(process_look(pid, &process) == 0 && process.ended, "a process nobody has waited for is still listed");
	ok(process_has_ended(pid), "process_has_ended() is true for it");
	waitpid(pid, NULL, 0);
	ok(process_look(pid, &process) == -ESRCH, "a process that was waited for is not found");
	ok(process_has_ended(pid), "process_has_ended() is true for a process that is not found");

	ok(process_shares_namespace(getppid(), "pid") && process_shares_namespace(getpid(), "user"),
	   "this process and its parent share their namespaces");
	ok(!process_shares_namespace(pid, "pid"), "a process that is not found shares no namespace");
	ok(process_shares_namespace(getpid(), "nosuch"), "processes share namespaces that the kernel does not have");

	pid = start(leave_a_thread_behind);
	wait_ended(pid);
	ok(process_look(pid, &process) == 0 && process.ended && process.threads >= 2,
	   "the main thread has ended, another thread runs");
	ok(!process_has_ended(pid), "process_has_ended() is false while another thread runs");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return tap_done();
}

/*
 * run_child: see run_child.h.
 *
 * Theory of operation. The parent blocks all signals it handles and takes them one by one with sigwaitinfo. What a
 * terminal sends (SI_KERNEL) has gone to the whole foreground group, the child included, and is not passed on; what
 * somebody sent to this process alone is. When the child stops, the parent stops too, so that the shell's job control
 * sees one job.
 */
#include "cli/run_child.h"
#include "cli/run_program.h"
#include "common/log.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP, SIGWINCH};

static void __attribute__((noreturn)) become(const char *path, char **argv, const sigset_t *mask, int failure)
{
	sigprocmask(SIG_SETMASK, mask, NULL);
	execv(path, argv);
	int error = errno;
	while (write(failure, &error, sizeof error) < 0 && errno == EINTR)
		;
	_exit(RUN_FAILED);
}

/* What execv said in the child; 0 when it went well. */
static int read_failure(int fd)
{
	int error = 0;
	ssize_t got;
	while ((got = read(fd, &error, sizeof error)) < 0 && errno == EINTR)
		;
	return got == (ssize_t)sizeof error ? error : 0;
}

/* True when the child has ended. */
static bool reap(pid_t child, int *ret_wait_status)
{
	int status;
	while (waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
		if (!WIFSTOPPED(status)) {
			*ret_wait_status = status;
			return true;
		}
		raise(SIGSTOP);
		kill(child, SIGCONT);
	}
	return false;
}

static int follow(pid_t child, const sigset_t *signals)
{
	int wait_status = 0;
	while (!reap(child, &wait_status)) {
		siginfo_t info;
		int number = sigwaitinfo(signals, &info);
		if (number < 0 || number == SIGCHLD || info.si_code == SI_KERNEL)
			continue;
		kill(child, number);
	}
	return wait_status;
}

int run_child(const char *path, char **argv, int *ret_wait_status)
{
	sigset_t signals, before;
	int pipe_fds[2];
	if (pipe2(pipe_fds, O_CLOEXEC)) {
		log_error("cannot make a pipe: %s", strerror(errno));
		return RUN_FAILED;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	for (unsigned i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++)
		sigaddset(&signals, passed_on[i]);
	signal(SIGCHLD, SIG_DFL); /* ignored, it would take the status away */
	sigprocmask(SIG_BLOCK, &signals, &before);
	pid_t child = fork();
	if (child == 0)
		become(path, argv, &before, pipe_fds[1]);
	int error = child < 0 ? errno : 0;
	close(pipe_fds[1]);
	if (child > 0) {
		error = read_failure(pipe_fds[0]);
		*ret_wait_status = follow(child, &signals);
	}
	close(pipe_fds[0]);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (!error)
		return 0;
	log_error("cannot run %s: %s", path, strerror(error));
	return child < 0 ? RUN_FAILED : error == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
}

int run_child_imitate(int wait_status)
{
	if (WIFEXITED(wait_status))
		return WEXITSTATUS(wait_status);
	int number = WTERMSIG(wait_status);
	const struct rlimit none = {0, 0};
	sigset_t only;
	setrlimit(RLIMIT_CORE, &none);
	signal(number, SIG_DFL);
	sigemptyset(&only);
	sigaddset(&only, number);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
	return 128 + number;
}

/*
 * run_child: see run_child.h.
 *
 * Theory of operation. The parent blocks all signals that it handles, and reads them one by one from a signalfd. A
 * signal that was sent to the parent alone is passed on to the child. A signal from the terminal (SI_KERNEL) is not
 * passed on, because the terminal has sent it to the whole foreground group, including the child. SIGKILL cannot be
 * handled. If the parent is killed, the kernel sends SIGKILL to the child (PR_SET_PDEATHSIG).
 *
 * Job control. If the child stops because of the terminal, or of a signal that was passed on to it, the parent stops,
 * too. So the shell sees one stopped job. If somebody stops only the child, with SIGSTOP, the parent continues.
 */
#include "cli/run/run_child.h"

#include "cli/run/run_program.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP, SIGWINCH};

static void __attribute__((noreturn)) become(const char *path, char **argv, const struct run_attendant *attendant,
					     pid_t parent, const sigset_t *mask, int failure)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(RUN_FAILED);
	sigprocmask(SIG_SETMASK, mask, NULL);
	int error = attendant->enter ? -attendant->enter(attendant->engine) : 0;
	if (!error) {
		execv(path, argv);
		error = errno;
	}
	while (write(failure, &error, sizeof error) < 0 && errno == EINTR)
		;
	_exit(RUN_FAILED);
}

/* Returns the error of execv() or enter() in the child, or 0 if both succeeded. */
static int read_failure(int fd)
{
	int error = 0;
	ssize_t got;

	while ((got = read(fd, &error, sizeof error)) < 0 && errno == EINTR)
		;
	return got == (ssize_t)sizeof error ? error : 0;
}

static bool has_terminal(void)
{
	int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (terminal >= 0)
		close(terminal);
	return terminal >= 0;
}

/* Returns true if this process must stop, too, because the child was stopped by signal @number. @asked means that
   this process has passed a stop signal on to the child. */
static bool stops_job(int number, bool asked)
{
	return (number == SIGTSTP || number == SIGTTIN || number == SIGTTOU) && (asked || has_terminal());
}

/* Handles the child's changes of state. Returns true if the child has ended. */
static bool reap(pid_t child, bool *asked, int *ret_wait_status)
{
	int status;

	while (waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
		if (!WIFSTOPPED(status)) {
			*ret_wait_status = status;
			return true;
		}
		if (!stops_job(WSTOPSIG(status), *asked))
			continue;
		*asked = false;
		raise(SIGSTOP);
		kill(child, SIGCONT);
	}
	return false;
}

/* Returns the next signal, or 0 if there is none. *@ret_by_terminal tells if the terminal sent the signal. */
static int take_signal(int signals, bool *ret_by_terminal)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof info) != (ssize_t)sizeof info)
		return 0;
	*ret_by_terminal = info.ssi_code == SI_KERNEL;
	return (int)info.ssi_signo;
}

/* An epoll descriptor. It becomes readable when a signal is pending, or when the engine's look() must be called (struct
   run_attendant). */
struct wake {
	int fd, timer;
};

/* Opens @ret_wake. Without a timer, only signals wake this process. Returns 0 or -errno. In both cases the caller calls
   wake_close(). */
static int wake_open(int signals, unsigned look_ms, struct wake *ret_wake)
{
	const struct timespec pause = {.tv_nsec = look_ms * 1000000l};
	struct epoll_event event = {.events = EPOLLIN};

	*ret_wake = (struct wake){.fd = epoll_create1(EPOLL_CLOEXEC),
				  .timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
	if (ret_wake->fd < 0 || epoll_ctl(ret_wake->fd, EPOLL_CTL_ADD, signals, &event))
		return -errno;
	if (ret_wake->timer >= 0 && !timerfd_settime(ret_wake->timer, 0, &(struct itimerspec){pause, pause}, NULL))
		epoll_ctl(ret_wake->fd, EPOLL_CTL_ADD, ret_wake->timer, &event);
	return 0;
}

static void wake_close(const struct wake *wake)
{
	if (wake->timer >= 0)
		close(wake->timer);
	if (wake->fd >= 0)
		close(wake->fd);
}

static bool is_time_to_look(const struct wake *wake)
{
	uint64_t times;

	return read(wake->timer, &times, sizeof times) == (ssize_t)sizeof times;
}

static int follow(pid_t child, int signals, const struct wake *wake, const struct run_attendant *attendant)
{
	int wait_status = 0;
	bool asked = false;

	while (!reap(child, &asked, &wait_status)) {
		bool by_terminal = false;

		attendant->wait(attendant->engine, wake->fd, false);
		if (is_time_to_look(wake))
			attendant->look(attendant->engine, child);
		int number = take_signal(signals, &by_terminal);
		if (number == 0 || number == SIGCHLD || by_terminal)
			continue;
		asked = number == SIGTSTP || (asked && number != SIGCONT);
		kill(child, number);
	}
	return wait_status;
}

/* Waits while other processes of the command need this process, or until a signal to end is pending. */
static void await_rest(int signals, const struct run_attendant *attendant)
{
	int number = 0;

	while (number != SIGINT && number != SIGTERM && number != SIGHUP && number != SIGQUIT) {
		bool by_terminal;

		if (!attendant->wait(attendant->engine, signals, true))
			break;
		number = take_signal(signals, &by_terminal);
	}
}

int run_child(const char *path, char **argv, const struct run_attendant *attendant, int *ret_wait_status)
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
	signal(SIGCHLD, SIG_DFL); /* if SIGCHLD were ignored, the child's status would be lost */
	sigprocmask(SIG_BLOCK, &signals, &before);
	int signals_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	struct wake wake = {-1, -1};
	bool awake = signals_fd >= 0 && !wake_open(signals_fd, attendant->look_ms, &wake);
	pid_t self = getpid(), child = awake ? fork() : -1;
	if (child == 0)
		become(path, argv, attendant, self, &before, pipe_fds[1]);
	int error = child < 0 ? errno : 0;
	close(pipe_fds[1]);
	if (child > 0) {
		error = read_failure(pipe_fds[0]);
		*ret_wait_status = follow(child, signals_fd, &wake, attendant);
		await_rest(signals_fd, attendant);
	}
	wake_close(&wake);
	if (signals_fd >= 0)
		close(signals_fd);
	close(pipe_fds[0]);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (!error)
		return 0;
	if (error == ECANCELED)
		return RUN_FAILED;
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

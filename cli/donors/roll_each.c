/* roll_each: see roll_each.h. */
#include "cli/donors/roll_each.h"

#include "common/format.h"
#include "common/log.h"
#include "common/uri.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns true if this process is in the foreground of its terminal. */
static bool is_foreground(void)
{
	int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
	bool foreground = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();

	if (terminal >= 0)
		close(terminal);
	return foreground;
}

static void environment_set(const char *donor)
{
	struct uri uri;

	setenv("FARPAGE_DONOR", donor, 1);
	setenv("FARPAGE_DONOR_HOST", uri_parse(donor, 0, &uri) == 0 ? uri.host : "", 1);
}

static void __attribute__((noreturn)) become(const struct roll_each *each, bool apart)
{
	if (apart)
		setpgid(0, 0);
	if (each->to_stderr)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &each->mask, NULL);
	execl("/bin/sh", "sh", "-c", each->command, (char *)NULL);
	_exit(127);
}

/* Waits for the child's end, and passes signals on. SIGCHLD is blocked. */
static int follow(const struct roll_each *each, pid_t child, bool apart, int *ret_signal)
{
	sigset_t wanted = each->stops;
	siginfo_t info;
	int wait_status;

	sigaddset(&wanted, SIGCHLD);
	while (waitpid(child, &wait_status, WNOHANG) == 0) {
		int number = sigwaitinfo(&wanted, &info);

		if (number < 0 || number == SIGCHLD)
			continue;
		*ret_signal = number;
		if (apart)
			kill(-child, number);
		else if (info.si_code != SI_KERNEL) /* the terminal has sent the signal to the child, too */
			kill(child, number);
	}
	return wait_status;
}

int roll_each_run(const struct roll_each *each, const char *uri, int *ret_wait_status, int *ret_signal)
{
	bool apart = !is_foreground();
	sigset_t ended;
	pid_t child;

	*ret_signal = 0;
	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	signal(SIGCHLD, SIG_DFL); /* if SIGCHLD were ignored, the child's status would be lost */
	sigprocmask(SIG_BLOCK, &ended, NULL);
	environment_set(uri);
	fflush(NULL);
	child = fork();
	if (child == 0)
		become(each, apart);
	if (child < 0) {
		int status = -errno;

		log_error("cannot start the command for %s: %s", uri, format_errno(status));
		return status;
	}
	if (apart)
		setpgid(child, child); /* the child calls this, too, but a signal may arrive before */
	*ret_wait_status = follow(each, child, apart, ret_signal);
	return 0;
}

int roll_each_status(int wait_status)
{
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

const char *roll_each_format(int wait_status, char text[ROLL_EACH_TEXT_MAX])
{
	if (WIFEXITED(wait_status))
		snprintf(text, ROLL_EACH_TEXT_MAX, "ended with status %d", WEXITSTATUS(wait_status));
	else
		snprintf(text, ROLL_EACH_TEXT_MAX, "was ended by signal %d", WTERMSIG(wait_status));
	return text;
}

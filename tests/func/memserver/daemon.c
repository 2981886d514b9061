/* daemon: see daemon.h. */
#include "tests/func/memserver/daemon.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOPBACK "tcp://127.0.0.1:"

static const char *program;

void daemon_program(const char *path)
{
	program = path;
}

void daemon_spawn(struct daemon *daemon, const char *const *arguments)
{
	int out[2], err[2];
	const char *argv[32] = {program};
	pid_t parent = getpid();

	memset(daemon, 0, sizeof *daemon);
	for (int i = 0; arguments[i] && i < 30; i++)
		argv[i + 1] = arguments[i];
	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
		abort();
	daemon->pid = fork();
	if (daemon->pid < 0)
		abort();
	if (!daemon->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(126);
		dup2(out[1], 1);
		dup2(err[1], 2);
		execv(program, (char *const *)argv);
		_exit(127);
	}
	close(out[1]);
	close(err[1]);
	daemon->out = out[0];
	daemon->err = err[0];
}

/* Appends what the pipe has to @text. Returns false at the end of the file. */
static bool pipe_read(int fd, char *text, size_t size)
{
	size_t length = strlen(text);
	ssize_t got;

	if (length + 1 >= size)
		return false;
	got = read(fd, text + length, size - 1 - length);
	if (got <= 0)
		return false;
	text[length + (size_t)got] = '\0';
	return true;
}

/*
 * Reads until the log has @text, or, if @text is NULL, until the output has a whole line. Returns false if both pipes
 * end or DAEMON_WAIT_MS pass first.
 */
static bool read_until(struct daemon *daemon, const char *text)
{
	uint64_t end = clock_now() + UINT64_C(1000000) * DAEMON_WAIT_MS;
	struct pollfd fds[2] = {{.fd = daemon->out, .events = POLLIN}, {.fd = daemon->err, .events = POLLIN}};

	for (;;) {
		uint64_t now = clock_now();

		if (text ? strstr(daemon->log, text) != NULL : strchr(daemon->output, '\n') != NULL)
			return true;
		if ((fds[0].fd < 0 && fds[1].fd < 0) || now >= end)
			return false;
		if (poll(fds, 2, (int)((end - now) / 1000000 + 1)) < 0 && errno != EINTR)
			return false;
		if (fds[0].revents && !pipe_read(daemon->out, daemon->output, sizeof daemon->output))
			fds[0].fd = -1;
		if (fds[1].revents && !pipe_read(daemon->err, daemon->log, sizeof daemon->log))
			fds[1].fd = -1;
	}
}

bool daemon_start_at(struct daemon *daemon, const char *uri, const char *const *arguments)
{
	const char *all[32] = {"--listen", uri, "--insecure"}, *port;
	int count = 3;

	if (!strncmp(uri, LOOPBACK, strlen(LOOPBACK)))
		count--; /* loopback needs no --insecure */
	for (int i = 0; arguments[i] && i < 28; i++)
		all[count++] = arguments[i];
	daemon_spawn(daemon, all);
	if (!read_until(daemon, NULL) ||
	    sscanf(daemon->output, "farpage-memserver: listening on %63s", daemon->uri) != 1 ||
	    !(port = strrchr(daemon->uri, ':'))) {
		printf("# the daemon did not start: %s%s\n", daemon->output, daemon->log);
		return false;
	}
	daemon->port = (uint16_t)strtoul(port + 1, NULL, 10);
	return true;
}

bool daemon_start(struct daemon *daemon, const char *const *arguments)
{
	const char *uri = getenv("FARPAGE_TEST_URI");

	return daemon_start_at(daemon, uri ? uri : LOOPBACK "0", arguments);
}

bool daemon_log_wait(struct daemon *daemon, const char *text)
{
	bool found = read_until(daemon, text);

	if (!found)
		printf("# not in the log: %s; the log:\n# %s\n", text, daemon->log);
	return found;
}

int daemon_wait(struct daemon *daemon)
{
	int status;

	read_until(daemon, "\x01"); /* The log never has this text, so this reads both pipes to their end. */
	if (waitpid(daemon->pid, &status, WNOHANG) == 0) {
		kill(daemon->pid, SIGKILL);
		waitpid(daemon->pid, &status, 0);
	}
	close(daemon->out);
	close(daemon->err);
	daemon->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int daemon_stop(struct daemon *daemon, int signal)
{
	kill(daemon->pid, signal);
	return daemon_wait(daemon);
}

unsigned daemon_times(const char *text, const char *word)
{
	unsigned count = 0;

	while ((text = strstr(text, word))) {
		text += strlen(word);
		count++;
	}
	return count;
}

unsigned daemon_log_lines(const struct daemon *daemon)
{
	return daemon_times(daemon->log, "\n");
}

/* donor: see donor.h. */
#include "tests/lib/donor.h"

#include "common/clock.h"
#include "tests/lib/text.h"
#include "tests/lib/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOPBACK "tcp://127.0.0.1:"
#define ARGUMENTS_MAX 32

void donor_spawn_list(struct donor_process *donor, const char *const *arguments)
{
	const char *argv[ARGUMENTS_MAX] = {getenv("FARPAGE_MEMSERVER")};
	pid_t parent = getpid();
	int out[2], err[2];

	if (!argv[0])
		tap_bail("FARPAGE_MEMSERVER names no program");
	for (int i = 0; arguments[i]; i++)
		argv[i + 1] = arguments[i];
	*donor = (struct donor_process){0};
	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
		abort();
	donor->pid = fork();
	if (donor->pid < 0)
		abort();
	if (!donor->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(126);
		dup2(out[1], 1);
		dup2(err[1], 2);
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(out[1]);
	close(err[1]);
	donor->out = out[0];
	donor->err = err[0];
}

/* Appends the bytes in the pipe to @text. Returns false at the end of the file. */
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
 * end or WAIT_MS pass first.
 */
static bool read_until(struct donor_process *donor, const char *text)
{
	uint64_t end = clock_now() + UINT64_C(1000000) * WAIT_MS;
	struct pollfd fds[2] = {{.fd = donor->out, .events = POLLIN}, {.fd = donor->err, .events = POLLIN}};

	for (;;) {
		uint64_t now = clock_now();

		if (text ? strstr(donor->log, text) != NULL : strchr(donor->output, '\n') != NULL)
			return true;
		if ((fds[0].fd < 0 && fds[1].fd < 0) || now >= end)
			return false;
		if (poll(fds, 2, (int)((end - now) / 1000000 + 1)) < 0 && errno != EINTR)
			return false;
		if (fds[0].revents && !pipe_read(donor->out, donor->output, sizeof donor->output))
			fds[0].fd = -1;
		if (fds[1].revents && !pipe_read(donor->err, donor->log, sizeof donor->log))
			fds[1].fd = -1;
	}
}

/* Keeps the arguments for donor_again(). */
static void arguments_keep(struct donor_process *donor, const char *const *arguments)
{
	size_t used = 0;

	for (int i = 0; arguments[i] && used < sizeof donor->arguments; i++)
		used +=
		    1 + (size_t)snprintf(donor->arguments + used, sizeof donor->arguments - used, "%s", arguments[i]);
	if (used >= sizeof donor->arguments)
		tap_bail("a donor has too many arguments");
}

void donor_start_list(struct donor_process *donor, const char *uri, const char *const *arguments)
{
	const char *all[ARGUMENTS_MAX] = {"--listen", NULL, "--insecure"}, *test_uri = getenv("FARPAGE_TEST_URI"),
		   *port;
	char address[sizeof donor->uri];
	int count = 3;

	/* Copies @uri, because it may be donor->uri itself. */
	snprintf(address, sizeof address, "%s", uri ? uri : test_uri ? test_uri : LOOPBACK "0");
	all[1] = address;
	if (!strncmp(address, LOOPBACK, strlen(LOOPBACK)))
		count--; /* loopback needs no --insecure */
	for (int i = 0; arguments[i] && count < ARGUMENTS_MAX - 2; i++)
		all[count++] = arguments[i];
	donor_spawn_list(donor, all);
	arguments_keep(donor, arguments);
	if (!read_until(donor, NULL) ||
	    sscanf(donor->output, "farpage-memserver: listening on %63s", donor->uri) != 1 ||
	    !(port = strrchr(donor->uri, ':')))
		tap_bail("a donor does not start: %s%s", donor->output, donor->log);
	donor->port = (uint16_t)strtoul(port + 1, NULL, 10);
}

void donor_again(struct donor_process *donor)
{
	char kept[sizeof donor->arguments];
	const char *arguments[ARGUMENTS_MAX] = {NULL};
	int count = 0;

	memcpy(kept, donor->arguments, sizeof kept);
	for (const char *at = kept; *at; at += strlen(at) + 1)
		arguments[count++] = at;
	donor_start_list(donor, donor->uri, arguments);
}

bool donor_log_wait(struct donor_process *donor, const char *text)
{
	bool found = read_until(donor, text);

	if (!found)
		printf("# not in the log: %s; the log:\n# %s\n", text, donor->log);
	return found;
}

int donor_wait(struct donor_process *donor)
{
	int status;

	read_until(donor, "\x01"); /* The log never has this text, so this reads both pipes to their end. */
	if (waitpid(donor->pid, &status, WNOHANG) == 0) {
		kill(donor->pid, SIGKILL);
		waitpid(donor->pid, &status, 0);
	}
	close(donor->out);
	close(donor->err);
	donor->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int donor_stop(struct donor_process *donor, int signal)
{
	kill(donor->pid, signal);
	return donor_wait(donor);
}

void donor_kill(struct donor_process *donor)
{
	donor_stop(donor, SIGKILL);
}

void donor_end(struct donor_process *donor)
{
	int status = donor_stop(donor, SIGTERM);

	if (!ok(status == 0, "the donor at %s ends with status 0 after SIGTERM", donor->uri))
		printf("# status %d, log: %s\n", status, donor->log);
}

unsigned donor_log_lines(const struct donor_process *donor)
{
	return text_times(donor->log, "\n");
}

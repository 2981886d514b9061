/* stall: one source of stalls is as good as two, and which one is missing is said. */
#include "common/log.h"
#include "memserver/stall.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static int machine_error, group_error; /* why the source cannot be opened; 0: it can */
static int log_read;

/* Triggers are set here; with 64-bit offsets open() is this one. In place of a source there is one that is silent. */
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	const bool machine = !strcmp(path, "/proc/pressure/memory"), group = strstr(path, "/memory.pressure");
	va_list rest;
	int mode;

	va_start(rest, flags);
	mode = flags & O_CREAT ? va_arg(rest, int) : 0;
	va_end(rest);
	if (!machine && !group)
		return __real_open64(path, flags, mode);
	errno = machine ? machine_error : group_error;
	return errno ? -1 : __real_open64("/dev/null", flags);
}

/* Of control groups of version 2; without, the group's source is never opened. */
static bool has_group(void)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[4096];
	bool found = false;

	while (file && !found && fgets(line, sizeof line, file))
		found = !strncmp(line, "0::", 3);
	if (file)
		fclose(file);
	return found;
}

/* Opens and closes it with these errors; what was logged. */
static const char *log_of(int machine, int group, int *ret_status)
{
	static char text[1024];
	struct stall *stall = NULL;
	ssize_t length;

	machine_error = machine;
	group_error = group;
	*ret_status = stall_open(&stall);
	stall_close(stall);
	length = read(log_read, text, sizeof text - 1);
	text[length > 0 ? length : 0] = '\0';
	return text;
}

static void test_both(void)
{
	int status;
	const char *text = log_of(0, 0, &status);

	ok(!status && !*text, "both: nothing to say");
	text = log_of(EPERM, 0, &status);
	ok(!status && strstr(text, "/proc/pressure/memory") && strstr(text, strerror(EPERM)) &&
	       !strstr(text, "control group"),
	   "not the machine's: said, and why");
	text = log_of(0, EROFS, &status);
	ok(!status && strstr(text, strerror(EROFS)), "not the group's: why, whatever is at the other place for groups");
}

int main(void)
{
	int pipe_fds[2], status;
	const char *text;

	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return EXIT_FAILURE;
	log_read = pipe_fds[0];
	log_set_fd(pipe_fds[1]);
	log_setup("test", LOG_LEVEL_INFO);
	text = log_of(0, ENOENT, &status);
	ok(!status && strstr(text, "control group") && !strstr(text, "/proc/pressure"), "not the group's: said");
	text = log_of(EPERM, EROFS, &status);
	ok(status == -EPERM && !*text, "neither: an error, and it is the caller's to say so");
	if (has_group())
		test_both();
	else
		tap_skip("a group's own stalls", "no control groups of version 2 here");
	return tap_done();
}

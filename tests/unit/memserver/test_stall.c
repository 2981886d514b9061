/* stall: one source of stalls suffices, and a missing source is logged. */
#include "common/log.h"
#include "memserver/stall.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static int machine_error, group_error; /* errno of opening the source, or 0 if it can be opened */
static int log_read;

/*
 * Replaces open() in stall.c, which is open64() with 64-bit offsets and opens the triggers. A source that can be opened
 * is /dev/null here, which never reports a stall.
 */
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

/* Returns true if control groups of version 2 are in use. Without them, the group's source is never opened. */
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

/* Opens the sources with these errors, and closes them. Returns what was logged. */
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

static void a_missing_source_is_logged_with_the_reason(void)
{
	int status;
	const char *text = log_of(0, 0, &status);

	ok(!status && !*text, "two working sources log nothing");
	text = log_of(EPERM, 0, &status);
	ok(!status && strstr(text, "/proc/pressure/memory") && strstr(text, strerror(EPERM)) &&
	       !strstr(text, "control group"),
	   "a missing source of the machine is logged with the reason");
	text = log_of(0, EROFS, &status);
	ok(!status && strstr(text, strerror(EROFS)), "a missing source of the control group is logged with the reason");
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
	ok(!status && strstr(text, "control group") && !strstr(text, "/proc/pressure"),
	   "a missing source of the control group is logged, and no other");
	text = log_of(EPERM, EROFS, &status);
	ok(status == -EPERM && !*text, "two missing sources return the machine's error and log nothing");
	if (has_group())
		a_missing_source_is_logged_with_the_reason();
	else
		tap_skip("a missing source is logged with the reason", "no control groups of version 2 here");
	return tap_done();
}

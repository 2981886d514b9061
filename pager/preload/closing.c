/*
 * closing: close, close_range, closefrom, dup2 and dup3 for the program. They hide farpage's own descriptors
 * (descriptors.c) from the program:
 * - close() of such a descriptor fails with EBADF.
 * - close_range() and closefrom() skip such descriptors.
 * - dup2() and dup3() neither replace nor duplicate such descriptors.
 *
 * While the pager starts, it makes descriptors, and each is noted only some microseconds later. So close_range() and
 * closefrom() first wait until the start is over, at most as long as a thread that touches the window.
 *
 * In near threads, which run the code of farpage and its libraries, these functions close any descriptor. This file
 * does not intercept system calls that the program makes itself, such as syscall(SYS_close_range, ...).
 *
 * Any thread may call these functions, also in a signal handler and before any constructor. close() calls glibc's
 * __close(), so that it remains a cancellation point.
 */
#include "pager/preload/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1u << 2)
#endif

int __close(int fd);

static bool is_hidden(int fd)
{
	return !preload_near && descriptor_noted(fd);
}

static int no_such_descriptor(void)
{
	errno = EBADF;
	return -1;
}

PRELOAD_EXPORT int close(int fd)
{
	if (is_hidden(fd))
		return no_such_descriptor();
	if (preload_near)
		descriptor_forget(fd);
	return __close(fd);
}

static int kernel_close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

PRELOAD_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	uint64_t end = (uint64_t)last + 1;

	/* Calls of near threads and invalid calls go to the kernel unchanged. So do calls with CLOEXEC, because
	   farpage's descriptors are close-on-exec anyway. */
	if (flags & ~(int)CLOSE_RANGE_UNSHARE || first > last || preload_near)
		return kernel_close_range(first, last, flags);
	start_settle();
	for (uint64_t at = first; at < end;) {
		uint64_t noted = descriptors_find(at, end);

		if (noted > at && kernel_close_range((unsigned)at, (unsigned)(noted - 1), flags))
			return -1;
		at = noted + 1;
	}
	return 0;
}

PRELOAD_EXPORT void closefrom(int first)
{
	int before = errno;
	struct rlimit limit;

	if (first < 0)
		first = 0;
	if (close_range((unsigned)first, UINT_MAX, 0) && !getrlimit(RLIMIT_NOFILE, &limit)) {
		/* Linux before 5.9 has no close_range(). The numbers of open descriptors are below the limit, unless
		   the program has lowered the limit. */
		rlim_t end = limit.rlim_cur < INT_MAX ? limit.rlim_cur : INT_MAX;

		for (rlim_t fd = (rlim_t)first; fd < end; fd++)
			close((int)fd);
	}
	errno = before;
}

PRELOAD_EXPORT int dup3(int from, int to, int flags)
{
	if (is_hidden(from) || is_hidden(to))
		return no_such_descriptor();
	return (int)syscall(SYS_dup3, from, to, flags);
}

PRELOAD_EXPORT int dup2(int from, int to)
{
	if (from != to)
		return dup3(from, to, 0);
	if (is_hidden(from))
		return no_such_descriptor();
	return fcntl(from, F_GETFD) < 0 ? -1 : to;
}

/*
 * Programs that close what they did not open, and put files on numbers without asking what is there: their memory stays
 * what it was, and nobody else writes into their files.
 */
#include "tests/func/preload/victim.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#define FIRST 3
#define LAST 40

static size_t size, reach; /* bytes: all memory, and what a child touches */
static char *memory, *other;
static uint64_t seed;

static void fill_and_push_out(void)
{
	fill(memory, size, ++seed);
	fill(other, size, 99);
}

static bool memory_is_right(void)
{
	return !wrong(memory, size, seed, 0) && !wrong(other, size, 99, 0);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* --- Closing everything ----------------------------------------------------------------------------------------- */

/* Each says how many descriptors it closed, or -1 where that is not told. */
static int by_close_range(void)
{
	return close_range(FIRST, ~0U, 0) ? -2 : -1;
}

static int by_closefrom(void)
{
	closefrom(FIRST);
	return -1;
}

static int by_loop(void)
{
	struct rlimit limit;
	int closed = 0;
	getrlimit(RLIMIT_NOFILE, &limit);
	for (int fd = FIRST; fd < (int)limit.rlim_cur; fd++)
		closed += close(fd) == 0;
	return closed;
}

static void test_files_after(const char *name)
{
	int fd = memfd_create("after", MFD_CLOEXEC), again;
	ok(fd == FIRST, "%s: the numbers are the program's (%d)", name, fd);
	ok(write(fd, "after", 5) == 5, "%s: a file opened then", name);
	ok(close(fd) == 0, "%s: is closed", name);
	ok(close(fd) == -1 && errno == EBADF, "%s: once", name);
	again = memfd_create("again", MFD_CLOEXEC);
	ok(again == fd && close(again) == 0, "%s: and its number used again", name);
}

static void test_closing(const char *name, int (*close_all)(void))
{
	int before[2] = {memfd_create("before", 0), memfd_create("before", MFD_CLOEXEC)};
	fill_and_push_out();
	int closed = close_all();
	ok(closed == -1 || closed == 2, "%s: closes what the program had open (%d)", name, closed);
	ok(!is_open(before[0]) && !is_open(before[1]), "%s: and all of it", name);
	ok(memory_is_right(), "%s: memory is what it was", name);
	fill_and_push_out();
	ok(memory_is_right(), "%s: and goes on being", name);
	test_files_after(name);
}

static void *close_in_own_table(void *argument)
{
	int fd = *(int *)argument;
	return close_range(FIRST, ~0U, CLOSE_RANGE_UNSHARE) || is_open(fd) || !memory_is_right() ? argument : NULL;
}

static void test_own_table(void)
{
	int fd = memfd_create("file", MFD_CLOEXEC);
	pthread_t thread;
	void *result = &fd;
	fill_and_push_out();
	pthread_create(&thread, NULL, close_in_own_table, &fd);
	pthread_join(thread, &result);
	ok(!result, "a thread closes everything in a table of its own");
	ok(is_open(fd) && close(fd) == 0, "the others' files stay open");
	ok(memory_is_right(), "and memory what it was");
}

static void test_refused_ranges(void)
{
	int fd = memfd_create("file", 0);
	ok(close_range(5, 4, 0) == -1 && errno == EINVAL, "close_range of no range");
	ok(close_range(FIRST, ~0U, 1 << 20) == -1 && errno == EINVAL && is_open(fd), "close_range with unknown flags");
	ok(close_range(FIRST, ~0U, CLOSE_RANGE_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC,
	   "close_range that only marks");
	close(fd);
}

/* --- Files on numbers ------------------------------------------------------------------------------------------- */

static void test_dup(const char *name, bool by_dup3)
{
	char text[2 * (LAST + 1)] = "";
	int file = fcntl(memfd_create("file", MFD_CLOEXEC), F_DUPFD_CLOEXEC, LAST + 1), put = 0, written = 0,
	    closed = 0;
	fill_and_push_out();
	for (int fd = FIRST; fd <= LAST; fd++)
		put += (by_dup3 ? dup3(file, fd, O_CLOEXEC) : dup2(file, fd)) == fd;
	ok(put == LAST + 1 - FIRST, "%s: a file on every number (%d)", name, put);
	ok(memory_is_right(), "%s: memory is what it was", name);
	fill_and_push_out();
	madvise(other, size / 2, MADV_DONTNEED);
	ok(!not_zero(other, size / 2), "%s: discarding", name);
	for (int fd = FIRST; fd <= LAST; fd++)
		written += write(fd, "x", 1) == 1;
	ok(!wrong(memory, size, seed, 0), "%s: and goes on being", name);
	ssize_t length = pread(file, text, sizeof text, 0);
	ok(written == LAST + 1 - FIRST && length == written && strspn(text, "x") == (size_t)length,
	   "%s: the file has what was written, and nothing else (%zd bytes)", name, length);
	for (int fd = FIRST; fd <= LAST; fd++)
		closed += close(fd) == 0 && !is_open(fd);
	ok(closed == LAST + 1 - FIRST && !close(file), "%s: every number can be closed", name);
}

static void test_dup_errors(void)
{
	int fd = memfd_create("file", 0);
	ok(dup2(fd, fd) == fd, "dup2 onto itself");
	ok(dup3(fd, fd, 0) == -1 && errno == EINVAL, "dup3 onto itself");
	ok(dup2(LAST, LAST) == -1 && errno == EBADF, "dup2 of nothing onto itself");
	ok(dup2(LAST, fd) == -1 && errno == EBADF && is_open(fd), "dup2 of nothing");
	ok(dup2(fd, -1) == -1 && errno == EBADF, "dup2 onto nothing");
	close(fd);
}

/* --- Children --------------------------------------------------------------------------------------------------- */

static int status_of(pid_t child)
{
	int status;
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_children(void)
{
	/* The descriptor that lists them is gone when they are looked at. */
	static const char script[] = "for fd in /proc/$$/fd/*; do "
				     "case ${fd##*/} in [012]) ;; *) [ ! -e $fd ] || exit 8 ;; esac; done; exit 7";
	fill_and_push_out();
	pid_t child = fork();
	if (child == 0) {
		alarm(60);
		_exit(by_close_range() != -1 || wrong(memory, reach, seed, 0));
	}
	ok(status_of(child) == 0, "a forked child closes everything and reads its memory");
	child = fork();
	if (child == 0) {
		closefrom(FIRST);
		execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
		_exit(1);
	}
	ok(status_of(child) == 7, "a forked child closes everything and execs");
	child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): this is what is looked at */
	if (child == 0) {
		close_range(FIRST, ~0U, 0); /* NOLINT(clang-analyzer-unix.Vfork): programs do it all the same */
		execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(1);
	}
	int status = status_of(child);
	ok(status == 7, "a vfork child closes everything and execs, and nothing of its parent's is left open (%d)",
	   status);
	ok(memory_is_right(), "their parent notices nothing");
}

static void *cancelled_in_close(void *unused)
{
	pthread_cancel(pthread_self());
	close(-1);
	return unused;
}

static void test_cancellation(void)
{
	pthread_t thread;
	void *result = NULL;
	pthread_create(&thread, NULL, cancelled_in_close, NULL);
	pthread_join(thread, &result);
	ok(result == PTHREAD_CANCELED, "close is a cancellation point");
}

int main(void)
{
	const char *child_mb = getenv("CHILD_MB");
	by_close_range(); /* what the test's runner left open; nothing is far yet */
	size = victim_size() / 2;
	reach = child_mb ? (size_t)atol(child_mb) * MB : size;
	memory = map_memory(size);
	other = map_memory(size);
	fill_and_push_out();
	test_closing("close_range", by_close_range);
	test_closing("closefrom", by_closefrom);
	test_closing("a loop of close", by_loop);
	test_own_table();
	test_refused_ranges();
	test_dup("dup2", false);
	test_dup("dup3", true);
	test_dup_errors();
	test_children();
	test_cancellation();
	return tap_done();
}

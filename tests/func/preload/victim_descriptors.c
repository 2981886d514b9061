/*
 * The program closes descriptors that it did not open, and puts files on arbitrary descriptor numbers. Its memory keeps
 * its contents, and farpage does not write into its files.
 */
#include "tests/func/preload/victim.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#define FIRST 3
#define LAST 40

static size_t size, reach; /* bytes of each mapping, and bytes that a child reads */
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

/* --- Closing all descriptors -------------------------------------------------------------------------------------- */

/* Each function returns the number of descriptors that it closed, -1 if that is not known, or -2 on an error. */
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

static void files_opened_afterwards_work(const char *name)
{
	int fd = memfd_create("after", MFD_CLOEXEC), again;

	ok(fd == FIRST, "%s: the program's next file gets the lowest free number (%d)", name, fd);
	ok(write(fd, "after", 5) == 5, "%s: a file opened afterwards can be written", name);
	ok(close(fd) == 0, "%s: close() closes a file opened afterwards", name);
	ok(close(fd) == -1 && errno == EBADF, "%s: a second close() of the file fails with EBADF", name);
	again = memfd_create("again", MFD_CLOEXEC);
	ok(again == fd && close(again) == 0, "%s: the number of a closed file is used again", name);
}

static void closing_all_descriptors_keeps_memory(const char *name, int (*close_all)(void))
{
	int before[2] = {memfd_create("before", 0), memfd_create("before", MFD_CLOEXEC)};

	fill_and_push_out();
	int closed = close_all();
	ok(closed == -1 || closed == 2, "%s closes the two descriptors of the program (%d)", name, closed);
	ok(!is_open(before[0]) && !is_open(before[1]), "%s leaves no descriptor of the program open", name);
	ok(memory_is_right(), "%s: memory keeps its contents", name);
	fill_and_push_out();
	ok(memory_is_right(), "%s: memory written afterwards keeps its contents", name);
	files_opened_afterwards_work(name);
}

static void *close_in_own_table(void *argument)
{
	int fd = *(int *)argument;

	return close_range(FIRST, ~0U, CLOSE_RANGE_UNSHARE) || is_open(fd) || !memory_is_right() ? argument : NULL;
}

static void closing_an_own_table_leaves_other_threads_files_open(void)
{
	int fd = memfd_create("file", MFD_CLOEXEC);
	pthread_t thread;
	void *result = &fd;

	fill_and_push_out();
	pthread_create(&thread, NULL, close_in_own_table, &fd);
	pthread_join(thread, &result);
	ok(!result, "a thread closes all descriptors of its own table and still reads its memory");
	ok(is_open(fd) && close(fd) == 0, "files of the other threads stay open");
	ok(memory_is_right(), "a thread that closes its own table leaves memory as it was");
}

static void close_range_refuses_bad_arguments(void)
{
	int fd = memfd_create("file", 0);

	ok(close_range(5, 4, 0) == -1 && errno == EINVAL,
	   "close_range with the first number above the last fails with EINVAL");
	ok(close_range(FIRST, ~0U, 1 << 20) == -1 && errno == EINVAL && is_open(fd),
	   "close_range with unknown flags fails with EINVAL and closes nothing");
	ok(close_range(FIRST, ~0U, CLOSE_RANGE_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC,
	   "close_range with CLOSE_RANGE_CLOEXEC marks a file and leaves it open");
	close(fd);
}

/* --- Files on numbers ------------------------------------------------------------------------------------------- */

static void files_on_all_numbers_keep_memory(const char *name, bool by_dup3)
{
	char text[2 * (LAST + 1)] = "";
	int file = fcntl(memfd_create("file", MFD_CLOEXEC), F_DUPFD_CLOEXEC, LAST + 1), put = 0, written = 0,
	    closed = 0;

	fill_and_push_out();
	for (int fd = FIRST; fd <= LAST; fd++)
		put += (by_dup3 ? dup3(file, fd, O_CLOEXEC) : dup2(file, fd)) == fd;
	ok(put == LAST + 1 - FIRST, "%s puts a file on every number from 3 to 40 (%d)", name, put);
	ok(memory_is_right(), "%s: memory keeps its contents", name);
	fill_and_push_out();
	madvise(other, size / 2, MADV_DONTNEED);
	ok(!not_zero(other, size / 2), "%s: discarded memory reads as zeroes", name);
	for (int fd = FIRST; fd <= LAST; fd++)
		written += write(fd, "x", 1) == 1;
	ok(!wrong(memory, size, seed, 0), "%s: memory written afterwards keeps its contents", name);
	ssize_t length = pread(file, text, sizeof text, 0);
	ok(written == LAST + 1 - FIRST && length == written && strspn(text, "x") == (size_t)length,
	   "%s: the file holds only what the program wrote (%zd bytes)", name, length);
	for (int fd = FIRST; fd <= LAST; fd++)
		closed += close(fd) == 0 && !is_open(fd);
	ok(closed == LAST + 1 - FIRST && !close(file), "%s: the program can close every number", name);
}

static void dup2_and_dup3_report_errors_of_linux(void)
{
	int fd = memfd_create("file", 0);

	ok(dup2(fd, fd) == fd, "dup2 of a file onto itself returns its number");
	ok(dup3(fd, fd, 0) == -1 && errno == EINVAL, "dup3 of a file onto itself fails with EINVAL");
	ok(dup2(LAST, LAST) == -1 && errno == EBADF, "dup2 of a closed number onto itself fails with EBADF");
	ok(dup2(LAST, fd) == -1 && errno == EBADF && is_open(fd),
	   "dup2 of a closed number fails with EBADF and leaves the target open");
	ok(dup2(fd, -1) == -1 && errno == EBADF, "dup2 onto -1 fails with EBADF");
	close(fd);
}

/* --- Children --------------------------------------------------------------------------------------------------- */

static int status_of(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void children_close_all_descriptors(void)
{
	/*
	 * Exits with 7 if only descriptors 0 to 2 are open. The descriptor that lists the directory is closed by then.
	 */
	static const char script[] = "for fd in /proc/$$/fd/*; do "
				     "case ${fd##*/} in [012]) ;; *) [ ! -e $fd ] || exit 8 ;; esac; done; exit 7";

	fill_and_push_out();
	pid_t child = fork();
	if (child == 0) {
		alarm(60);
		_exit(by_close_range() != -1 || wrong(memory, reach, seed, 0));
	}
	ok(status_of(child) == 0, "a forked child closes all descriptors and reads its memory");
	child = fork();
	if (child == 0) {
		closefrom(FIRST);
		execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
		_exit(1);
	}
	ok(status_of(child) == 7, "a forked child closes all descriptors and executes a program");
	child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): the test is about vfork */
	if (child == 0) {
		close_range(FIRST, ~0U, 0); /* NOLINT(clang-analyzer-unix.Vfork): programs do this */
		execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(1);
	}
	int status = status_of(child);
	ok(status == 7, "a vfork child that closes all descriptors executes a program with none of them (%d)", status);
	ok(memory_is_right(), "children that close all descriptors leave their parent's memory as it was");
}

static void *cancelled_in_close(void *unused)
{
	pthread_cancel(pthread_self());
	close(-1);
	return unused;
}

static void close_is_a_cancellation_point(void)
{
	pthread_t thread;
	void *result = NULL;

	pthread_create(&thread, NULL, cancelled_in_close, NULL);
	pthread_join(thread, &result);
	ok(result == PTHREAD_CANCELED, "close() is a cancellation point");
}

int main(void)
{
	const char *child_mb = getenv("CHILD_MB");

	by_close_range(); /* closes descriptors that the runner of the test left open; no page is far yet */
	size = victim_size() / 2;
	reach = child_mb ? (size_t)atol(child_mb) * MB : size;
	memory = map_memory(size);
	other = map_memory(size);
	fill_and_push_out();
	closing_all_descriptors_keeps_memory("close_range", by_close_range);
	closing_all_descriptors_keeps_memory("closefrom", by_closefrom);
	closing_all_descriptors_keeps_memory("a loop of close", by_loop);
	closing_an_own_table_leaves_other_threads_files_open();
	close_range_refuses_bad_arguments();
	files_on_all_numbers_keep_memory("dup2", false);
	files_on_all_numbers_keep_memory("dup3", true);
	dup2_and_dup3_report_errors_of_linux();
	children_close_all_descriptors();
	close_is_a_cancellation_point();
	return tap_done();
}

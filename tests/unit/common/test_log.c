/*
 * log: writes each event as one line by one write(), whatever the event contains. Lines depend on level and errno, and
 * have a prefix in the journal.
 */
#include "common/log.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int pipe_read, pipe_write;
static char got[1 << 16];

/* Returns what was logged since the last call. The pipe does not block, so an empty pipe is known at once. */
static const char *take(void)
{
	size_t length = 0;
	ssize_t count;

	while ((count = read(pipe_read, got + length, sizeof got - 1 - length)) > 0)
		length += (size_t)count;
	got[length] = '\0';
	return got;
}

static void lines_have_one_form_and_obey_the_level(void)
{
	log_setup("farpage-test", LOG_LEVEL_WARNING);
	log_error("donor %s is gone: %d", "tcp://10.0.0.7:7470", 5);
	ok(!strcmp(take(), "farpage-test: donor tcp://10.0.0.7:7470 is gone: 5\n"),
	   "an error is one line behind the program's name");
	log_warning("slow");
	ok(!strcmp(take(), "farpage-test: slow\n"), "a warning is written at level warning");
	log_info("quiet");
	log_debug("quieter");
	ok(!*take(), "info and debug lines are not written at level warning");
	log_setup("farpage-test", LOG_LEVEL_DEBUG);
	log_debug("loud");
	ok(!strcmp(take(), "farpage-test: loud\n"), "a debug line is written at level debug");
}

static void logging_keeps_errno(void)
{
	errno = ENOENT;
	log_error("opening: %m");
	ok(errno == ENOENT, "a log line keeps errno");
	ok(!strcmp(take(), "farpage-test: opening: No such file or directory\n"),
	   "%%m in a log line is the caller's errno");
	log_set_fd(-1);
	errno = ENOENT;
	log_error("nobody hears");
	ok(errno == ENOENT, "a log line that cannot be written keeps errno");
	log_set_fd(pipe_write);
}

/* Nobody reads the pipe. It fills, and further lines are dropped at once. */
static void a_full_pipe_drops_lines_instead_of_blocking(void)
{
	int flags = fcntl(pipe_write, F_GETFL);
	struct timespec begin, end;
	size_t bytes = 0;
	double took;

	fcntl(pipe_write, F_SETFL, flags & ~O_NONBLOCK);
	alarm(20); /* ends the test if log_error() blocks */
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned i = 0; i < 2000; i++)
		log_error("%0200u", i);
	clock_gettime(CLOCK_MONOTONIC, &end);
	alarm(0);
	took = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	while (*take())
		bytes += strlen(got);
	ok(bytes > 0 && bytes < 2000 * 200, "of 2,000 lines into a pipe that nobody reads some are dropped (%.3f s)",
	   took);
	log_error("again");
	ok(!strcmp(take(), "farpage-test: again\n"), "a full pipe takes lines again once it is read");
	fcntl(pipe_write, F_SETFL, flags);
}

static void control_characters_are_replaced(void)
{
	log_error("peer says '%s'", "a\nfarpage: forged\r\x1b[31m\x7f");
	ok(!strcmp(take(), "farpage-test: peer says 'a?farpage: forged??[31m?'\n"),
	   "newlines and terminal codes in a log line are replaced");
	log_error("M\xc3\xbcller");
	ok(!strcmp(take(), "farpage-test: M\xc3\xbcller\n"), "UTF-8 in a log line is left unchanged");
}

static void an_overlong_line_is_cut(void)
{
	static char text[5000];

	memset(text, 'x', sizeof text - 1);
	log_error("%s", text);
	const char *line = take();
	size_t length = strlen(line);
	ok(length <= 1024 && length > 900 && !strcmp(line + length - 4, "...\n"),
	   "an overlong log line is cut and ends in dots");
	ok(strchr(line, '\n') == line + length - 1, "an overlong log line stays one line");
}

static void lines_to_the_journal_have_a_priority(void)
{
	struct stat stat;
	char stream[64];

	fstat(pipe_write, &stat);
	snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)stat.st_dev, (unsigned long long)stat.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_setup("farpage-test", LOG_LEVEL_DEBUG);
	log_error("e");
	log_warning("w");
	log_info("i");
	log_debug("d");
	ok(!strcmp(take(), "<3>farpage-test: e\n<4>farpage-test: w\n<6>farpage-test: i\n<7>farpage-test: d\n"),
	   "lines to the journal begin with their priority");
	snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)stat.st_dev,
		 (unsigned long long)stat.st_ino + 1);
	setenv("JOURNAL_STREAM", stream, 1);
	log_setup("farpage-test", LOG_LEVEL_DEBUG);
	log_error("e");
	ok(!strcmp(take(), "farpage-test: e\n"), "lines have no priority if JOURNAL_STREAM names another stream");
	unsetenv("JOURNAL_STREAM");
}

#define THREADS 4
#define LINES 100

static void *log_many(void *argument)
{
	for (unsigned i = 0; i < LINES; i++)
		log_error("%s", (const char *)argument);
	return NULL;
}

static void lines_of_threads_do_not_mix(void)
{
	static const char *const texts[THREADS] = {"aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc",
						   "dddddddddddddddd"};
	pthread_t threads[THREADS];
	unsigned whole = 0, lines = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, log_many, (void *)(uintptr_t)texts[i]))
			abort();
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	take();
	for (char *save, *line = strtok_r(got, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		lines++;
		for (unsigned i = 0; i < THREADS; i++)
			whole += !strncmp(line, "farpage-test: ", 14) && !strcmp(line + 14, texts[i]);
	}
	ok(lines == THREADS * LINES && whole == lines, "log lines of several threads never mix");
}

static void log_again_pauses_between_lines(void)
{
	_Atomic uint64_t last = 0;

	ok(log_again(&last, 100, 50) && !log_again(&last, 149, 50),
	   "log_again() allows the first line, and no other during the pause");
	ok(log_again(&last, 150, 50) && !log_again(&last, 199, 50), "log_again() allows one more line after the pause");
	last = 0;
	ok(log_again(&last, 151, 50), "log_again() allows a line at once after *last is set to 0");
	last = 0;
	ok(log_again(&last, 0, 50) && !log_again(&last, 1, 50),
	   "log_again() allows only the first line even at clock time 0");
}

static void *again_main(void *argument)
{
	uintptr_t count = 0;

	for (unsigned i = 0; i < 1000; i++)
		count += log_again(argument, 1 + i * 1000, 1000);
	return (void *)count;
}

static void log_again_lets_one_of_several_threads_write(void)
{
	_Atomic uint64_t last = 0;
	pthread_t threads[THREADS];
	uintptr_t count = 0;
	void *one;

	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, again_main, &last))
			abort();
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &one);
		count += (uintptr_t)one;
	}
	ok(count && count <= 1000, "log_again() allows only one of several threads a line (%lu of 1000)",
	   (unsigned long)count);
}

int main(void)
{
	int ends[2];

	unsetenv("JOURNAL_STREAM");
	if (pipe2(ends, O_CLOEXEC) || fcntl(ends[0], F_SETFL, O_NONBLOCK))
		return tap_skip_all("no pipe");
	pipe_read = ends[0];
	pipe_write = ends[1];
	log_set_fd(pipe_write);
	lines_have_one_form_and_obey_the_level();
	logging_keeps_errno();
	control_characters_are_replaced();
	a_full_pipe_drops_lines_instead_of_blocking();
	an_overlong_line_is_cut();
	lines_to_the_journal_have_a_priority();
	lines_of_threads_do_not_mix();
	log_again_pauses_between_lines();
	log_again_lets_one_of_several_threads_write();
	return tap_done();
}

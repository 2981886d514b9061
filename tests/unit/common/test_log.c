/* log: one event is one line by one write, whatever is in it; levels, errno and the journal's prefix. */
#include "common/log.h"
#include "tests/tap.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int pipe_read, pipe_write;
static char got[1 << 16];

/* What was logged since the last call. The pipe does not block, so "nothing" is known at once. */
static const char *take(void)
{
	size_t length = 0;
	ssize_t count;
	while ((count = read(pipe_read, got + length, sizeof got - 1 - length)) > 0)
		length += (size_t)count;
	got[length] = '\0';
	return got;
}

static void test_line(void)
{
	log_setup("farpage-test", LOG_LEVEL_WARNING);
	log_error("donor %s is gone: %d", "tcp://10.0.0.7:7470", 5);
	ok(!strcmp(take(), "farpage-test: donor tcp://10.0.0.7:7470 is gone: 5\n"), "an error, in its form");
	log_warning("slow");
	ok(!strcmp(take(), "farpage-test: slow\n"), "a warning");
	log_info("quiet");
	log_debug("quieter");
	ok(!*take(), "what is below the level is not written");
	log_setup("farpage-test", LOG_LEVEL_DEBUG);
	log_debug("loud");
	ok(!strcmp(take(), "farpage-test: loud\n"), "a lower level lets it through");
}

static void test_errno(void)
{
	errno = ENOENT;
	log_error("opening: %m");
	ok(errno == ENOENT, "errno is kept");
	ok(!strcmp(take(), "farpage-test: opening: No such file or directory\n"), "%%m is the caller's errno");
	log_set_fd(-1);
	errno = ENOENT;
	log_error("nobody hears");
	ok(errno == ENOENT, "errno is kept when writing fails");
	log_set_fd(pipe_write);
}

/* Nobody reads: the pipe fills, and then lines are dropped at once. */
static void test_stuffed(void)
{
	int flags = fcntl(pipe_write, F_GETFL);
	struct timespec begin, end;
	double took;

	fcntl(pipe_write, F_SETFL, flags & ~O_NONBLOCK);
	alarm(20); /* it would wait for ever */
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned i = 0; i < 2000; i++)
		log_error("%0200u", i);
	clock_gettime(CLOCK_MONOTONIC, &end);
	alarm(0);
	took = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	ok(true, "a pipe that nobody reads keeps nobody waiting (%.3f s for 2,000 lines)", took);
	while (*take())
		;
	log_error("again");
	ok(!strcmp(take(), "farpage-test: again\n"), "once it is read it is written to again");
	fcntl(pipe_write, F_SETFL, flags);
}

static void test_control_characters(void)
{
	log_error("peer says '%s'", "a\nfarpage: forged\r\x1b[31m\x7f");
	ok(!strcmp(take(), "farpage-test: peer says 'a?farpage: forged??[31m?'\n"),
	   "no second line, no terminal codes");
	log_error("M\xc3\xbcller");
	ok(!strcmp(take(), "farpage-test: M\xc3\xbcller\n"), "UTF-8 is left alone");
}

static void test_long_line(void)
{
	static char text[5000];
	memset(text, 'x', sizeof text - 1);
	log_error("%s", text);
	const char *line = take();
	size_t length = strlen(line);
	ok(length <= 1024 && length > 900 && !strcmp(line + length - 4, "...\n"), "a long line is cut and says so");
	ok(strchr(line, '\n') == line + length - 1, "it is one line");
}

static void test_journal(void)
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
	   "into the journal, with priorities");
	snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)stat.st_dev,
		 (unsigned long long)stat.st_ino + 1);
	setenv("JOURNAL_STREAM", stream, 1);
	log_setup("farpage-test", LOG_LEVEL_DEBUG);
	log_error("e");
	ok(!strcmp(take(), "farpage-test: e\n"), "the variable alone, inherited, changes nothing");
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

static void test_threads(void)
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
	ok(lines == THREADS * LINES && whole == lines, "lines of several threads never mix");
}

static void test_again(void)
{
	_Atomic uint64_t last = 0;

	ok(log_again(&last, 100, 50) && !log_again(&last, 149, 50),
	   "the first line is written, and for a while no other");
	ok(log_again(&last, 150, 50) && !log_again(&last, 199, 50), "then one more");
	last = 0;
	ok(log_again(&last, 151, 50), "at once when that is asked for");
	last = 0;
	ok(log_again(&last, 0, 50) && !log_again(&last, 1, 50), "also when the clock begins");
}

static void *again_main(void *argument)
{
	uintptr_t count = 0;

	for (unsigned i = 0; i < 1000; i++)
		count += log_again(argument, 1 + i * 1000, 1000);
	return (void *)count;
}

static void test_again_threads(void)
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
	ok(count && count <= 1000, "of several threads one writes it (%lu of 1000)", (unsigned long)count);
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
	test_line();
	test_errno();
	test_control_characters();
	test_stuffed();
	test_long_line();
	test_journal();
	test_threads();
	test_again();
	test_again_threads();
	return tap_done();
}

/*
 * daemon: a farpage-memserver under test. Its standard output and error are pipes read here; it is killed when the
 * test ends, however that happens. One thread.
 */
#ifndef TESTS_FUNC_MEMSERVER_DAEMON_H
#define TESTS_FUNC_MEMSERVER_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DAEMON_WAIT_MS 30000

struct daemon {
	pid_t pid;
	int out, err;
	char log[1 << 16]; /* standard error so far */
	char output[8192]; /* standard output so far */
	uint16_t port;
	char uri[64];
};

/* Which program: the test's argv[1]. */
void daemon_program(const char *path);
/* Starts it with these arguments (NULL at the end) and nothing else; does not wait. */
void daemon_spawn(struct daemon *daemon, const char *const *arguments);
/* Starts it on a free port of FARPAGE_TEST_URI (of loopback, if there is none) and waits until it
 * listens; false: it ended, see log. */
bool daemon_start(struct daemon *daemon, const char *const *arguments);
/* The same at this address, given with its port. */
bool daemon_start_at(struct daemon *daemon, const char *uri, const char *const *arguments);
/* Waits until its log has @text. */
bool daemon_log_wait(struct daemon *daemon, const char *text);
/* Waits for its end; the exit status, or -signal. Everything it wrote is in log and output then. */
int daemon_wait(struct daemon *daemon);
/* Sends a signal, then waits. */
int daemon_stop(struct daemon *daemon, int signal);
/* How often @word is in @text, of the log or the output. */
unsigned daemon_times(const char *text, const char *word);
/* Lines in the log. */
unsigned daemon_log_lines(const struct daemon *daemon);

#endif

/*
 * daemon: a farpage-memserver under test. The test reads its standard output and error from pipes. The daemon is killed
 * when the test ends, also when the test crashes. All calls come from one thread.
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

/* Sets the program to run: the test's argv[1]. */
void daemon_program(const char *path);
/* Starts the daemon with exactly these arguments, which end with NULL. Does not wait. */
void daemon_spawn(struct daemon *daemon, const char *const *arguments);
/*
 * Starts the daemon on a free port of FARPAGE_TEST_URI, or of loopback if that is not set. Waits until the daemon
 * listens. Returns false if it ended instead; the log says why.
 */
bool daemon_start(struct daemon *daemon, const char *const *arguments);
/* As daemon_start(), at an address with its port. */
bool daemon_start_at(struct daemon *daemon, const char *uri, const char *const *arguments);
/* Waits until the log has @text. */
bool daemon_log_wait(struct daemon *daemon, const char *text);
/* Waits for the daemon's end. Returns its exit status, or -signal. log and output then have all that it wrote. */
int daemon_wait(struct daemon *daemon);
/* Sends a signal, then waits as daemon_wait() does. */
int daemon_stop(struct daemon *daemon, int signal);
/* Returns how often @word is in @text. */
unsigned daemon_times(const char *text, const char *word);
/* Returns the number of lines in the log. */
unsigned daemon_log_lines(const struct daemon *daemon);

#endif

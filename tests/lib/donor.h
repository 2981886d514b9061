/*
 * donor: farpage-memserver processes for tests in C. donor.sh and donor.py do the same for tests in bash and Python.
 *
 * FARPAGE_MEMSERVER names the program. A donor's standard output and error come through pipes, and are stored in
 * `output` and `log`. A donor is killed when the test ends, even if the test crashes. All calls come from one thread.
 */
#ifndef TESTS_LIB_DONOR_H
#define TESTS_LIB_DONOR_H

#include "tests/lib/tap.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct donor_process {
	pid_t pid; /* 0 if the donor is not running */
	int out, err;
	char log[1 << 16];    /* standard error so far */
	char output[8192];    /* standard output so far */
	char arguments[1024]; /* the arguments of the last donor_start(), each with its zero byte */
	uint16_t port;
	char uri[64];
};

/* Starts the program with exactly these arguments. Does not wait until it listens. */
#define donor_spawn(donor, ...) donor_spawn_list(donor, (const char *const[]){__VA_ARGS__, NULL})
void donor_spawn_list(struct donor_process *donor, const char *const *arguments);
/*
 * Starts a donor with these arguments and waits until it listens. Bails out if the donor ends before that. The donor
 * listens on @uri. If @uri is NULL, it listens on a free port of FARPAGE_TEST_URI, or of loopback if this is not set.
 */
#define donor_start_at(donor, uri, ...) donor_start_list(donor, uri, (const char *const[]){__VA_ARGS__, NULL})
#define donor_start(donor, ...) donor_start_at(donor, NULL, __VA_ARGS__)
void donor_start_list(struct donor_process *donor, const char *uri, const char *const *arguments);
/* After the donor has ended, starts it again with the same arguments and address. */
void donor_again(struct donor_process *donor);

/* Waits until the log contains @text. */
bool donor_log_wait(struct donor_process *donor, const char *text);
/* Waits for the donor's end. Then `log` and `output` are complete. Returns the exit status, or the negative number of
   the signal that ended it. */
int donor_wait(struct donor_process *donor);
/* Sends a signal, and then calls donor_wait(). */
int donor_stop(struct donor_process *donor, int signal);
void donor_kill(struct donor_process *donor);
/* Ends the donor by SIGTERM, and checks its exit status. */
void donor_end(struct donor_process *donor);
/* Returns the number of lines in the log. */
unsigned donor_log_lines(const struct donor_process *donor);

#endif

/*
 * run_child: runs the program of `farpage run` as a child, passes signals on to it, and ends in the same way as the
 * child.
 */
#ifndef CLI_RUN_CHILD_H
#define CLI_RUN_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* The functions of an engine that run_child() calls. Each gets `engine`. */
struct run_attendant {
	void *engine;
	unsigned look_ms; /* time between two calls of look(), less than 1000 */
	/* Called in the child before exec(2), unless it is NULL. Returns 0, or to end the child -errno, or
	   -ECANCELED after one logged line. */
	int (*enter)(void *engine);
	void (*look)(void *engine, pid_t child);
	/* Waits until @fd is readable, and returns true. @for_rest means that the child has ended, and that other
	   processes of the command may still need this process. With @for_rest, returns false as soon as no process
	   needs it. */
	bool (*wait)(void *engine, int fd, bool for_rest);
};

/* Runs @path with @argv in the current environment. Returns when the child has ended and attendant->wait() has returned
   false. Returns 0 and the wait status, or an enum run_status after one logged line. Must run in the only thread of the
   process. */
int run_child(const char *path, char **argv, const struct run_attendant *attendant, int *ret_wait_status);

/* Ends this process as the child ended: returns the child's exit status, or dies of the same signal. */
int run_child_imitate(int wait_status);

#endif

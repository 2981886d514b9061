/* run_child: the program of `farpage run` as a child: signals passed to it, its end passed on. */
#ifndef CLI_RUN_CHILD_H
#define CLI_RUN_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* The calls that an engine gets while its command runs. `engine` is passed to each of them. */
struct run_attendant {
	void *engine;
	unsigned look_ms; /* between two calls of look() */
	/* In the child, before the command: -errno ends the child. NULL: nothing to do. */
	int (*enter)(void *engine);
	void (*look)(void *engine, pid_t child);
	/* Waits until @fd is readable, and returns true; or with @for_rest, when the command has ended, until nothing
	   of it is left that needs this process, and returns false. */
	bool (*wait)(void *engine, int fd, bool for_rest);
};

/*
 * Runs @path with @argv in the present environment, until it ends, and nothing is left of it that @attendant waits for.
 * Returns 0 and its wait status, or an enum run_status after logging one line. One thread, and the only one of the
 * process.
 */
int run_child(const char *path, char **argv, const struct run_attendant *attendant, int *ret_wait_status);

/* Ends this process as the child ended: returns its exit status, or does not return and dies of the same signal. */
int run_child_imitate(int wait_status);

#endif

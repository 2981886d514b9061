/* run_child: the program of `farpage run` as a child: signals passed to it, its end passed on. */
#ifndef CLI_RUN_CHILD_H
#define CLI_RUN_CHILD_H

struct run_coverage;
struct run_watch;

/*
 * Runs @path with @argv in the present environment, until it ends, and no process has memory that @watch must watch
 * over; @coverage looks at its processes meanwhile. Returns 0 and its wait status, or an enum run_status after logging
 * one line. One thread, and the only one of the process.
 */
int run_child(const char *path, char **argv, struct run_watch *watch, struct run_coverage *coverage,
	      int *ret_wait_status);

/* Ends this process as the child ended: returns its exit status, or does not return and dies of the same signal. */
int run_child_imitate(int wait_status);

#endif

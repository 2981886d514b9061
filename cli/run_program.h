/*
 * run_program: can far memory be put under this program? The loader must take libfarpage-preload.so in (LD_PRELOAD),
 * so it has to be a dynamically linked ELF program for this machine and this C library, and exec(2) must not raise its
 * privileges, for then the loader ignores the environment. A script is as good as its interpreter.
 */
#ifndef CLI_RUN_PROGRAM_H
#define CLI_RUN_PROGRAM_H
#include <limits.h>

/* Exit statuses of `farpage run` besides the program's own, as of env(1). */
enum run_status {
	RUN_FAILED = 125,         /* farpage itself */
	RUN_NOT_EXECUTABLE = 126, /* or cannot be helped */
	RUN_NOT_FOUND = 127,
};

/* Finds @name as execvp(3) does. Returns 0, or an enum run_status after logging one line with the reason. */
int run_program_check(const char *name, char ret_path[PATH_MAX]);

#endif

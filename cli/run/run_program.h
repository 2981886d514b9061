/*
 * run_program: finds the program of a command, and checks whether the pager can run it.
 *
 * The pager is loaded into the program as libfarpage-preload.so, by LD_PRELOAD. So the program must meet these
 * conditions:
 * - It is a dynamically linked ELF program for this machine and this C library.
 * - exec(2) does not raise its privileges. Otherwise the loader ignores LD_PRELOAD.
 * - It has no mmap or munmap of its own, and no sanitizer. Otherwise the library does not see all mappings.
 *
 * For a script, its interpreter must meet these conditions.
 */
#ifndef CLI_RUN_PROGRAM_H
#define CLI_RUN_PROGRAM_H
#include <limits.h>

#define RUN_WHY_MAX (4 * PATH_MAX)

/* Exit statuses of `farpage run` besides the program's. They are those of env(1). */
enum run_status {
	RUN_FAILED = 125,         /* farpage failed */
	RUN_NOT_EXECUTABLE = 126, /* the program cannot be run, or cannot have far memory */
	RUN_NOT_FOUND = 127,
};

/* Finds @name as execvp(3) does. Returns 0, or an enum run_status after one logged line with the reason. */
int run_program_find(const char *name, char ret_path[PATH_MAX]);

/* Checks whether the pager can run the program at @path. Logs nothing. Returns 0, -ENOEXEC if the program can run but
   not with the pager, or an enum run_status if it cannot run at all. If the result is not 0, @ret_why has the path
   and the reason. */
int run_program_check(const char *path, char ret_why[RUN_WHY_MAX]);

#endif

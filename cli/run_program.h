/*
 * run_program: which program a command is, and whether the pager can be put under it. The loader must take
 * libfarpage-preload.so in (LD_PRELOAD), so it has to be a dynamically linked ELF program for this machine and this C
 * library, and exec(2) must not raise its privileges, for then the loader ignores the environment. What it maps must
 * come by that library, so it must not bring an mmap or munmap of its own. A script is as good as its interpreter.
 */
#ifndef CLI_RUN_PROGRAM_H
#define CLI_RUN_PROGRAM_H
#include <limits.h>

#define RUN_WHY_MAX (4 * PATH_MAX)

/* Exit statuses of `farpage run` besides the program's own, as of env(1). */
enum run_status {
	RUN_FAILED = 125,         /* farpage itself */
	RUN_NOT_EXECUTABLE = 126, /* or cannot be helped */
	RUN_NOT_FOUND = 127,
};

/* Finds @name as execvp(3) does. Returns 0, or an enum run_status after logging one line with the reason. */
int run_program_find(const char *name, char ret_path[PATH_MAX]);

/* Whether the pager can be put under the program at @path. Logs nothing. Returns 0; -ENOEXEC if the program can run,
   but not with the pager; or an enum run_status if it cannot run at all. Then @ret_why has the path and the reason. */
int run_program_check(const char *path, char ret_why[RUN_WHY_MAX]);

#endif

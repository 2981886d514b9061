/*
 * run_options: the options of `farpage run`, and its engines. An engine is a way to give a command far memory.
 *
 * An engine has two functions: one checks whether the engine can run a program on this machine, the other runs the
 * program. A check changes nothing, except that run_swap_check() may load the kernel's ublk driver.
 *
 * Threads: the command's only thread.
 */
#ifndef CLI_RUN_OPTIONS_H
#define CLI_RUN_OPTIONS_H

#include "cli/run/run_donors.h"
#include "cli/run/run_program.h"
#include "common/config.h"

#include <stdbool.h>
#include <stdint.h>

struct run_options {
	uint64_t local, far, scrub_rate;
	struct config_list donors;
	const char *donors_file; /* absolute path of the file that names the donors, or NULL */
	const char *engine, *key_file, *stats_file, *config_file, *backup;
	const char *swap; /* a device of `farpage swap on`, or NULL to make one for the run */
	unsigned replicas, timeout_ms, prefetch, spin_us;
	bool quiet, verbose, strict, encrypt, unsafe_dio;
};

#define RUN_SWAP_LEAST (UINT64_C(4) << 20) /* the smallest --local */

/* Return 0 if the engine can be used here, or -errno with the missing requirement in @ret_why. run_pager_check() also
   checks the program at @path. It returns -ENOEXEC if the pager cannot run this program, and an enum run_status if
   the program cannot run at all. */
int run_pager_check(const struct run_options *options, const char *path, char ret_why[RUN_WHY_MAX]);
int run_swap_check(const struct run_options *options, char ret_why[RUN_WHY_MAX]);
/* Returns true if the swap engine needs the helper (farpage-helper(8)), which asks the administrator's donors. */
bool run_swap_by_helper(const struct run_options *options);

/* Run the program at @path, and print the summary at its end. @donors is not used if options->swap is
   set or run_swap_by_helper() is true. Return 0
   and the program's wait status, or an enum run_status after one logged line. */
int run_pager(const struct run_options *options, const struct run_donors *donors, const char *path, char **argv,
	      int *ret_wait_status);
int run_swap(const struct run_options *options, const struct run_donors *donors, const char *path, char **argv,
	     int *ret_wait_status);

#endif

/*
 * run_options: what `farpage run` was asked for, and its engines: the ways to put far memory under a command.
 *
 * An engine checks whether it can carry a program here, and runs it. The check makes nothing; run_swap_check() may load
 * the kernel's ublk driver. Threads: the only one.
 */
#ifndef CLI_RUN_OPTIONS_H
#define CLI_RUN_OPTIONS_H

#include "cli/run_donors.h"
#include "cli/run_program.h"
#include "common/config.h"

#include <stdbool.h>
#include <stdint.h>

struct run_options {
	uint64_t local, far, scrub_rate;
	struct config_list donors;
	const char *engine, *key_file, *stats_file, *config_file, *backup;
	const char *swap; /* the device of `farpage swap on` to be used; NULL: one is made for the run */
	unsigned replicas, timeout_ms, prefetch, spin_us;
	bool quiet, verbose, strict, encrypt, unsafe_dio;
};

#define RUN_SWAP_LEAST (UINT64_C(4) << 20) /* of --local */

/* Whether an engine can be used here. Returns 0; or -errno, and @ret_why: what it needs. For the pager -ENOEXEC is a
   matter of the program at @path, and an enum run_status means that the program cannot run at all. */
int run_pager_check(const struct run_options *options, const char *path, char ret_why[RUN_WHY_MAX]);
int run_swap_check(const struct run_options *options, char ret_why[RUN_WHY_MAX]);

/* Runs the program at @path, and reports. With options->swap, @donors is unused. Returns 0 and its
 * wait status, or an enum run_status after one logged line.
 */
int run_pager(const struct run_options *options, const struct run_donors *donors, const char *path, char **argv,
	      int *ret_wait_status);
int run_swap(const struct run_options *options, const struct run_donors *donors, const char *path, char **argv,
	     int *ret_wait_status);

#endif

/*
 * run_swap: the engine of `farpage run` that swaps to donors. It runs the command in a control group with a limit,
 * and gives the kernel swap space in donors' memory.
 *
 * Theory of operation. The budget is the group's limit, for all memory of all its processes. When the group reaches
 * the limit, the kernel swaps pages of the group to a device in donors' memory (run_device.h). So any program works,
 * including forks, threads and shared memory. When the whole machine is short of memory, the kernel may swap pages of
 * other groups to this device, too. The guard (run_guard.h) removes the group, and a device that was made for this
 * run, even if this process is killed.
 *
 * The command may end before processes that it has started. Such processes may have pages on the device, so this
 * process waits until the last one has ended.
 *
 * Threads: one.
 */
#include "cli/disk/disk_daemon.h"
#include "cli/run/run_child.h"
#include "cli/run/run_device.h"
#include "cli/run/run_group.h"
#include "cli/run/run_guard.h"
#include "cli/run/run_live.h"
#include "cli/run/run_options.h"
#include "cli/run/run_report.h"
#include "cli/swap/swap_space.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "common/size.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REST_MS 20 /* time between two checks for processes of the command */
#define TIMEOUT_MIN_MS 100u
#define TIMEOUT_MAX_MS 600000u
#define V2_LOOK_MS 100

struct swap_run {
	struct run_device device;
	struct run_group group;
	struct run_group_use use;
	struct run_guard guard;
	struct run_live *live; /* NULL if there is none */
	bool quiet, told_rest;
};

static bool has_frontend(char ret_why[FRONTENDS_NOTE_MAX])
{
	if (frontends_any(ret_why))
		return true;
	disk_daemon_load_ublk();
	return frontends_any(ret_why) != NULL;
}

int run_swap_check(const struct run_options *options, char ret_why[RUN_WHY_MAX])
{
	char why[FRONTENDS_NOTE_MAX];
	struct run_group unused;
	if (geteuid() != 0)
		snprintf(ret_why, RUN_WHY_MAX, "root: use sudo");
	else if (access("/proc/swaps", F_OK) < 0)
		snprintf(ret_why, RUN_WHY_MAX, "a kernel that can swap (CONFIG_SWAP)");
	else if (options->swap)
		return run_group_place("check", &unused, ret_why);
	else if (!swap_space_has_mkswap())
		snprintf(ret_why, RUN_WHY_MAX, "mkswap: install util-linux");
	else if (!has_frontend(why))
		snprintf(ret_why, RUN_WHY_MAX, "a block device: %s", why);
	else
		return run_group_place("check", &unused, ret_why);
	return -EPERM;
}

/* --- The command ------------------------------------------------------------------------------------------------ */

static int enter(void *engine)
{
	const struct swap_run *run = engine;
	return run_group_enter(&run->group);
}

static void live_update(struct swap_run *run)
{
	run_group_sum(&run->group, &run->use);
	run_live_begin(run->live);
	run->live->resident_bytes = run->use.bytes;
	run->live->far_bytes = run->use.swapped;
	run->live->faults = run_device_moved(&run->device).in;
	run->live->waiting_ns = run->use.stalled_us == UINT64_MAX ? RUN_LIVE_UNKNOWN : run->use.stalled_us * 1000;
	run_live_end(run->live);
}

static void look(void *engine, pid_t child)
{
	struct swap_run *run = engine;
	(void)child;
	run_group_look(&run->group, run_device_room(&run->device, run->use.swapped), &run->use);
	if (run_live_is_due(run->live))
		live_update(run);
}

static bool wait_for(void *engine, int fd, bool for_rest)
{
	struct swap_run *run = engine;
	unsigned count;
	if (!for_rest)
		return run_group_wait(&run->group, fd, -1, &run->use);
	while ((count = run_group_count(&run->group)) > 0) {
		if (!run->told_rest && !run->quiet)
			log_warning("the command has ended; %u process%s of it live%s on, and farpage run with %s",
				    count, count == 1 ? "" : "es", count == 1 ? "s" : "", count == 1 ? "it" : "them");
		run->told_rest = true;
		if (run_group_wait(&run->group, fd, REST_MS, &run->use))
			return true;
		look(run, 0);
	}
	return false;
}

static void print(const struct run_options *options, const struct swap_run *run, struct run_transfers moved,
		  uint64_t wall_ns)
{
	char peak[SIZE_TEXT_MAX], local[SIZE_TEXT_MAX], far[SIZE_TEXT_MAX], stalled[48] = "", killed[80] = "";
	char thrashed[RUN_THRASHED_MAX] = "";
	if (run->use.stalled_us != UINT64_MAX) {
		snprintf(stalled, sizeof stalled, ", stalled %.1f s", (double)run->use.stalled_us / 1e6);
		run_report_thrashed((double)run->use.stalled_us * 1e3 / (double)wall_ns,
				    run->use.peak_bytes + run->use.swapped_peak, thrashed);
	}
	if (run->use.killed)
		snprintf(killed, sizeof killed, ", %llu process%s killed for want of memory",
			 (unsigned long long)run->use.killed, run->use.killed == 1 ? "" : "es");
	fprintf(stderr, "farpage: peak resident %s of %s, far peak %s, pages in %llu, out %llu%s%s%s, wall %.1f s\n",
		size_format(run->use.peak_bytes, peak), size_format(options->local, local),
		size_format(run->use.swapped_peak, far), (unsigned long long)moved.in, (unsigned long long)moved.out,
		stalled, killed, thrashed, (double)wall_ns / 1e9);
}

static void save(const struct run_options *options, const struct swap_run *run, struct run_transfers moved,
		 uint64_t wall_ns)
{
	const struct run_figure figures[] = {
	    {"resident_peak_bytes", run->use.peak_bytes},
	    {"far_peak_bytes", run->use.swapped_peak},
	    {"fetched_pages", moved.in},
	    {"evicted_pages", moved.out},
	    {"processes_killed", run->use.killed},
	    {"wall_ns", wall_ns},
	    {"local_bytes", options->local},
	    {"stalled_us", run->use.stalled_us},
	};
	unsigned count = sizeof figures / sizeof figures[0];
	/* Version 1 of control groups does not count stalls, so the last figure is omitted. */
	run_report_write("swap", figures, run->use.stalled_us == UINT64_MAX ? count - 1 : count, NULL,
			 options->stats_file);
}

static int run_command(const struct run_options *options, struct swap_run *run, const char *path, char **argv,
		       int *ret_wait_status)
{
	const struct run_attendant attendant = {.engine = run,
						.look_ms = run->group.version == CONTROL_GROUP_V1 ? RUN_GROUP_LOOK_MS
												  : V2_LOOK_MS,
						.enter = enter,
						.look = look,
						.wait = wait_for};
	uint64_t started_ns = clock_now();
	int status = run_child(path, argv, &attendant, ret_wait_status);
	if (status)
		return status;
	struct run_transfers moved = run_device_moved(&run->device);
	run_group_sum(&run->group, &run->use);
	uint64_t wall_ns = clock_now() - started_ns;
	if (!options->quiet)
		print(options, run, moved, wall_ns);
	if (options->stats_file)
		save(options, run, moved, wall_ns);
	return options->strict && run->use.killed ? RUN_FAILED : 0;
}

/* Checks options that the device's daemon would also refuse, so that messages name this command's options. */
static int check_sizes(const struct run_options *options)
{
	char least[SIZE_TEXT_MAX];
	if (options->timeout_ms && (options->timeout_ms < TIMEOUT_MIN_MS || options->timeout_ms > TIMEOUT_MAX_MS))
		log_error("--engine swap: --timeout-ms %u: give %u to %u", options->timeout_ms, TIMEOUT_MIN_MS,
			  TIMEOUT_MAX_MS);
	else if (options->far && options->far < SETTINGS_SIZE_MIN)
		log_error("--engine swap: --far is the size of the device: give %s at least",
			  size_format(SETTINGS_SIZE_MIN, least));
	else
		return 0;
	return -EINVAL;
}

int run_swap(const struct run_options *options, const struct run_donors *donors, const char *path, char **argv,
	     int *ret_wait_status)
{
	static struct swap_run run;
	char why[RUN_GROUP_WHY_MAX], group[RUNTIME_NAME_MAX + 1], device[RUNTIME_NAME_MAX + 1];
	uint32_t number;
	int status = RUN_FAILED;
	if (check_sizes(options))
		return RUN_FAILED;
	signal(SIGCHLD, SIG_DFL); /* if SIGCHLD were ignored, the status of every child would be lost */
	run.quiet = options->quiet;
	/* The name has a random number, too, because processes in different PID namespaces may have the same process
	   number. The group's name differs from the device's, because the daemon's control group has the device's
	   name. */
	random_secret(&number, sizeof number);
	snprintf(device, sizeof device, RUN_DEVICE_NAME, (int)getpid(), number);
	snprintf(group, sizeof group, "job-%d-%08x", (int)getpid(), number);
	if (run_group_place(group, &run.group, why)) {
		log_error("--engine swap would need %s", why);
		return RUN_FAILED;
	}
	if (options->swap && run_device_find(options, &run.device))
		return RUN_FAILED;
	if (run_guard_start(&run.group, options->swap ? NULL : device, &run.guard))
		return RUN_FAILED;
	if (!run_group_make(&run.group, options->local) &&
	    (options->swap || !run_device_make(options, donors, device, &run.device))) {
		run.live = run_live_open("swap", options->local, argv);
		status = run_command(options, &run, path, argv, ret_wait_status);
	}
	run_guard_end(&run.guard);
	return status;
}

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
 * Only root can make such a group and such a device. For an ordinary user the helper makes them (helper_call.h), with
 * the administrator's donors. The child that will run the command asks the helper, which moves this child into the
 * group. Then this process reads the group's figures, as root would.
 *
 * The command may end before processes that it has started. Such processes may have pages on the device, so this
 * process waits until the last one has ended.
 *
 * Threads: one.
 */
#include "cli/disk/disk_daemon.h"
#include "cli/helper/helper_call.h"
#include "cli/run/run_child.h"
#include "cli/run/run_live.h"
#include "cli/run/run_options.h"
#include "cli/run/run_report.h"
#include "cli/run/run_space.h"
#include "cli/swap/swap_space.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REST_MS 20 /* time between two checks for processes of the command */
#define TIMEOUT_MIN_MS 100u
#define TIMEOUT_MAX_MS 600000u
#define V2_LOOK_MS 100

struct swap_run {
	const struct run_options *options;
	struct run_space space;
	struct run_group_use use;
	struct run_live *live; /* NULL if there is none */
	uint64_t started_ns;
	int socket; /* the connection to the helper, or -1 without a helper */
	bool told_rest;
};

static bool has_frontend(char ret_why[FRONTENDS_NOTE_MAX])
{
	if (frontends_any(ret_why))
		return true;
	disk_daemon_load_ublk();
	return frontends_any(ret_why) != NULL;
}

bool run_swap_by_helper(const struct run_options *options)
{
	return geteuid() != 0 && !options->swap;
}

int run_swap_check(const struct run_options *options, char ret_why[RUN_WHY_MAX])
{
	char why[FRONTENDS_NOTE_MAX];
	struct run_group unused;

	if (run_swap_by_helper(options) && helper_call_possible())
		return 0;
	if (run_swap_by_helper(options))
		snprintf(ret_why, RUN_WHY_MAX,
			 "root: use sudo, or ask for membership in the group farpage and for farpage-helper.socket to "
			 "be enabled");
	else if (geteuid() != 0)
		snprintf(ret_why, RUN_WHY_MAX, "root: use sudo");
	else if (access("/proc/swaps", F_OK) < 0)
		snprintf(ret_why, RUN_WHY_MAX, "a kernel that can swap (CONFIG_SWAP)");
	else if (options->swap)
		return run_group_place("check", 0, &unused, ret_why);
	else if (!swap_space_has_mkswap())
		snprintf(ret_why, RUN_WHY_MAX, "mkswap: install util-linux");
	else if (!has_frontend(why))
		snprintf(ret_why, RUN_WHY_MAX, "a block device: %s", why);
	else
		return run_group_place("check", 0, &unused, ret_why);
	return -EPERM;
}

/* --- The command ------------------------------------------------------------------------------------------------ */

static int enter(void *engine)
{
	struct swap_run *run = engine;

	run->started_ns = clock_now();
	return run_group_enter(&run->space.group);
}

/* Checks that the helper's device has what the user has asked for. Returns 0, or -ECANCELED after one logged line. */
static int check_answer(const struct run_options *options, const struct helper_answer *answer)
{
	const char *lacks = NULL;

	if (options->encrypt && !answer->encrypts)
		lacks = "it does not encrypt, and --encrypt is given";
	else if (options->backup)
		lacks = "it has no backup, and --backup is given";
	else if (options->replicas > answer->replicas)
		lacks = "it keeps fewer replicas than --replicas asks for";
	if (lacks)
		log_error("the helper's device does not fit: %s; the administrator may change [helper] in "
			  "/etc/farpage/farpage.ini",
			  lacks);
	return lacks ? -ECANCELED : 0;
}

/* The same as enter(), but by the helper. */
static int enter_by_helper(void *engine)
{
	struct swap_run *run = engine;
	struct helper_answer answer;

	if (helper_call_ask(run->socket, run->options->local, run->options->far, &answer) ||
	    check_answer(run->options, &answer))
		return -ECANCELED;
	run_group_attended(answer.group_version, answer.group, &run->space.group);
	run_device_taken(answer.device, answer.swap, &run->space.device);
	run->started_ns = clock_now();
	return 0;
}

static void live_update(struct swap_run *run)
{
	run_group_sum(&run->space.group, &run->use);
	run_live_begin(run->live);
	run->live->resident_bytes = run->use.bytes;
	run->live->far_bytes = run->use.swapped;
	run->live->faults = run_device_moved(&run->space.device).in;
	run->live->waiting_ns = run->use.stalled_us == UINT64_MAX ? RUN_LIVE_UNKNOWN : run->use.stalled_us * 1000;
	run_live_end(run->live);
}

static void look(void *engine, pid_t child)
{
	struct swap_run *run = engine;

	(void)child;
	run_group_look(&run->space.group, run_device_room(&run->space.device, run->use.swapped), &run->use);
	if (run_live_is_due(run->live))
		live_update(run);
}

static bool wait_for(void *engine, int fd, bool for_rest)
{
	struct swap_run *run = engine;
	const struct run_group *group = &run->space.group;
	unsigned count;

	if (!for_rest)
		return run_group_wait(group, fd, -1, &run->use);
	while ((count = run_group_count(group)) > 0) {
		if (!run->told_rest && !run->options->quiet)
			log_warning("the command has ended; %u process%s of it live%s on, and farpage run with %s",
				    count, count == 1 ? "" : "es", count == 1 ? "s" : "", count == 1 ? "it" : "them");
		run->told_rest = true;
		if (run_group_wait(group, fd, REST_MS, &run->use))
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

static int run_command(struct swap_run *run, const char *path, char **argv, int *ret_wait_status)
{
	const struct run_options *options = run->options;
	bool by_helper = run->socket >= 0, cares = !by_helper && run->space.group.version == CONTROL_GROUP_V1;
	const struct run_attendant attendant = {.engine = run,
						.look_ms = cares ? RUN_GROUP_LOOK_MS : V2_LOOK_MS,
						.enter = by_helper ? enter_by_helper : enter,
						.look = look,
						.wait = wait_for};
	int status = run_child(path, argv, &attendant, ret_wait_status);

	if (status)
		return status;
	if (by_helper && access(run->space.group.folder, F_OK) < 0) /* the helper was ended, and no figures are left */
		return options->strict ? RUN_FAILED : 0;
	struct run_transfers moved = run_device_moved(&run->space.device);
	run_group_sum(&run->space.group, &run->use);
	uint64_t wall_ns = clock_now() - run->started_ns;
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
	/* The child that asks the helper fills in what this process then reads. */
	struct swap_run *run = mmap(NULL, sizeof *run, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = RUN_FAILED;

	if (run == MAP_FAILED) {
		log_error("cannot allocate memory: %m");
		return RUN_FAILED;
	}
	if (check_sizes(options))
		return RUN_FAILED;
	signal(SIGCHLD, SIG_DFL); /* if SIGCHLD were ignored, the status of every child would be lost */
	*run = (struct swap_run){.options = options, .socket = -1};
	bool by_helper = run_swap_by_helper(options);
	if (by_helper)
		run->socket = helper_call_open();
	if (by_helper && !options->quiet)
		log_warning("the helper uses the administrator's donors, key and timeout, not those given here");
	if (by_helper ? run->socket >= 0 : !run_space_make(options, donors, 0, &run->space)) {
		run->live = run_live_open("swap", options->local, argv);
		status = run_command(run, path, argv, ret_wait_status);
	}
	run_space_end(&run->space);
	if (run->socket >= 0)
		helper_call_end(run->socket, run->started_ns);
	return status;
}

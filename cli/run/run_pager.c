/*
 * run_pager: the engine of `farpage run` that loads libfarpage-preload.so into the command.
 *
 * Theory of operation. LD_PRELOAD makes the loader load this library before all other libraries of the command. The
 * library reads its options from the environment (pager/preload/settings.h). Its pager writes its counts to a
 * report that this process has made (run_report.h). Children of the command inherit the environment, and so use the
 * same library and report.
 *
 * Threads: one.
 */
#include "cli/beside.h"
#include "cli/run/run_child.h"
#include "cli/run/run_coverage.h"
#include "cli/run/run_live.h"
#include "cli/run/run_options.h"
#include "cli/run/run_report.h"
#include "cli/run/run_watch.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "common/process.h"
#include "common/user.h"
#include "pager/pager.h"
#include "pager/uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define WINDOW_MIN (UINT64_C(16) << 30)
/* A window of this number of slabs has room for address ranges that programs reserve and never use, and its
   bookkeeping is small. */
#define WINDOW_SLABS 2048
#define WINDOW_MAX (UINT64_C(1) << 40)
#define TEXT_MAX (120u << 10) /* the kernel accepts at most 128 KiB for a variable */

struct pager_run {
	struct run_watch watch;
	struct run_report report;
	struct run_coverage coverage;
	struct run_live *live; /* NULL if there is none */
};

/* Returns a line that says why this process cannot use userfaultfd, or NULL if it can. The process may lack a right, or
   the kernel may lack userfaultfd. The pager needs the right to handle faults of system calls, too. */
static const char *userfaultfd_lacks(void)
{
	int fd = uffd_new(O_NONBLOCK);

	if (fd < 0)
		return uffd_lacks(fd) ? uffd_lacks(fd) : strerror(-fd);
	close(fd);
	return NULL;
}

int run_pager_check(const struct run_options *options, const char *path, char ret_why[RUN_WHY_MAX])
{
	int status = run_program_check(path, ret_why);
	const char *lacking = status ? NULL : userfaultfd_lacks();

	if (!status && !lacking)
		lacking = pager_kernel_lacks(options->unsafe_dio);
	if (!lacking)
		return status;
	snprintf(ret_why, RUN_WHY_MAX, "%s: %s", path, lacking);
	return -EPERM;
}

/* Finds the preload library: at $FARPAGE_PRELOAD_LIBRARY, relative to this program, or where it is installed.
   Returns 0, or -ENOENT after one logged line. */
static int find_library(char ret_path[PATH_MAX])
{
	static const char *const folders[] = {"", "../pager/preload/", "../lib/farpage/", FARPAGE_LIBRARY_DIR "/"};
	static const char name[] = "libfarpage-preload.so";
	const char *told = getenv("FARPAGE_PRELOAD_LIBRARY");
	bool found = told ? realpath(told, ret_path) != NULL
			  : beside_find(folders, sizeof folders / sizeof folders[0], name, ret_path);

	if (!found)
		log_error("cannot find %s; FARPAGE_PRELOAD_LIBRARY can name it", told ? told : name);
	else if (strpbrk(ret_path, " :"))
		log_error("the loader takes no library whose path has a space or a colon: %s", ret_path);
	else
		return 0;
	return -ENOENT;
}

static void set_number(const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "%llu", (unsigned long long)value);
	if (value)
		setenv(name, text, 1);
	else
		unsetenv(name);
}

static void set_text(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static int set_donors(const struct config_list *donors)
{
	char text[TEXT_MAX] = "";
	size_t used = 0;

	for (unsigned i = 0; i < donors->count; i++) {
		used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "," : "", donors->items[i]);
		if (used >= sizeof text) {
			log_error("the donors' names are too long");
			return -E2BIG;
		}
	}
	set_text("FARPAGE_DONORS", text);
	return 0;
}

static uint64_t window_size(const struct run_options *options, const struct run_donors *donors)
{
	uint64_t all = donors->free_bytes + options->local, size = WINDOW_SLABS * donors->slab_bytes;

	if (size < WINDOW_MIN)
		size = WINDOW_MIN;
	if (size > WINDOW_MAX || all > WINDOW_MAX / 4)
		return WINDOW_MAX;
	return size > 4 * all ? size : 4 * all;
}

/* Libraries for message passing overwrite the program's mmap and munmap, to learn when memory goes away that they have
   registered with a network device. Then the preload library does not see this memory. These variables switch that off,
   and the libraries register memory anew for each message. A value that the user has set stays. */
static void unhook_libraries(void)
{
	setenv("UCX_MEM_EVENTS", "n", 0);
	setenv("OMPI_MCA_memory", "^patcher", 0);
	setenv("FI_MR_CACHE_MONITOR", "disabled", 0);
}

/* Sets the environment variables that the preload library reads. Returns 0, or -errno after one logged line. */
static int set_environment(const struct run_options *options, const struct run_donors *donors,
			   const struct run_report *report)
{
	char library[PATH_MAX], preload[2 * PATH_MAX], key[PATH_MAX], backup[PATH_MAX], pids[32] = "";
	const char *others = getenv("LD_PRELOAD");
	int error = find_library(library);

	if (!error)
		error = set_donors(&options->donors);
	if (error)
		return error;
	if (options->key_file && !realpath(options->key_file, key)) {
		log_error("cannot find key file %s: %s", options->key_file, strerror(errno));
		return -errno;
	}
	error = options->backup ? config_absolute_path(options->backup, backup) : 0;
	if (error) {
		log_error("--backup %s: cannot tell the whole path: %s", options->backup, strerror(-error));
		return error;
	}
	bool append = others && *others;
	snprintf(preload, sizeof preload, "%s%s%s", library, append ? ":" : "", append ? others : "");
	set_text("LD_PRELOAD", preload);
	set_text("FARPAGE_KEY_FILE", options->key_file ? key : NULL);
	set_text("FARPAGE_DONORS_FILE", options->donors_file);
	set_text("FARPAGE_REPORT", report->path);
	set_text("FARPAGE_REPORT_PIDS", readlink("/proc/self/ns/pid", pids, sizeof pids - 1) > 0 ? pids : NULL);
	set_text("FARPAGE_USER", user_name());
	set_number("FARPAGE_LOCAL", options->local);
	set_number("FARPAGE_WINDOW", window_size(options, donors));
	set_number("FARPAGE_REPLICAS", options->replicas);
	set_number("FARPAGE_SCRUB_RATE", options->scrub_rate);
	set_number("FARPAGE_ENCRYPT", options->encrypt);
	set_number("FARPAGE_UNSAFE_DIO", options->unsafe_dio);
	set_number("FARPAGE_VERBOSE", options->verbose);
	set_text("FARPAGE_BACKUP", options->backup ? backup : NULL);
	set_number("FARPAGE_TIMEOUT_MS", options->timeout_ms);
	set_number("FARPAGE_PREFETCH", options->prefetch);
	set_number("FARPAGE_SPIN_US", options->spin_us);
	unhook_libraries();
	return 0;
}

/* Returns the processor time in user mode, in ns, of all processes that have started a pager, and of their children
   that have ended. Leaves out processes that have ended. */
static uint64_t computing_so_far(const struct report *report)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < REPORT_SLOTS; i++) {
		pid_t pid = __atomic_load_n(&report->slots[i].pid, __ATOMIC_ACQUIRE);
		struct process process;

		if (pid > 0 && process_look(pid, &process) == 0)
			sum += process.user_ns;
	}
	return sum;
}

static void live_update(struct pager_run *run)
{
	struct run_summary summary = {.advice = {.local_bytes = run->live->local_bytes,
						 .wall_ns = clock_now() - run->live->started_ns,
						 .computing_ns = computing_so_far(run->report.shared)}};

	run_report_sum(&run->report, &summary);
	run_live_begin(run->live);
	run->live->resident_bytes = summary.resident_now;
	run->live->far_bytes = summary.far_now;
	run->live->outside_bytes = run->coverage.outside_bytes;
	run->live->faults = summary.stats.faults_far;
	run->live->waiting_ns = summary.advice.waiting_ns;
	run->live->advice = summary.advice;
	run_live_end(run->live);
}

static void look(void *engine, pid_t child)
{
	struct pager_run *run = engine;
	struct run_summary unused = {0};

	if (!run->coverage.ended)
		run_coverage_look(&run->coverage, child);
	if (run_live_is_due(run->live))
		live_update(run);
	else
		run_report_sum(&run->report, &unused); /* frees slots */
}

static bool wait_for(void *engine, int fd, bool for_rest)
{
	struct pager_run *run = engine;

	return run_watch_wait(&run->watch, fd, for_rest);
}

/* Prints the summary at the end. Returns false if the run fails because of --strict. */
static bool report_end(const struct run_options *options, struct pager_run *run, uint64_t started_ns)
{
	struct rusage usage;
	struct run_summary summary = {.outside_bytes = run->coverage.outside_bytes,
				      .advice = {.local_bytes = options->local, .wall_ns = clock_now() - started_ns}};

	if (!getrusage(RUSAGE_CHILDREN, &usage)) {
		summary.peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
		summary.advice.computing_ns =
		    (uint64_t)usage.ru_utime.tv_sec * 1000000000 + (uint64_t)usage.ru_utime.tv_usec * 1000;
	}
	run_report_sum(&run->report, &summary);
	if (!options->quiet)
		run_report_print(&summary);
	if (options->stats_file)
		run_report_save(&summary, options->stats_file);
	return !run->coverage.ended && !(options->strict && summary.stats.children_stopped);
}

static int run_watched(const struct run_options *options, struct pager_run *run, const char *path, char **argv,
		       int *ret_wait_status)
{
	const struct run_attendant attendant = {
	    .engine = run, .look_ms = RUN_COVERAGE_LOOK_MS, .look = look, .wait = wait_for};
	uint64_t started_ns = clock_now();
	int status = run_child(path, argv, &attendant, ret_wait_status);

	return !status && !report_end(options, run, started_ns) ? RUN_FAILED : status;
}

int run_pager(const struct run_options *options, const struct run_donors *donors, const char *path, char **argv,
	      int *ret_wait_status)
{
	static struct pager_run run;
	int error = run_watch_open(&run.watch), status = RUN_FAILED;

	if (!error)
		error = run_report_open(run.watch.path, &run.report);
	if (error) {
		log_error("cannot make the report: %s", strerror(-error));
		return RUN_FAILED;
	}
	run.coverage = (struct run_coverage){
	    .report = run.report.shared, .local_bytes = options->local, .strict = options->strict};
	run.live = run_live_open("pager", options->local, argv);
	if (!set_environment(options, donors, &run.report))
		status = run_watched(options, &run, path, argv, ret_wait_status);
	run_report_close(&run.report);
	run_watch_close(&run.watch);
	return status;
}

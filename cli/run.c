/*
 * farpage run: runs a program with part of its memory on donors.
 *
 * Theory of operation. Everything that could go wrong later is looked at first: the options, the program, the right to
 * userfaultfd, every donor. Then the command runs as a child with libfarpage-preload.so in front of its libraries,
 * which learns all it needs from the environment (pager/preload/settings.h) and counts into a report that this process
 * keeps. Children of the command inherit both. At the end: a summary, and the command's own exit status or signal.
 *
 * Threads: one, but for ask_all(), which joins its own.
 */
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/run_child.h"
#include "cli/run_coverage.h"
#include "cli/run_donors.h"
#include "cli/run_program.h"
#include "cli/run_report.h"
#include "cli/run_watch.h"
#include "client/backup_disk.h"
#include "common/auth.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "common/machine.h"
#include "common/size.h"
#include "pager/pager.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Every donor has answered, or has been named, within two seconds. */
#define ANSWER_MS 1800
#define WINDOW_MIN (UINT64_C(16) << 30)
#define WINDOW_SLABS                                                                                                   \
	2048 /* so many cost little bookkeeping, and leave room for what programs reserve and never use                \
	      */
#define WINDOW_MAX (UINT64_C(1) << 40)
#define BUDGET_UNIT (UINT64_C(1) << 20) /* of a budget that is chosen here */
#define TEXT_MAX (CONFIG_LIST_MAX * 300)

struct run_options {
	uint64_t local, far, scrub_rate;
	struct config_list donors;
	const char *key_file, *stats_file, *config_file, *backup;
	unsigned replicas, timeout_ms, prefetch, spin_us;
	bool quiet, strict, encrypt, unsafe_dio;
};

static int usage_help(const struct config_setting *settings)
{
	printf("usage: farpage run [--local SIZE] [--donor URI...] [OPTION...] [--] COMMAND [ARGUMENT...]\n\n"
	       "Runs COMMAND with at most SIZE of its heap and large mappings in this machine's memory; the rest is\n"
	       "lent by the donors. The budget is that of each process of the command. Options:\n\n");
	config_help(settings);
	printf(
	    "\nA summary goes to standard error when the command has ended. The exit status is the command's; 125 if\n"
	    "farpage failed, 126 if the command cannot be run (or given far memory), 127 if it was not found.\n\n"
	    "example: farpage run --local 256M --donor tcp://10.0.0.7 --key farpage.key -- sort big.txt\n");
	return COMMAND_OK;
}

/* Options of the command line and the configuration. Returns the index of the command, 0 after --help, -EINVAL after
   one line. */
static int read_options(int argc, char **argv, struct run_options *options)
{
	const struct config_setting settings[] = {
	    {"local", CONFIG_SIZE, &options->local, 1, 0, "SIZE",
	     "memory on this machine, for each process (default: half of what is available)"},
	    {"donor", CONFIG_LIST, &options->donors, 0, 0, "URI", "a donor, tcp://HOST[:PORT]; give one or several"},
	    {"far", CONFIG_SIZE, &options->far, 0, 0, "SIZE", "do not start unless the donors have this much free"},
	    {"key", CONFIG_STRING, &options->key_file, 0, 0, "FILE", "the key shared with the donors"},
	    {"replicas", CONFIG_NUMBER, &options->replicas, 1, FAR_REPLICAS_MAX, "N",
	     "donors that hold each page (default 1)"},
	    {"scrub-rate", CONFIG_SIZE, &options->scrub_rate, 0, 0, "SIZE",
	     "bytes a second of pages at rest that are read and checked (default 2M; 0: none)"},
	    {"encrypt", CONFIG_FLAG, &options->encrypt, 0, 0, NULL,
	     "encrypt pages before they leave, with a key that stays here"},
	    {"unsafe-dio", CONFIG_FLAG, &options->unsafe_dio, 0, 0, NULL,
	     "the command does no direct I/O: copy out what the kernel cannot move (Linux before 6.8: all pages)"},
	    {"backup", CONFIG_STRING, &options->backup, 0, 0, "PATH",
	     "a file or block device: keep a copy of all pages on this local disk, should all donors of one die"},
	    {"timeout-ms", CONFIG_NUMBER, &options->timeout_ms, 1, 3600000, "MS",
	     "a donor out of reach for this long is lost (default 600000; with another copy 5000)"},
	    {"prefetch", CONFIG_NUMBER, &options->prefetch, 1, 256, "PAGES",
	     "longest read-ahead (default 64; 1: none)"},
	    {"spin-us", CONFIG_NUMBER, &options->spin_us, 1, 1000000, "US",
	     "how long to poll for an answer before sleeping (default 50)"},
	    {"stats", CONFIG_STRING, &options->stats_file, 0, 0, "FILE", "write what was counted to FILE, as JSON"},
	    {"strict", CONFIG_FLAG, &options->strict, 0, 0, NULL,
	     "end the command, with 125, when a process has more than --local outside farpage's reach"},
	    {"quiet", CONFIG_FLAG, &options->quiet, 0, 0, NULL, "no summary"},
	    {"config", CONFIG_STRING, &options->config_file, 0, 0, "FILE", "read options from [run] of FILE, too"},
	    {0},
	};
	int first = defaults_read(settings, "run", argc, argv, "--config");
	if (first == -ECANCELED) {
		usage_help(settings);
		return 0;
	}
	if (first < 0)
		return -EINVAL;
	const char *wrong = NULL;
	if (first >= argc)
		wrong = "a command is missing";
	else if (!options->donors.count)
		wrong = "no donor is named, by --donor URI or in a file of defaults (farpage(1))";
	if (wrong)
		log_error("run: %s; farpage run --help tells more", wrong);
	else if (options->replicas > options->donors.count)
		log_error("run: --replicas %u: only %u donor%s given; give as many at least", options->replicas,
			  options->donors.count, options->donors.count == 1 ? " is" : "s are");
	else
		return first;
	return -EINVAL;
}

/* Half of what is available, where nothing is said. */
static int choose_budget(struct run_options *options)
{
	char text[SIZE_TEXT_MAX];
	struct machine_memory memory;
	int error = machine_memory_read(&memory);
	if (error) {
		log_error("cannot tell how much memory is available: %s; give --local SIZE", strerror(-error));
		return error;
	}
	options->local = memory.available / 2 / BUDGET_UNIT * BUDGET_UNIT;
	if (!options->quiet)
		log_warning("--local is not given: %s for each process, half of what is available",
			    size_format(options->local, text));
	return 0;
}

static int check_budget(struct run_options *options)
{
	char local[SIZE_TEXT_MAX], text[SIZE_TEXT_MAX];
	const char *with;
	uint64_t least = pager_local_least(options->backup, options->encrypt, &with);
	if (!options->local && choose_budget(options))
		return -EINVAL;
	if (options->local >= least)
		return 0;
	log_error("--local %s is too little; the least that works%s is %s", size_format(options->local, local), with,
		  size_format(least, text));
	return -EINVAL;
}

/* May processes of this user handle faults of the kernel (system calls on far memory), too? */
static int check_userfaultfd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	int error = fd < 0 ? errno : 0;
	if (error == EPERM) {
		int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
		if (device >= 0) {
			fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
			close(device);
		}
	}
	if (fd >= 0) {
		close(fd);
		return 0;
	}
	if (error == EPERM)
		log_error(
		    "no right to use userfaultfd: run as root, or have root do `sysctl vm.unprivileged_userfaultfd=1`"
		    " or give you access to /dev/userfaultfd");
	else if (error == ENOSYS)
		log_error("this kernel has no userfaultfd; Linux 5.7 or newer with CONFIG_USERFAULTFD is needed");
	else
		log_error("cannot use userfaultfd: %s", strerror(error));
	return -error;
}

static int check_donors(const struct run_options *options, struct run_donors *ret_donors)
{
	static uint8_t key[AUTH_KEY_SIZE];
	struct far_config config = {.donors = options->donors.items,
				    .donor_count = options->donors.count,
				    .replicas = options->replicas,
				    .encrypt = options->encrypt,
				    .backup = options->backup,
				    .fabric = FABRIC_CONFIG_DEFAULT};
	char wanted[SIZE_TEXT_MAX], unused[SIZE_TEXT_MAX];
	uint64_t free_bytes;
	config.fabric.connect_ms = ANSWER_MS;
	int error = options->key_file ? auth_key_load_or_tell(options->key_file, key) : 0;
	if (options->key_file)
		config.key = key;
	if (!error)
		error = far_check(&config);
	if (!error)
		error = run_donors_check(&config, ret_donors);
	if (error)
		return error;
	free_bytes = ret_donors->free_bytes;
	if (!free_bytes || free_bytes < options->far) {
		if (options->far)
			log_error("--far %s is more than the donors have free%s: %s; add a donor or ask for less",
				  size_format(options->far, wanted),
				  options->replicas > 1 ? " for as many replicas" : "",
				  size_format(free_bytes, unused));
		else
			log_error("the donors have nothing free; `farpage donors` shows what each lends");
		return -ENOSPC;
	}
	return options->backup ? backup_disk_check(options->backup, free_bytes) : 0;
}

/* Where the preload library is: told, next to this program (build trees), or installed. */
static int find_library(char ret_path[PATH_MAX])
{
	static const char *const beside[] = {"", "../pager/preload/", "../lib/farpage/", FARPAGE_LIBRARY_DIR "/"};
	static const char name[] = "libfarpage-preload.so";
	const char *told = getenv("FARPAGE_PRELOAD_LIBRARY");
	char directory[PATH_MAX], candidate[2 * PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", directory, sizeof directory - 1);
	directory[length > 0 ? length : 0] = 0;
	if (strrchr(directory, '/'))
		strrchr(directory, '/')[1] = 0;
	bool found = told && realpath(told, ret_path);
	for (unsigned i = 0; !told && !found && i < sizeof beside / sizeof beside[0]; i++) {
		snprintf(candidate, sizeof candidate, "%s%s%s", *beside[i] == '/' ? "" : directory, beside[i], name);
		found = realpath(candidate, ret_path) != NULL;
	}
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

/* The same from any folder; it need not be there. False, and errno. */
static bool absolute_path(const char *path, char ret_path[PATH_MAX])
{
	char here[PATH_MAX] = "";
	if (*path != '/' && !getcwd(here, sizeof here))
		return false;
	errno = ENAMETOOLONG;
	return snprintf(ret_path, PATH_MAX, "%s%s%s", here, *here ? "/" : "", path) < PATH_MAX;
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

/* What the preload library reads. */
static int set_environment(const struct run_options *options, const struct run_donors *donors,
			   const struct run_report *report)
{
	char library[PATH_MAX], preload[2 * PATH_MAX], key[PATH_MAX], backup[PATH_MAX];
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
	if (options->backup && !absolute_path(options->backup, backup)) {
		log_error("--backup %s: cannot tell the whole path: %s", options->backup, strerror(errno));
		return -errno;
	}
	bool append = others && *others;
	snprintf(preload, sizeof preload, "%s%s%s", library, append ? ":" : "", append ? others : "");
	set_text("LD_PRELOAD", preload);
	set_text("FARPAGE_KEY_FILE", options->key_file ? key : NULL);
	set_text("FARPAGE_REPORT", report->path);
	set_number("FARPAGE_LOCAL", options->local);
	set_number("FARPAGE_WINDOW", window_size(options, donors));
	set_number("FARPAGE_REPLICAS", options->replicas);
	set_number("FARPAGE_SCRUB_RATE", options->scrub_rate);
	set_number("FARPAGE_ENCRYPT", options->encrypt);
	set_number("FARPAGE_UNSAFE_DIO", options->unsafe_dio);
	set_text("FARPAGE_BACKUP", options->backup ? backup : NULL);
	set_number("FARPAGE_TIMEOUT_MS", options->timeout_ms);
	set_number("FARPAGE_PREFETCH", options->prefetch);
	set_number("FARPAGE_SPIN_US", options->spin_us);
	return 0;
}

/* Returns false when --strict wants the run to count as failed. */
static bool report_end(const struct run_options *options, const struct run_report *report,
		       const struct run_coverage *coverage, uint64_t started_ns)
{
	struct rusage usage;
	struct run_summary summary = {.local_bytes = options->local,
				      .outside_bytes = coverage->outside_bytes,
				      .wall_ns = clock_now() - started_ns};
	if (!getrusage(RUSAGE_CHILDREN, &usage))
		summary.peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
	run_report_sum(report, &summary);
	if (!options->quiet)
		run_report_print(&summary);
	if (options->stats_file)
		run_report_save(&summary, options->stats_file);
	return !coverage->ended && !(options->strict && summary.stats.children_stopped);
}

int command_run(int argc, char **argv)
{
	/* config_read() gives strings that live until exit. */
	static struct run_options options = {.replicas = 1, .scrub_rate = FAR_SCRUB_RATE};
	static struct run_watch watch;
	struct run_report report;
	char path[PATH_MAX];
	struct run_donors donors;
	int first = read_options(argc, argv, &options);
	if (first <= 0)
		return first ? RUN_FAILED : COMMAND_OK;
	if (check_budget(&options))
		return RUN_FAILED;
	int status = run_program_check(argv[first], path);
	if (status)
		return status;
	if (check_userfaultfd() || pager_check_kernel(options.unsafe_dio) || check_donors(&options, &donors) ||
	    (options.stats_file && run_report_check(options.stats_file)))
		return RUN_FAILED;
	int error = run_watch_open(&watch);
	if (!error)
		error = run_report_open(watch.path, &report);
	if (error) {
		log_error("cannot make the report: %s", strerror(-error));
		return RUN_FAILED;
	}
	int wait_status = 0;
	status = RUN_FAILED;
	struct run_coverage coverage = {
	    .report = report.shared, .local_bytes = options.local, .strict = options.strict};
	if (!set_environment(&options, &donors, &report)) {
		uint64_t started_ns = clock_now();
		status = run_child(path, argv + first, &watch, &coverage, &wait_status);
		if (!status && !report_end(&options, &report, &coverage, started_ns))
			status = RUN_FAILED;
	}
	run_report_close(&report);
	run_watch_close(&watch);
	return status ? status : run_child_imitate(wait_status);
}

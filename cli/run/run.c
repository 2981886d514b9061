/*
 * farpage run: runs a program with part of its memory on donors.
 *
 * Theory of operation. First the command checks the options, the program, the requirements of the engine on this
 * machine, and every donor. Then the engine (run_options.h) runs the program as a child, and prints a summary. At
 * last this process ends as the program ended: with the same exit status, or by the same signal.
 *
 * Threads: one, except that ask_all() starts and joins its own.
 */
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/run/run_child.h"
#include "cli/run/run_choice.h"
#include "cli/run/run_donors.h"
#include "cli/run/run_options.h"
#include "cli/run/run_program.h"
#include "cli/run/run_report.h"
#include "common/config.h"
#include "common/donors_option.h"
#include "common/log.h"
#include "common/machine.h"
#include "common/size.h"
#include "pager/pager.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BUDGET_UNIT (UINT64_C(1) << 20) /* a default budget is rounded to a multiple of this */

static int usage_help(const struct config_setting *settings)
{
	printf(
	    "usage: farpage run [--local SIZE] [--donor URI...] [OPTION...] [--] COMMAND [ARGUMENT...]\n\n"
	    "Runs COMMAND with at most SIZE of its heap and large mappings in this machine's memory. The donors lend\n"
	    "the rest. The pager gives each process of the command that budget. The swap engine gives it to all of\n"
	    "them together, and can run any program, but needs root or farpage-helper(8). Options:\n\n");
	config_help(settings);
	printf(
	    "\nA summary goes to standard error when the command has ended. The exit status is the command's; 125 if\n"
	    "farpage failed, 126 if the command cannot be run (or given far memory), 127 if it was not found.\n\n"
	    "example: farpage run --local 256M --donor tcp://10.0.0.7 --key farpage.key -- sort big.txt\n");
	return COMMAND_OK;
}

/* Reads the options from the command line and the configuration. Returns the index of the command in @argv, 0 after
   --help, or -EINVAL after one logged line. */
static int read_options(int argc, char **argv, struct run_options *options)
{
	const struct config_setting settings[] = {
	    {"local", CONFIG_SIZE, &options->local, 1, 0, "SIZE",
	     "memory on this machine, for each process; with --engine swap for all (default: half of what is "
	     "available)"},
	    {"engine", CONFIG_STRING, &options->engine, 0, 0, "NAME",
	     "pager, swap, or auto: the pager if it can run the command well (default auto)"},
	    {"donor", CONFIG_LIST, &options->donors, 0, 0, "URI",
	     "a donor, tcp://HOST[:PORT]; give one or several, @FILE, or dns+srv://NAME"},
	    {"far", CONFIG_SIZE, &options->far, 0, 0, "SIZE", "do not start unless the donors have this much free"},
	    {"swap", CONFIG_STRING, &options->swap, 0, 0, "NAME",
	     "use the swap engine on a device of `farpage swap on`; none: do not"},
	    {"key", CONFIG_STRING, &options->key_file, 0, 0, "FILE", "the key shared with the donors"},
	    {"replicas", CONFIG_NUMBER, &options->replicas, 1, FAR_REPLICAS_MAX, "N",
	     "donors that hold each page (default 1)"},
	    {"scrub-rate", CONFIG_SIZE, &options->scrub_rate, 0, 0, "SIZE",
	     "how much the scrubber reads and checks per second (default 2M; 0: none)"},
	    {"encrypt", CONFIG_FLAG, &options->encrypt, 0, 0, NULL,
	     "encrypt pages before they leave, with a key that stays here"},
	    {"unsafe-dio", CONFIG_FLAG, &options->unsafe_dio, 0, 0, NULL,
	     "the command does no direct I/O: copy pages that the kernel cannot move (Linux before 6.8: all)"},
	    {"backup", CONFIG_STRING, &options->backup, 0, 0, "PATH",
	     "a file or block device: keep a copy of all pages there, in case all donors of a page die"},
	    {"timeout-ms", CONFIG_NUMBER, &options->timeout_ms, 1, 3600000, "MS",
	     "a donor out of reach for this long is lost (default 600000; with another copy in reach 5000)"},
	    {"prefetch", CONFIG_NUMBER, &options->prefetch, 1, 256, "PAGES",
	     "the pager's longest read-ahead (default 64; 1: none)"},
	    {"spin-us", CONFIG_NUMBER, &options->spin_us, 1, 1000000, "US",
	     "how long to poll for an answer before sleeping (default 50)"},
	    {"stats", CONFIG_STRING, &options->stats_file, 0, 0, "FILE", "write the statistics to FILE, as JSON"},
	    {"strict", CONFIG_FLAG, &options->strict, 0, 0, NULL,
	     "end the command with status 125 if memory outside farpage's reach exceeds --local; status 125 also if "
	     "processes were ended for lack of memory"},
	    {"quiet", CONFIG_FLAG, &options->quiet, 0, 0, NULL, "no summary"},
	    {"verbose", CONFIG_FLAG, &options->verbose, 0, 0, NULL,
	     "the pager logs more, such as each silence of a donor"},
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
	if (donors_option_expand(&options->donors, &options->donors_file) < 0)
		return -EINVAL;
	const char *wrong = NULL;
	if (options->swap && strcmp(options->swap, "none") == 0)
		options->swap = NULL;
	if (options->swap && strcmp(options->engine, "auto") == 0)
		options->engine = "swap";
	if (first >= argc)
		wrong = "a command is missing";
	else if (!options->donors.count && !options->swap)
		wrong = "no donor is named, by --donor URI or in a file of defaults (farpage.ini(5))";
	if (wrong)
		log_error("run: %s; farpage run --help tells more", wrong);
	else if (!run_choice_is_name(options->engine))
		log_error("run: --engine %s: give pager, swap, or auto", options->engine);
	else if (options->swap && strcmp(options->engine, "pager") == 0)
		log_error("run: --swap %s is for --engine swap; give --swap none if it is in a file of defaults",
			  options->swap);
	else if (!options->swap && options->replicas > options->donors.count)
		log_error("run: --replicas %u: only %u donor%s given; give as many at least", options->replicas,
			  options->donors.count, options->donors.count == 1 ? " is" : "s are");
	else
		return first;
	return -EINVAL;
}

/* The facts for the line about the budget, which is printed before the command starts. */
struct budget_note {
	bool chosen;      /* --local was not given, so the budget is half of the available memory */
	uint64_t machine; /* bytes of this machine's memory if the budget exceeds them, otherwise 0 */
};

static int choose_budget(struct run_options *options, struct budget_note *ret_note)
{
	struct machine_memory memory;
	int error = machine_memory_read(&memory);

	ret_note->chosen = !options->local;
	ret_note->machine = !error && options->local > memory.total ? memory.total : 0;
	if (options->local)
		return 0;
	if (error)
		log_error("cannot tell how much memory is available: %s; give --local SIZE", strerror(-error));
	else
		options->local = memory.available / 2 / BUDGET_UNIT * BUDGET_UNIT;
	return error;
}

static void tell_budget(const struct run_options *options, enum run_engine engine, const struct budget_note *note)
{
	char local[SIZE_TEXT_MAX], machine[SIZE_TEXT_MAX];

	size_format(options->local, local);
	if (note->chosen)
		log_warning("--local is not given: %s for %s, half of what is available", local,
			    engine == RUN_ENGINE_SWAP ? "all processes together" : "each process");
	if (note->machine)
		log_warning("--local %s bounds nothing: this machine has %s for the command", local,
			    size_format(note->machine, machine));
}

static int check_budget(struct run_options *options, enum run_engine engine, struct budget_note *ret_note)
{
	char local[SIZE_TEXT_MAX], text[SIZE_TEXT_MAX];
	const char *with = "";
	uint64_t least =
	    engine == RUN_ENGINE_SWAP ? RUN_SWAP_LEAST : pager_local_least(options->backup, options->encrypt, &with);

	if (choose_budget(options, ret_note))
		return -EINVAL;
	if (options->local >= least)
		return 0;
	log_error("--local %s is too little; the least that works%s is %s", size_format(options->local, local), with,
		  size_format(least, text));
	return -EINVAL;
}

/* Chooses the engine. @ret_line names it and the reason. Returns 0, or an enum run_status after one logged line. */
static int choose_engine(const struct run_options *options, const char *path, enum run_engine *ret_engine,
			 char ret_line[RUN_CHOICE_MAX])
{
	static char pager_why[RUN_WHY_MAX], swap_why[RUN_WHY_MAX];
	int pager = run_pager_check(options, path, pager_why);

	if (pager > 0) {
		log_error("cannot run %s", pager_why);
		return pager;
	}
	/* Does not check the swap engine if the pager was named, because this check may load a kernel module. */
	int swap = strcmp(options->engine, "pager") ? run_swap_check(options, swap_why) : 0;
	const struct run_choice choice = {.wanted = options->engine,
					  .path = path,
					  .pager_lacks = pager ? pager_why : NULL,
					  .swap_lacks = swap ? swap_why : NULL};
	*ret_engine = run_choose(&choice, ret_line);
	if (*ret_engine == RUN_ENGINE_NONE) {
		log_error("cannot run %s", ret_line);
		return pager == -ENOEXEC && strcmp(options->engine, "swap") ? RUN_NOT_EXECUTABLE : RUN_FAILED;
	}
	return 0;
}

int command_run(int argc, char **argv)
{
	/* static, because strings from config_read() are never freed */
	static struct run_options options = {.engine = "auto", .replicas = 1, .scrub_rate = FAR_SCRUB_RATE};
	static char line[RUN_CHOICE_MAX];
	char path[PATH_MAX];
	struct run_donors donors;
	enum run_engine engine;
	struct budget_note note;
	int wait_status = 0, first = read_options(argc, argv, &options);

	if (first <= 0)
		return first ? RUN_FAILED : COMMAND_OK;
	int status = run_program_find(argv[first], path);
	if (!status)
		status = choose_engine(&options, path, &engine, line);
	if (status)
		return status;
	bool lent = options.swap || (engine == RUN_ENGINE_SWAP && run_swap_by_helper(&options));
	if (check_budget(&options, engine, &note) || (!lent && run_donors_check(&options, &donors)) ||
	    (options.stats_file && run_report_check(options.stats_file)))
		return RUN_FAILED;
	if (!options.quiet)
		tell_budget(&options, engine, &note);
	if (!options.quiet && engine == RUN_ENGINE_PAGER && options.unsafe_dio && pager_kernel_lacks(false))
		log_warning(
		    "--unsafe-dio: what a device writes into far memory (O_DIRECT, io_uring, RDMA) may be lost");
	if (*line && !options.quiet)
		log_warning("%s", line);
	if (!options.quiet && run_choice_starts_elsewhere(path))
		log_warning(
		    "%s has programs started where farpage does not reach them: let it start `farpage run` instead",
		    argv[first]);
	status =
	    (engine == RUN_ENGINE_SWAP ? run_swap : run_pager)(&options, &donors, path, argv + first, &wait_status);
	return status ? status : run_child_imitate(wait_status);
}

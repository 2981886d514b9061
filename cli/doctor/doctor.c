/*
 * farpage doctor: checks whether far memory works with this host and its donors. internal.h explains the table of
 * checks.
 */
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/doctor/internal.h"
#include "cli/subcommands.h"
#include "common/donors_option.h"
#include "common/log.h"
#include "wire/auth.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_LEAST 40u

struct doctor_options {
	struct config_list donors;
	const char *key_file;
	uint64_t donate, swap;
	bool encrypt, json, verbose;
};

/* Returns true if no row before @row has the same reading function. */
static bool is_first_to_read(unsigned row)
{
	for (unsigned i = 0; i < row; i++)
		if (checks[i].read == checks[row].read)
			return false;
	return true;
}

/* Judges every check. A check that has no subject gets a skipped finding, because programs rely on each id in the
   output. */
static void walk(struct host *host, struct report *report)
{
	static const struct verdict none = {.status = SKIP, .found = "there is none, or none was named"};

	for (unsigned i = 0; i < checks_count; i++)
		if (is_first_to_read(i))
			checks[i].read(host);
	for (unsigned i = 0; i < checks_count; i++) {
		const struct check *check = &checks[i];

		check_each *each = host->client || !(check->purpose & FOR_CLIENTS) ? check->each : NULL;
		unsigned index = 0;

		for (*host->subject = '\0'; each ? each(host, index) : !index; index++) {
			struct verdict verdict = checks_judge(check, host);

			doctor_print_add(report, check, host->subject, &verdict);
		}
		if (!index)
			doctor_print_add(report, check, "", &none);
	}
}

/* Returns the columns of the terminal, or 0 if standard output is not a terminal. */
static unsigned terminal_width(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
		return 0;
	return size.ws_col >= WIDTH_LEAST ? size.ws_col : 80;
}

static int examine(const struct doctor_options *options, const uint8_t *key)
{
	static struct host host; /* too large for the stack */
	struct report report = {.verbose = options->verbose};
	unsigned width = terminal_width();
	int status = COMMAND_OK;

	host.donors = &options->donors;
	host.key = key;
	host.donate = options->donate;
	host.swap = options->swap;
	host.encrypt = options->encrypt;
	/* With --donate alone, it does not matter whether this host can run programs. */
	host.client = !options->donate || options->donors.count || options->swap;
	for (unsigned i = 0; i < options->donors.count; i++)
		host.rdma_wanted |= strncmp(options->donors.items[i], "rdma://", 7) == 0;
	walk(&host, &report);
	for (unsigned i = 0; i < report.count; i++)
		if (report.findings[i].verdict.status == FAIL)
			status = COMMAND_FAILED;
	if (report.truncated) {
		log_error("doctor: out of memory, some findings are missing");
		status = COMMAND_FAILED;
	}
	if (options->json)
		doctor_print_json(&report, stdout);
	else
		doctor_print_text(&report, stdout, width, width && !getenv("NO_COLOR"));
	free(report.findings);
	fabric_devices_free(&host.rdma);
	return status;
}

static const struct subcommands_text text = {
    .name = "doctor",
    .before =
	"usage: farpage doctor [--donor URI...] [--donate SIZE] [--swap SIZE] [OPTION...]\n\n"
	"Checks whether far memory works on this host, and how fast: RDMA devices, rights, limits, kernel,\n"
	"processors, and the named donors. Each finding is a pass, a warning (it works, but could work better) or a\n"
	"failure (it does not work). A warning or failure comes with its reason and a remedy. The command changes\n"
	"nothing on this host. Run it as the user, and in the container, that will run farpage.\n\n",
    .after = "\n"
	     "The exit status is 0 if nothing failed (warnings are allowed), 1 if something did, 2 for wrong usage.\n\n"
	     "  farpage doctor                                     can this host run programs on far memory?\n"
	     "  farpage doctor --donate 64G                        can it be a donor?\n"
	     "  farpage doctor --swap 64G --donor rdma://10.0.0.7  how safe would it be to swap to it?\n"
	     "  farpage doctor --donor rdma://10.0.0.7 --key FILE  does that donor answer, and over what?\n"
	     "  farpage doctor --json | jq '.[] | select(.status == \"fail\")'\n",
    .instead = "donors are named with --donor URI",
};

int command_doctor(int argc, char **argv)
{
	static struct doctor_options options; /* static, because strings from config_read() are never freed */
	const struct config_setting settings[] = {
	    {"donor", CONFIG_LIST, &options.donors, 0, 0, "URI",
	     "also check this donor, rdma://, tcp:// or auto://HOST[:PORT]; may be repeated; or @FILE, a donors file"},
	    {"key", CONFIG_STRING, &options.key_file, 0, 0, "FILE",
	     "the key shared with the donors (farpage key makes one)"},
	    {"donate", CONFIG_SIZE, &options.donate, 0, 0, "SIZE",
	     "check whether this host can lend that much; without --donor, check nothing else"},
	    {"swap", CONFIG_SIZE, &options.swap, 0, 0, "SIZE",
	     "check how safe a swap device of that size would be: unsafe conditions are failures"},
	    {"encrypt", CONFIG_FLAG, &options.encrypt, 0, 0, NULL, "with --swap: the device encrypts its pages"},
	    {"json", CONFIG_FLAG, &options.json, 0, 0, NULL, "print JSON: an array of findings"},
	    {"verbose", CONFIG_FLAG, &options.verbose, 0, 0, NULL,
	     "also show skipped checks, and why each passed check matters"},
	    {0},
	};
	uint8_t key[AUTH_KEY_SIZE];
	const char *file;
	int status = subcommands_begin(&text, settings, defaults_read(settings, NULL, argc, argv, NULL), argc, argv);

	if (status >= 0)
		return status;
	if (donors_option_expand(&options.donors, &file) < 0)
		return COMMAND_USAGE;
	if (options.key_file && !options.donors.count) {
		log_error("doctor: --key FILE is for donors, and none is named; add --donor URI");
		return COMMAND_USAGE;
	}
	if (options.encrypt && !options.swap) {
		log_error("doctor: --encrypt is for a swap device, and none is named; add --swap SIZE");
		return COMMAND_USAGE;
	}
	if (options.key_file && auth_key_load_or_tell(options.key_file, key) < 0)
		return COMMAND_FAILED;
	return examine(&options, options.key_file ? key : NULL);
}

/*
 * farpage doctor: checks whether this host and its donors suit far memory. doctor.h explains how it works.
 *
 * Threads: one, except that doctor_donors_probe() starts and joins its own.
 */
#include "cli/doctor/doctor.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/doctor/doctor_devices.h"
#include "cli/doctor/doctor_faults.h"
#include "cli/doctor/doctor_kernel.h"
#include "cli/doctor/doctor_left.h"
#include "cli/doctor/doctor_memory.h"
#include "cli/doctor/doctor_rdma.h"
#include "cli/doctor/doctor_reserves.h"
#include "cli/doctor/doctor_safety.h"
#include "cli/doctor/doctor_swap.h"
#include "common/auth.h"
#include "common/config.h"
#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* This limits each step of a conversation with a donor. */
#define CONNECT_MS 1500
#define WIDTH_LEAST 40u

static const struct doctor_check checks[] = {
    {"rdma.devices", "RDMA", "devices", doctor_rdma_devices},
    {"rdma.cm", "RDMA", "connecting", doctor_rdma_cm},
    {"rdma.port", "RDMA", "port", doctor_rdma_ports},
    {"rdma.mtu", "RDMA", "packets of", doctor_rdma_mtu},
    {"rdma.limits", "RDMA", "limits of", doctor_rdma_limits},
    {"faults.right", "Page faults", "userfaultfd", doctor_faults_right},
    {"faults.paging", "Page faults", "paging", doctor_faults_paging},
    {"faults.forks", "Page faults", "forks", doctor_faults_forks},
    {"memory.lock", "Memory", "locked memory", doctor_memory_lock},
    {"memory.donate", "Memory", "locked memory of a donor", doctor_memory_donate},
    {"memory.room", "Memory", "room", doctor_memory_room},
    {"memory.huge", "Memory", "transparent huge pages", doctor_memory_huge},
    {"memory.hugetlb", "Memory", "hugetlb pages", doctor_memory_hugetlb},
    {"memory.overcommit", "Memory", "overcommit", doctor_memory_overcommit},
    {"memory.maps", "Memory", "mappings of a process", doctor_memory_maps},
    {"kernel.version", "Kernel", "version", doctor_kernel_version},
    {"kernel.io_uring", "Kernel", "io_uring", doctor_kernel_ring},
    {"kernel.madvise", "Kernel", "process_madvise", doctor_kernel_madvise},
    {"kernel.pressure", "Kernel", "memory pressure", doctor_kernel_pressure},
    {"kernel.ublk", "Kernel", "ublk", doctor_devices_ublk},
    {"kernel.fuse", "Kernel", "FUSE", doctor_devices_fuse},
    {"cpu.count", "Processor", "processors", doctor_cpu_count},
    {"cpu.clock", "Processor", "clock", doctor_cpu_clock},
    {"cpu.seal", "Processor", "encryption", doctor_cpu_seal},
    {"donor.reach", "Donors", "donor", doctor_donors_reach},
    {"donor.free", "Donors", "room on", doctor_donors_free},
    {"donor.distance", "Donors", "way to", doctor_donors_distance},
    {"swap.rights", "Swap devices", "rights of the daemon", doctor_swap_rights},
    {"swap.group", "Swap devices", "control group", doctor_swap_group},
    {"swap.tools", "Swap devices", "tools", doctor_swap_tools},
    {"swap.readahead", "Swap devices", "readahead", doctor_swap_readahead},
    {"swap.reserves", "Swap devices", "reserves", doctor_reserves},
    {"swap.space", "Swap devices", "space", doctor_swap_space},
    {"swap.safety", "Swap devices", "swap by", doctor_safety},
    {"swap.device", "Swap devices", "device", doctor_left},
};
#define CHECKS (sizeof checks / sizeof checks[0])

struct doctor_options {
	struct config_list donors;
	const char *key_file;
	uint64_t donate, swap;
	bool json, verbose;
};

void doctor_add(struct doctor *doctor, const char *subject, const struct doctor_verdict *verdict)
{
	struct doctor_finding *finding;

	if (doctor->count == doctor->room) {
		unsigned room = doctor->room ? 2 * doctor->room : 64;
		struct doctor_finding *larger = realloc(doctor->findings, room * sizeof *larger);

		if (!larger) {
			doctor->truncated = true;
			return;
		}
		doctor->findings = larger;
		doctor->room = room;
	}
	finding = &doctor->findings[doctor->count++];
	*finding = (struct doctor_finding){.check = doctor->check, .verdict = *verdict};
	if (subject)
		snprintf(finding->subject, sizeof finding->subject, "%s", subject);
}

/* Runs all checks. A check without a finding gets a skipped one, so that programs find every id in the output. */
static void run_checks(struct doctor *doctor)
{
	for (unsigned i = 0; i < CHECKS; i++) {
		unsigned before = doctor->count;

		doctor->check = &checks[i];
		checks[i].run(doctor);
		if (doctor->count == before) {
			struct doctor_verdict none = doctor_judged(DOCTOR_SKIP, "", "there is none, or none was named");

			doctor_add(doctor, NULL, &none);
		}
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

static int exit_status(const struct doctor *doctor)
{
	for (unsigned i = 0; i < doctor->count; i++)
		if (doctor->findings[i].verdict.status == DOCTOR_FAIL)
			return COMMAND_FAILED;
	return COMMAND_OK;
}

static int examine(const struct doctor_options *options, const uint8_t *key)
{
	struct doctor doctor = {.donate = options->donate, .swap = options->swap, .verbose = options->verbose};
	struct donor_probe probes[CONFIG_LIST_MAX];
	unsigned width = terminal_width();
	int status = fabric_devices_read(&doctor.devices);

	if (status) {
		log_error("doctor: cannot list RDMA devices: %s", strerror(-status));
		return COMMAND_FAILED;
	}
	/* A host that only lends need not be able to run programs. */
	doctor.client = !options->donate || options->donors.count || options->swap;
	for (unsigned i = 0; i < options->donors.count; i++)
		doctor.rdma_wanted |= strncmp(options->donors.items[i], "rdma://", 7) == 0;
	doctor_donors_probe(options->donors.items, options->donors.count, key, CONNECT_MS, probes);
	doctor.probes = probes;
	doctor.probe_count = options->donors.count;
	run_checks(&doctor);
	status = exit_status(&doctor);
	if (doctor.truncated) {
		log_error("doctor: out of memory, some findings are missing");
		status = COMMAND_FAILED;
	}
	if (options->json)
		doctor_print_json(&doctor, stdout);
	else
		doctor_print_text(&doctor, stdout, width, width && !getenv("NO_COLOR"));
	free(doctor.findings);
	fabric_devices_free(&doctor.devices);
	return status;
}

static void doctor_help(const struct config_setting *settings)
{
	printf(
	    "usage: farpage doctor [--donor URI...] [--donate SIZE] [--swap SIZE] [OPTION...]\n\n"
	    "Looks at what decides whether far memory works on this host, and how fast: RDMA devices, rights, limits,\n"
	    "kernel, processors, and the donors named. Each finding is a pass, a warning (works, and could work\n"
	    "better) or a failure (does not work); the latter two say why it matters and how to mend it. Nothing is\n"
	    "changed on this host. Run it as the user, and in the container, that will run farpage.\n\n");
	config_help(settings);
	printf(
	    "\n"
	    "The exit status is 0 if nothing failed (warnings are allowed), 1 if something did, 2 for wrong usage.\n\n"
	    "  farpage doctor                                     can this host run programs on far memory?\n"
	    "  farpage doctor --donate 64G                        can it be a donor?\n"
	    "  farpage doctor --swap 64G --donor rdma://10.0.0.7  how safe would it be to swap to it?\n"
	    "  farpage doctor --donor rdma://10.0.0.7 --key FILE  does that donor answer, and over what?\n"
	    "  farpage doctor --json | jq '.[] | select(.status == \"fail\")'\n");
}

static int check_usage(const struct doctor_options *options, int first, int argc, char **argv)
{
	if (first < argc)
		log_error("doctor: takes no argument \"%s\"; donors are named with --donor URI", argv[first]);
	else if (options->key_file && !options->donors.count)
		log_error("doctor: --key FILE is for donors, and none is named; add --donor URI");
	else
		return 0;
	return -EINVAL;
}

int command_doctor(int argc, char **argv)
{
	static struct doctor_options options; /* config_read() returns strings that live until exit */
	const struct config_setting settings[] = {
	    {.name = "donor",
	     .kind = CONFIG_LIST,
	     .value = &options.donors,
	     .argument = "URI",
	     .help = "also talk to this donor, rdma://, tcp:// or auto://HOST[:PORT]; can be repeated"},
	    {.name = "key",
	     .kind = CONFIG_STRING,
	     .value = &options.key_file,
	     .argument = "FILE",
	     .help = "the key shared with the donors (farpage key makes one)"},
	    {.name = "donate",
	     .kind = CONFIG_SIZE,
	     .value = &options.donate,
	     .argument = "SIZE",
	     .help = "judge this host as a donor of that much; without --donor, only as that"},
	    {.name = "swap",
	     .kind = CONFIG_SIZE,
	     .value = &options.swap,
	     .argument = "SIZE",
	     .help = "judge this host for a swap device of that much: what makes it unsafe fails"},
	    {.name = "json", .kind = CONFIG_FLAG, .value = &options.json, .help = "print JSON: an array of findings"},
	    {.name = "verbose",
	     .kind = CONFIG_FLAG,
	     .value = &options.verbose,
	     .help = "also show what was skipped, and why each thing that passed matters"},
	    {.name = NULL},
	};
	uint8_t key[AUTH_KEY_SIZE];
	int first = defaults_read(settings, NULL, argc, argv, NULL);

	if (first == -ECANCELED) {
		doctor_help(settings);
		return COMMAND_OK;
	}
	if (first < 0 || check_usage(&options, first, argc, argv) < 0)
		return COMMAND_USAGE;
	if (options.key_file && auth_key_load_or_tell(options.key_file, key) < 0)
		return COMMAND_FAILED;
	return examine(&options, options.key_file ? key : NULL);
}

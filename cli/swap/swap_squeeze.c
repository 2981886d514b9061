/*
 * farpage swap squeeze: reclaims the memory of a control group before the machine needs it, as far as the group's tasks
 * hardly wait for pages (squeeze.h, squeeze_group.h).
 *
 * The signals that end a command are blocked. They end the wait between two steps, and a long step between two of its
 * parts. Nothing must be undone then, because memory.reclaim leaves no limit behind.
 */
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/signals.h"
#include "cli/subcommands.h"
#include "cli/swap/squeeze.h"
#include "cli/swap/squeeze_group.h"
#include "cli/swap/swap.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define PART_BYTES (UINT64_C(32) << 20) /* signals are looked for after each such part of a step */
#define US 1000u                        /* in ns */
#define SECOND_NS UINT64_C(1000000000)

struct work {
	struct squeeze_rule rule;
	uint64_t floor;
	unsigned interval_s, for_s; /* for_s is 0 if only a signal ends the command */
	bool once, quiet, json;
	struct squeeze_group group;
	sigset_t stops;
	int stops_fd; /* is readable while one of `stops` is pending */
	struct squeeze squeeze;
	struct squeeze_use first, last;
	uint64_t stalled_us;        /* between the two uses */
	uint64_t began_ns, last_ns; /* the times of the two uses */
	unsigned steps;
	bool gone; /* the group no longer exists */
};

/* Parses a percentage such as "0.1%" or "5". It is above 0 and at most 100. Returns it in millionths, or 0. */
static uint32_t percent_parse(const char *text)
{
	uint64_t number = 0;
	unsigned decimals = 0;
	bool point = false;

	if (!*text || *text == '%')
		return 0;
	for (; *text && *text != '%'; text++) {
		if (*text == '.' && !point) {
			point = true;
			continue;
		}
		if (*text < '0' || *text > '9' || (point && ++decimals > 4) || number > SQUEEZE_WHOLE)
			return 0;
		number = number * 10 + (unsigned)(*text - '0');
	}
	if (*text && text[1])
		return 0;
	while (decimals++ < 4)
		number *= 10;
	return number <= SQUEEZE_WHOLE ? (uint32_t)number : 0;
}

/* --- What is printed -------------------------------------------------------------------------------------- */

/* Returns the share of the time that tasks waited, in percent. */
static double pressure(uint64_t stalled_us, uint64_t elapsed_ns)
{
	return elapsed_ns ? 100. * (double)stalled_us * US / (double)elapsed_ns : 0;
}

static void use_add(struct json_object *object, const struct squeeze_use *use, double percent)
{
	json_add_number(object, "bytes", use->size);
	json_add_number(object, "swapped_bytes", use->swapped);
	json_add_real(object, "pressure_percent", percent);
}

static void step_print(const struct work *work, const struct squeeze_use *use, double percent, uint64_t bytes)
{
	char size[SIZE_TEXT_MAX], swapped[SIZE_TEXT_MAX], next[SIZE_TEXT_MAX];
	struct json_object *object;

	if (work->json) {
		object = json_object_new_object();
		use_add(object, use, percent);
		json_add_number(object, "reclaim_bytes", bytes);
		json_print(object, true, stdout);
	} else if (!work->quiet && isatty(STDOUT_FILENO)) {
		printf("%s in memory, %s in swap, pressure %.3f%%, reclaims %s\n", size_format(use->size, size),
		       size_format(use->swapped, swapped), percent, size_format(bytes, next));
	}
	fflush(stdout);
}

static void sum_json(const struct work *work, double percent)
{
	struct json_object *object = json_object_new_object();

	json_add_text(object, "group", work->group.folder);
	json_add_number(object, "from_bytes", work->first.size);
	json_add_number(object, "steps", work->steps);
	json_add_flag(object, "gone", work->gone);
	use_add(object, &work->last, percent);
	json_print(object, true, stdout);
}

static void sum_print(const struct work *work)
{
	const uint64_t elapsed = work->last_ns - work->began_ns;
	const double percent = pressure(work->stalled_us, elapsed);
	char from[SIZE_TEXT_MAX], to[SIZE_TEXT_MAX];

	if (work->json)
		sum_json(work, percent);
	else if (!work->quiet)
		printf("%s: from %s to %s in %u step%s and %.0f s, mean pressure %.3f%%%s\n", work->group.folder,
		       size_format(work->first.size, from), size_format(work->last.size, to), work->steps,
		       work->steps == 1 ? "" : "s", (double)elapsed / (double)SECOND_NS, percent,
		       work->gone ? "; the group has ended" : "");
}

/* --- Steps ------------------------------------------------------------------------------------------------ */

/* Sleeps until @until, in ns of clock_now(), or until a signal is pending. The signal stays pending. */
static void sleep_until(const struct work *work, uint64_t until)
{
	struct pollfd stops = {.fd = work->stops_fd, .events = POLLIN};

	for (uint64_t now = clock_now(); now < until && !signals_came(&work->stops); now = clock_now()) {
		struct timespec left = {.tv_sec = (time_t)((until - now) / SECOND_NS),
					.tv_nsec = (long)((until - now) % SECOND_NS)};

		ppoll(&stops, 1, &left, NULL);
	}
}

/* Reclaims @bytes in parts. Returns 0, also if the kernel found less, or -errno. */
static int reclaim(const struct work *work, uint64_t bytes)
{
	int status = 0;

	while (bytes && status == 0 && !signals_came(&work->stops)) {
		uint64_t part = bytes < PART_BYTES ? bytes : PART_BYTES;

		status = squeeze_group_reclaim(&work->group, part);
		bytes -= part;
	}
	/* -EINTR: the user has stopped and continued the command. */
	return status == -EAGAIN || status == -EINTR ? 0 : status;
}

/* Returns when the current interval ends. With --for, the last interval may be shorter. */
static uint64_t interval_end(const struct work *work)
{
	const uint64_t end = work->last_ns + work->interval_s * SECOND_NS;
	const uint64_t last = work->began_ns + work->for_s * SECOND_NS;

	return work->for_s && last < end ? last : end;
}

/* Makes @use the last one. Returns how long tasks have waited since the use before. A service that was restarted has a
   new group at the same path, which counts from 0. */
static uint64_t use_note(struct work *work, const struct squeeze_use *use, uint64_t now)
{
	uint64_t stalled_us = use->stalled_us;

	if (use->stalled_us >= work->last.stalled_us)
		stalled_us -= work->last.stalled_us;
	else
		work->first = *use;
	work->stalled_us += stalled_us;
	work->last = *use;
	work->last_ns = now;
	return stalled_us;
}

/* Waits for the end of the interval, and does the step that follows. Returns 0, -ENOENT if the group no longer exists,
   or -errno. */
static int interval_run(struct work *work)
{
	struct squeeze_interval interval = {.room = 0};
	struct squeeze_use use;
	uint64_t now, bytes;
	int status;

	sleep_until(work, interval_end(work));
	now = clock_now();
	status = squeeze_group_read(&work->group, &use);
	if (status < 0)
		return status;
	interval.elapsed_us = (now - work->last_ns) / US;
	interval.stalled_us = use_note(work, &use, now);
	interval.size = use.size;
	interval.floor = use.reserved > work->floor ? use.reserved : work->floor;
	interval.room = use.room;
	if (signals_came(&work->stops))
		return 0;
	bytes = squeeze_step(&work->squeeze, &work->rule, &interval);
	step_print(work, &use, pressure(interval.stalled_us, interval.elapsed_us * US), bytes);
	work->steps++;
	return reclaim(work, bytes);
}

static bool is_over(const struct work *work)
{
	return signals_came(&work->stops) || (work->once && work->steps) ||
	       (work->for_s && work->last_ns - work->began_ns >= work->for_s * SECOND_NS);
}

/* Reads the group's size after the last step, for the summary. */
static int last_read(struct work *work)
{
	struct squeeze_use use;
	int status = squeeze_group_read(&work->group, &use);

	if (status == 0)
		use_note(work, &use, clock_now());
	return status;
}

static int squeeze_run(struct work *work)
{
	int status = squeeze_group_read(&work->group, &work->first);

	work->began_ns = work->last_ns = clock_now();
	work->last = work->first;
	squeeze_init(&work->squeeze);
	while (status == 0 && !is_over(work))
		status = interval_run(work);
	if (status == 0)
		status = last_read(work);
	work->gone = status == -ENOENT;
	if (status < 0 && !work->gone) {
		log_error("swap squeeze: %s: %s", work->group.folder, strerror(-status));
		return COMMAND_FAILED;
	}
	sum_print(work);
	return COMMAND_OK;
}

/* --- The command line ------------------------------------------------------------------------------------- */

static int squeeze_help(const struct config_setting *settings)
{
	printf("usage: farpage swap squeeze CGROUP [OPTION...]\n\n"
	       "Moves pages that the programs of a control group do not use to swap space, before the machine needs\n"
	       "the memory. After each interval it reclaims a small part of the group, and less or nothing the longer\n"
	       "the programs waited for memory. So the group shrinks to what it uses. Runs until Ctrl-C, or until the\n"
	       "group ends; nothing has to be undone then, because the group gets no limit.\n\n"
	       "CGROUP is named as systemd-cgls does, or is the path of a folder.\n\n");
	config_help(settings);
	printf("\n  farpage swap squeeze system.slice/backup.service --psi 0.1%%\n");
	return COMMAND_OK;
}

/* Reads the group's name and the options before and after it. Returns 0, -ECANCELED after --help, or -EINVAL after one
   logged line. */
static int words_read(const struct config_setting *settings, int argc, char **argv, const char **ret_name)
{
	int at = config_read(settings, NULL, argc, argv, NULL), rest;

	if (at < 0)
		return at;
	if (at == argc) {
		log_error("swap squeeze: which control group? Name one, like system.slice/backup.service");
		return -EINVAL;
	}
	*ret_name = argv[at];
	rest = config_read(settings, NULL, argc - at, argv + at, NULL);
	if (rest < 0)
		return rest;
	if (at + rest == argc)
		return 0;
	log_error("swap squeeze: one control group at a time; \"%s\" is too many", argv[at + rest]);
	return -EINVAL;
}

static int percent_read(const char *option, const char *text, uint32_t *ret_share)
{
	*ret_share = percent_parse(text);
	if (*ret_share)
		return 0;
	log_error("--%s %s: not a percentage above 0 and up to 100; write it like 0.1%%", option, text);
	return -EINVAL;
}

int swap_squeeze(int argc, char **argv)
{
	struct work work = {.floor = UINT64_C(64) << 20, .interval_s = 6};
	const char *psi = "0.1%", *max_step = "1%", *name = NULL;
	const struct config_setting settings[] = {
	    {"psi", CONFIG_STRING, &psi, 0, 0, "PERCENT", "the share of time that programs may wait for memory (0.1%)"},
	    {"interval", CONFIG_NUMBER, &work.interval_s, 1, 3600, "SECONDS", "the time between two steps (6)"},
	    {"max-step", CONFIG_STRING, &max_step, 0, 0, "PERCENT", "the largest step, as a part of the group (1%)"},
	    {"min", CONFIG_SIZE, &work.floor, 0, 0, "SIZE", "leave the group that much memory (64M)"},
	    {"once", CONFIG_FLAG, &work.once, 0, 0, NULL, "end after one interval and its step"},
	    {"for", CONFIG_NUMBER, &work.for_s, 1, 0, "SECONDS", "end after that time"},
	    {"quiet", CONFIG_FLAG, &work.quiet, 0, 0, NULL, "print no steps and no summary"},
	    {"json", CONFIG_FLAG, &work.json, 0, 0, NULL, "print a JSON object in a line for each step, and a summary"},
	    {0},
	};
	int status = words_read(settings, argc, argv, &name);
	sigset_t before;

	if (status == -ECANCELED)
		return squeeze_help(settings);
	if (status < 0 || percent_read("psi", psi, &work.rule.target) < 0 ||
	    percent_read("max-step", max_step, &work.rule.max_step) < 0)
		return COMMAND_USAGE;
	if (squeeze_group_open(name, &work.group) < 0)
		return COMMAND_FAILED;
	signals_block(&work.stops, &before);
	work.stops_fd = signalfd(-1, &work.stops, SFD_CLOEXEC);
	if (work.stops_fd < 0) {
		log_error("swap squeeze: cannot wait for signals: %m");
		return COMMAND_FAILED;
	}
	status = squeeze_run(&work);
	close(work.stops_fd);
	return status;
}

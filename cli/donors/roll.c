/* roll: see roll.h. */
#include "cli/donors/roll.h"

#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/donors/drain.h"
#include "cli/donors/holders.h"
#include "cli/donors/roll_check.h"
#include "cli/donors/roll_each.h"
#include "cli/json.h"
#include "cli/signals.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The time between two attempts to reach a donor that the command has restarted. */
#define ROLL_RETRY_NS 500000000L
#define ROLL_WHY_MAX 512
#define NO_STATUS (-1)

/* The ends of a donor's roll. */
enum roll_result {
	ROLL_DONE,
	ROLL_DRAIN_FAILED,
	ROLL_DRAIN_LATE,
	ROLL_INTERRUPTED,
	ROLL_COMMAND_FAILED,
	ROLL_NOT_BACK
};
static const char *const result_names[] = {
    [ROLL_DONE] = "rolled",
    [ROLL_DRAIN_FAILED] = "drain-failed",
    [ROLL_DRAIN_LATE] = "drain-late",
    [ROLL_INTERRUPTED] = "interrupted",
    [ROLL_COMMAND_FAILED] = "command-failed",
    [ROLL_NOT_BACK] = "not-back",
};

/* The last known state of a donor. The roll reports this state when it finishes the donor or stops. */
enum roll_left { LEFT_UNKNOWN, LEFT_LENDING, LEFT_DRAINED };
static const char *const left_names[] = {
    [LEFT_UNKNOWN] = "unknown",
    [LEFT_LENDING] = "lending",
    [LEFT_DRAINED] = "draining",
};
static const char *const left_words[] = {
    [LEFT_UNKNOWN] = "the donor does not answer, so it may be drained or lend",
    [LEFT_LENDING] = "the donor lends again",
    [LEFT_DRAINED] = "the donor stays drained",
};

struct roll {
	struct far_config config;
	struct drain drain; /* drain.visit is a visit to the donor whose turn it is */
	struct roll_each each;
	struct roll_donors donors;
	unsigned return_s;
	bool restarts;
	/* About the donor whose turn it is: */
	unsigned at;
	bool was_drained; /* before the roll */
	int status;       /* of the command, or NO_STATUS */
	enum roll_result result;
	enum roll_left left;
	char why[ROLL_WHY_MAX]; /* why the roll stops there */
};

static const struct roll_donor *donor_now(const struct roll *roll)
{
	return &roll->donors.of[roll->at];
}

/* Prints the step in a line on standard output. */
static void __attribute__((format(printf, 2, 3))) step_print(const struct roll *roll, const char *format, ...)
{
	va_list arguments;

	if (roll->drain.json)
		return;
	printf("[%u/%u] %s: ", roll->at + 1, roll->donors.count, donor_now(roll)->uri);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
}

/* Stores the result and the reason for this donor. Returns COMMAND_FAILED. */
static int __attribute__((format(printf, 3, 4)))
fail(struct roll *roll, enum roll_result result, const char *format, ...)
{
	va_list arguments;

	roll->result = result;
	va_start(arguments, format);
	vsnprintf(roll->why, sizeof roll->why, format, arguments);
	va_end(arguments);
	return COMMAND_FAILED;
}

/* Waits up to @ns for a signal that ends the roll. Returns the signal's number, or 0. */
static int signal_take(const struct roll *roll, long ns)
{
	const struct timespec wait = {.tv_nsec = ns};
	int number = sigtimedwait(&roll->each.stops, NULL, &wait);

	return number > 0 ? number : 0;
}

static double seconds_drained(const struct roll *roll)
{
	return (double)(clock_now() - roll->drain.began) / 1e9;
}

/* --- Draining -------------------------------------------------------------------------------------------- */

/* Drains the donor. Returns the exit status. */
static int drain_act(void *user)
{
	struct roll *roll = user;
	struct wire_message answer;
	char left[DRAIN_LEFT_MAX];
	int status = drain_order(&roll->drain, &answer);

	if (status == 0) {
		roll->left = LEFT_DRAINED;
		step_print(roll, "drains%s%s", answer.draining.slabs ? " " : "",
			   answer.draining.slabs ? drain_left(&roll->drain, &answer, left) : "");
		status = drain_wait(&roll->drain, &roll->each.stops, &answer);
	}
	switch (status) {
	case 0:
		return COMMAND_OK;
	case -ETIME:
		if (!roll->drain.json)
			holders_each(&roll->drain.visit, holders_print_line, stdout);
		return fail(roll, ROLL_DRAIN_LATE, "%s is not empty after %u s, with %s", donor_now(roll)->uri,
			    roll->drain.timeout_s, drain_left(&roll->drain, &answer, left));
	case -EINTR:
		return fail(roll, ROLL_INTERRUPTED, "stopped by signal %d during the drain of %s", signal_take(roll, 0),
			    donor_now(roll)->uri);
	case -EACCES: /* nothing has changed */
		roll->left = roll->was_drained ? LEFT_DRAINED : LEFT_LENDING;
		return COMMAND_FAILED;
	default:
		return COMMAND_FAILED;
	}
}

/* Makes the donor lend again. Returns the exit status. */
static int undrain_act(void *user)
{
	struct roll *roll = user;
	struct wire_message answer;

	if (drain_ask(&roll->drain, WIRE_DRAIN_END, &answer) < 0)
		return COMMAND_FAILED;
	roll->left = LEFT_LENDING;
	return COMMAND_OK;
}

/* Drains the donor. After a failure, tries to restore the donor's earlier state. Returns the exit status. */
static int step_drain(struct roll *roll)
{
	roll->drain.began = clock_now();
	if (visit_run(&roll->drain.visit, drain_act, roll) == COMMAND_OK)
		return COMMAND_OK;
	if (roll->left == LEFT_DRAINED && !roll->was_drained) {
		roll->left = LEFT_UNKNOWN;
		visit_run(&roll->drain.visit, undrain_act, roll);
	}
	return COMMAND_FAILED;
}

/* --- The command ----------------------------------------------------------------------------------------- */

/* Connects to the donor once, and logs nothing. Returns 0 or -errno. */
static int reach(struct roll *roll)
{
	struct visit *visit = &roll->drain.visit;
	struct operate_refusal refusal;

	return operate_try(&roll->config, visit->uri, &refusal, &visit->operate);
}

/* Drains the donor once more, because the command may have restarted it, and a restarted donor may have forgotten its
   drain. */
static void leave_drained(struct roll *roll)
{
	struct wire_message answer;

	roll->left = LEFT_UNKNOWN;
	if (reach(roll) < 0)
		return;
	if (drain_ask(&roll->drain, WIRE_DRAIN_WAIT, &answer) == 0)
		roll->left = LEFT_DRAINED;
	operate_close(roll->drain.visit.operate);
}

/* Runs the command. Returns the exit status of the roll. */
static int step_command(struct roll *roll)
{
	char text[ROLL_EACH_TEXT_MAX];
	int wait_status, number;

	step_print(roll, "empty after %.1f s; the command runs", seconds_drained(roll));
	if (roll_each_run(&roll->each, donor_now(roll)->uri, &wait_status, &number) < 0)
		return fail(roll, ROLL_COMMAND_FAILED, "the command for %s did not start", donor_now(roll)->uri);
	roll->status = roll_each_status(wait_status);
	roll_each_format(wait_status, text);
	if (number)
		return fail(roll, ROLL_INTERRUPTED, "stopped by signal %d during the command for %s, which %s", number,
			    donor_now(roll)->uri, text);
	if (roll->status)
		return fail(roll, ROLL_COMMAND_FAILED, "the command for %s %s", donor_now(roll)->uri, text);
	return COMMAND_OK;
}

/* --- The return ------------------------------------------------------------------------------------------ */

/* Waits until the donor answers, and with --restarts until it has been restarted. Returns COMMAND_OK and the open
   visit, or COMMAND_FAILED. */
static int step_return(struct roll *roll)
{
	const uint64_t end = clock_now() + roll->return_s * UINT64_C(1000000000);
	struct visit *visit = &roll->drain.visit;
	int status, number = 0;

	for (;;) {
		status = reach(roll);
		if (status == 0 &&
		    (!roll->restarts || operate_incarnation(visit->operate) != donor_now(roll)->incarnation))
			return COMMAND_OK;
		if (status == 0)
			operate_close(visit->operate);
		if (status == -EKEYREJECTED || status == -EPROTONOSUPPORT || clock_now() >= end)
			break;
		number = signal_take(roll, ROLL_RETRY_NS);
		if (number)
			return fail(roll, ROLL_INTERRUPTED, "stopped by signal %d before %s was back after its command",
				    number, visit->uri);
	}
	if (status == 0)
		return fail(roll, ROLL_NOT_BACK, "%s is not restarted %u s after its command", visit->uri,
			    roll->return_s);
	return fail(roll, ROLL_NOT_BACK, "%s is not back after its command (%s)", visit->uri, ask_reason(status));
}

/* Makes the donor of the open visit lend again, and closes the visit. Returns the exit status. */
static int step_undrain(struct roll *roll)
{
	int status = undrain_act(roll);

	operate_close(roll->drain.visit.operate);
	if (status != COMMAND_OK)
		return fail(roll, ROLL_NOT_BACK, "%s is not undrained", donor_now(roll)->uri);
	step_print(roll, "lends again after %.1f s", seconds_drained(roll));
	return COMMAND_OK;
}

/* --- All donors ------------------------------------------------------------------------------------------ */

/* Rolls the donor whose turn it is. Returns the exit status. */
static int donor_roll(struct roll *roll)
{
	const struct roll_donor *donor = donor_now(roll);

	roll->drain.visit.uri = donor->uri;
	roll->was_drained = donor->figures.state == WIRE_STATE_DRAINING;
	roll->status = NO_STATUS;
	roll->left = LEFT_UNKNOWN;
	fail(roll, ROLL_DRAIN_FAILED, "the drain of %s failed", donor->uri);
	if (step_drain(roll) != COMMAND_OK)
		return COMMAND_FAILED;
	if (step_command(roll) != COMMAND_OK || step_return(roll) != COMMAND_OK || step_undrain(roll) != COMMAND_OK) {
		leave_drained(roll);
		return COMMAND_FAILED;
	}
	roll->result = ROLL_DONE;
	return COMMAND_OK;
}

static void donor_json(const struct roll *roll)
{
	struct json_object *object = json_object_new_object();
	char seconds[32];

	json_add_text(object, "donor", donor_now(roll)->uri);
	snprintf(seconds, sizeof seconds, "%.3f", seconds_drained(roll));
	json_object_object_add(object, "drained_seconds", json_object_new_double_s(seconds_drained(roll), seconds));
	json_object_object_add(object, "command_status",
			       roll->status == NO_STATUS ? NULL : json_object_new_int(roll->status));
	json_add_text(object, "result", result_names[roll->result]);
	json_add_text(object, "state", left_names[roll->left]);
	json_print(object, true, stdout);
	fflush(stdout);
}

/* Logs where the roll has stopped, and how to continue. Returns COMMAND_FAILED. */
static int stop_tell(const struct roll *roll)
{
	const char *next = roll->at + 1 < roll->donors.count ? roll->donors.of[roll->at + 1].uri : NULL;
	bool touched = roll->left != LEFT_LENDING && next;

	log_error("donors roll: %s; %s; go on with --from %s%s%s", roll->why, left_words[roll->left],
		  donor_now(roll)->uri, touched ? ", or pass over this donor with --from " : "", touched ? next : "");
	return COMMAND_FAILED;
}

/* Checks all donors before the roll of the donor whose turn it is. Returns the exit status. */
static int donors_check(struct roll *roll)
{
	unsigned unready = roll_check(&roll->donors, roll->at, &roll->config);
	int number = signal_take(roll, 0);
	char why[64];

	if (unready == 0 && !number)
		return COMMAND_OK;
	if (number)
		snprintf(why, sizeof why, "stopped by signal %d", number);
	else
		snprintf(why, sizeof why, "%u of %u donors %s not ready", unready, roll->donors.count,
			 unready == 1 ? "is" : "are");
	if (roll->at == roll->donors.start)
		log_error("donors roll: %s, so nothing is drained", why);
	else
		log_error("donors roll: %s before the drain of %s; go on with --from %s", why, donor_now(roll)->uri,
			  donor_now(roll)->uri);
	return COMMAND_FAILED;
}

static int roll_all(struct roll *roll)
{
	for (roll->at = roll->donors.start; roll->at < roll->donors.count; roll->at++) {
		int status = donors_check(roll);

		if (status != COMMAND_OK)
			return status;
		if (roll->at == roll->donors.start)
			roll_check_space(&roll->donors, roll->drain.timeout_s != DRAIN_NO_TIMEOUT);
		status = donor_roll(roll);
		if (roll->drain.json)
			donor_json(roll);
		if (status != COMMAND_OK)
			return stop_tell(roll);
	}
	if (!roll->drain.json)
		printf("%u donor%s rolled\n", roll->donors.count - roll->donors.start,
		       roll->donors.count - roll->donors.start == 1 ? " is" : "s are");
	return COMMAND_OK;
}

/* --- The command line ------------------------------------------------------------------------------------ */

/* Stores the donors, and the index at which the roll begins (--from @from). Returns 0, or -EINVAL after one logged
   line. */
static int donors_take(struct roll *roll, const struct config_list *uris, const char *from)
{
	struct roll_donors *donors = &roll->donors;

	donors->count = uris->count;
	donors->from = from;
	while (from && donors->start < uris->count && strcmp(uris->items[donors->start], from))
		donors->start++;
	if (donors->start == uris->count) {
		log_error("donors roll: --from %s: not one of the donors; write it as they are written", from);
		return -EINVAL;
	}
	for (unsigned i = 0; i < uris->count; i++)
		donors->of[i] = (struct roll_donor){.uri = uris->items[i], .passed_over = i < donors->start};
	return 0;
}

static int roll_help(const struct config_setting *settings)
{
	printf(
	    "usage: farpage donors roll URI [URI...] --each CMD [OPTION...]\n"
	    "       farpage donors roll @FILE --each CMD [OPTION...]\n\n"
	    "Does maintenance, such as an upgrade, on one donor after the other: drains the donor, runs CMD for it,\n"
	    "waits until it answers, lets it lend again, and continues with the next donor. CMD is a shell command.\n"
	    "$FARPAGE_DONOR is the donor's address, and $FARPAGE_DONOR_HOST its machine. @FILE is a donors file.\n\n"
	    "Nothing is drained unless all donors answer and accept the key. The first failure stops the roll: a\n"
	    "donor that cannot be drained lends again, and a donor whose CMD fails stays drained.\n\n");
	config_help(settings);
	printf("\n"
	       "  farpage donors roll @/etc/farpage/donors --key /etc/farpage/key --timeout 600 \\\n"
	       "      --each 'ssh root@\"$FARPAGE_DONOR_HOST\" apt-get -y upgrade'\n");
	return COMMAND_OK;
}

int roll_command(int argc, char **argv)
{
	/* static, because strings from config_read() are never freed */
	static struct roll roll = {
	    .drain = {.timeout_s = DRAIN_NO_TIMEOUT}, .return_s = 300, .config = {.fabric = FABRIC_CONFIG_DEFAULT}};
	static struct config_list uris;
	static uint8_t key[AUTH_KEY_SIZE];
	const char *from = NULL;
	const struct config_setting settings[] = {
	    {"each", CONFIG_STRING, &roll.each.command, 0, 0, "CMD",
	     "run CMD by sh -c for each donor, while the donor is drained"},
	    {"key", CONFIG_STRING, &roll.drain.visit.key_file, 0, 0, "FILE", "the key shared with the donors"},
	    {"admin-key", CONFIG_STRING, &roll.drain.visit.key_file, 0, 0, "FILE",
	     "the donors' admin key, in place of --key, as for farpage donors drain"},
	    {"from", CONFIG_STRING, &from, 0, 0, "URI",
	     "begin with this donor, also if it is drained already; the donors before it are passed over"},
	    {"return", CONFIG_NUMBER, &roll.return_s, 0, 86400, "SECONDS",
	     "wait that long after CMD until the donor answers (default 300)"},
	    {"restarts", CONFIG_FLAG, &roll.restarts, 0, 0, NULL,
	     "CMD restarts the donor or its machine: wait until that has happened"},
	    DRAIN_SETTINGS(&roll.drain, "if the donor is not empty after that, undrain it and stop (default: wait)"),
	    {"json", CONFIG_FLAG, &roll.drain.json, 0, 0, NULL,
	     "print a JSON object in a line for each donor; CMD's output goes to standard error"},
	    {0},
	};
	int status = visit_read("roll", settings, argc, argv, NULL, &uris);

	if (status == -ECANCELED)
		return roll_help(settings);
	if (status < 0 || drain_check(&roll.drain, "roll") < 0 || donors_take(&roll, &uris, from) < 0)
		return COMMAND_USAGE;
	if (!roll.each.command) {
		log_error("donors roll: no command; give one with --each CMD");
		return COMMAND_USAGE;
	}
	if (ask_with_key(&roll.config, roll.drain.visit.key_file, key) < 0)
		return COMMAND_FAILED;
	roll.config.fabric.connect_ms = VISIT_CONNECT_MS;
	signal(SIGPIPE, SIG_IGN); /* a reader that has gone must not end the roll halfway */
	roll.each.to_stderr = roll.drain.json;
	signals_block(&roll.each.stops, &roll.each.mask);
	return roll_all(&roll);
}

/* drain: see drain.h. */
#include "cli/donors/drain.h"

#include "cli/commands.h"
#include "cli/donors/holders.h"
#include "cli/json.h"
#include "cli/signals.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The time between two questions to the donor. */
#define DRAIN_PERIOD_MS 250u

const char *drain_state_name(unsigned state)
{
	static const char *const names[] = {
	    [WIRE_STATE_LENDING] = "lending",
	    [WIRE_STATE_SHRINKING] = "shrinking",
	    [WIRE_STATE_DRAINING] = "draining",
	    [WIRE_STATE_CLEARING] = "clearing",
	};
	_Static_assert(sizeof names / sizeof *names == WIRE_STATE_COUNT, "every state has its name");

	return state < WIRE_STATE_COUNT ? names[state] : "unknown";
}

/* --- What the donor is asked ----------------------------------------------------------------------------- */

int drain_ask(struct drain *drain, enum wire_drain what, struct wire_message *ret_answer)
{
	struct wire_message request = {.type = WIRE_DRAIN};
	int status;

	request.drain.what = what;
	request.drain.deadline_ms = what == WIRE_DRAIN_FORCE ? drain->deadline_s * 1000 : 0;
	status = operate_ask(drain->visit.operate, &request, ret_answer);
	if (status < 0)
		return status;
	return ret_answer->type == WIRE_DRAINING ? 0 : visit_denied(&drain->visit, ret_answer);
}

int drain_order(struct drain *drain, struct wire_message *ret_answer)
{
	int status = drain_ask(drain, drain->force ? WIRE_DRAIN_FORCE : WIRE_DRAIN_WAIT, ret_answer);

	if (status == 0)
		drain->shown = ret_answer->draining.slabs;
	return status;
}

/* --- What is shown --------------------------------------------------------------------------------------- */

const char *drain_left(const struct drain *drain, const struct wire_message *answer, char text[DRAIN_LEFT_MAX])
{
	char size[SIZE_TEXT_MAX];

	snprintf(text, DRAIN_LEFT_MAX, "%s in %u slab%s of %u client%s",
		 size_format(answer->draining.slabs * drain->visit.slab_bytes, size), answer->draining.slabs,
		 answer->draining.slabs == 1 ? "" : "s", answer->draining.holders,
		 answer->draining.holders == 1 ? "" : "s");
	return text;
}

/* Shows the progress: on a terminal one line that changes, otherwise a line for each change. */
static void progress_show(struct drain *drain, const struct wire_message *answer)
{
	char left[DRAIN_LEFT_MAX], until[32] = "";
	bool terminal = isatty(STDERR_FILENO);

	if (!terminal && answer->draining.slabs == drain->shown)
		return;
	drain->shown = answer->draining.slabs;
	if (!answer->draining.slabs)
		return;
	if (answer->draining.left_ms != WIRE_NO_DEADLINE)
		snprintf(until, sizeof until, ", %u s left", (answer->draining.left_ms + 999) / 1000);
	fprintf(stderr, "%s%s: %s still leased%s%s", terminal ? "\r\033[K" : "", drain->visit.uri,
		drain_left(drain, answer, left), until, terminal ? "" : "\n");
	fflush(stderr);
}

static void progress_end(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

static void drain_json(struct drain *drain, const struct wire_message *answer)
{
	struct json_object *root = json_object_new_object(), *list = json_object_new_array();

	json_add_text(root, "donor", drain->visit.uri);
	json_add_text(root, "state", drain_state_name(answer->draining.capacity.state));
	json_add_number(root, "leased_bytes", answer->draining.slabs * drain->visit.slab_bytes);
	json_add_flag(root, "empty", !answer->draining.slabs);
	holders_each(&drain->visit, holders_add_json, list);
	json_object_object_add(root, "holders", list);
	json_print(root, drain->several, stdout);
}

/* --- Draining -------------------------------------------------------------------------------------------- */

/* Logs that the donor is not empty in time, and prints which clients still lease slabs. Returns the exit status. */
static int drain_late(struct drain *drain, const struct wire_message *answer)
{
	char left[DRAIN_LEFT_MAX];

	log_error("%s is not empty after %u s, and goes on draining: %s still leased; wait for them or stop them%s",
		  drain->visit.uri, drain->timeout_s, drain_left(drain, answer, left),
		  drain->force ? "" : ", or take it with --force: what has no other copy is then lost");
	if (drain->json)
		drain_json(drain, answer);
	else
		holders_each(&drain->visit, holders_print_line, stdout);
	return COMMAND_FAILED;
}

/* Does the same as drain_wait(), and leaves the last progress line on the terminal. */
static int progress_watch(struct drain *drain, const sigset_t *stops, struct wire_message *answer)
{
	const uint64_t end = drain->began + drain->timeout_s * UINT64_C(1000000000);
	int status = 0;

	while (status == 0) {
		if (answer->draining.capacity.state != WIRE_STATE_DRAINING)
			return -ECANCELED;
		progress_show(drain, answer);
		if (!answer->draining.slabs)
			return 0;
		if (drain->timeout_s != DRAIN_NO_TIMEOUT && clock_now() >= end)
			return -ETIME;
		if (stops && signals_came(stops))
			return -EINTR;
		status = operate_wait(drain->visit.operate, DRAIN_PERIOD_MS);
		if (status == 0)
			status = drain_ask(drain, WIRE_DRAIN_ASK, answer);
	}
	return status;
}

int drain_wait(struct drain *drain, const sigset_t *stops, struct wire_message *answer)
{
	int status = progress_watch(drain, stops, answer);

	progress_end();
	if (status == -ECANCELED)
		log_error("%s is not draining any more: somebody has undrained it", drain->visit.uri);
	return status;
}

/* Begins the drain of a donor. Returns the exit status. */
static int drain_begin(void *user)
{
	struct drain *drain = user;
	struct wire_message answer;
	char left[DRAIN_LEFT_MAX];

	if (drain_order(drain, &answer) < 0)
		return COMMAND_FAILED;
	if (!answer.draining.slabs || drain->json)
		return COMMAND_OK;
	printf("%s drains: %s%s\n", drain->visit.uri, drain_left(drain, &answer, left),
	       drain->force ? ", taken at the deadline" : "");
	if (holders_each(&drain->visit, holders_print_line, stdout) < 0)
		return COMMAND_FAILED;
	fflush(stdout);
	return COMMAND_OK;
}

/* Waits until the donor is empty, after drain_begin(). Returns the exit status. */
static int drain_finish(void *user)
{
	struct drain *drain = user;
	struct wire_message answer;

	if (drain_ask(drain, WIRE_DRAIN_ASK, &answer) < 0)
		return COMMAND_FAILED;
	drain->shown = answer.draining.slabs;
	switch (drain_wait(drain, NULL, &answer)) {
	case 0:
		break;
	case -ETIME:
		return drain_late(drain, &answer);
	default:
		return COMMAND_FAILED;
	}
	if (drain->json)
		drain_json(drain, &answer);
	else
		printf("%s is empty and lends nothing more: it is safe to power it off\n", drain->visit.uri);
	fflush(stdout);
	return COMMAND_OK;
}

static int drain_end(void *user)
{
	struct drain *drain = user;
	char donated[SIZE_TEXT_MAX], leased[SIZE_TEXT_MAX];
	struct wire_message answer;

	if (drain_ask(drain, WIRE_DRAIN_END, &answer) < 0)
		return COMMAND_FAILED;
	if (drain->json)
		drain_json(drain, &answer);
	else
		printf("%s lends again: %s, of which %s are leased\n", drain->visit.uri,
		       size_format(answer.draining.capacity.donated, donated),
		       size_format(answer.draining.capacity.leased, leased));
	return COMMAND_OK;
}

/* Calls @act for each donor of @donors. Removes the donors for which @act fails, and then returns COMMAND_FAILED. */
static int donors_each(struct drain *drain, struct config_list *donors, int (*act)(void *drain))
{
	unsigned given = donors->count;

	donors->count = 0;
	for (unsigned i = 0; i < given; i++) {
		drain->visit.uri = donors->items[i];
		if (visit_run(&drain->visit, act, drain) == COMMAND_OK)
			donors->items[donors->count++] = donors->items[i];
	}
	return donors->count < given ? COMMAND_FAILED : COMMAND_OK;
}

/* --- The commands ---------------------------------------------------------------------------------------- */

int drain_check(struct drain *drain, const char *verb)
{
	if (drain->deadline_s && !drain->force) {
		log_error("donors %s: --deadline is when --force takes what is left; give --force too, or --timeout "
			  "to stop waiting",
			  verb);
		return -EINVAL;
	}
	if (!drain->deadline_s)
		drain->deadline_s = 10;
	return 0;
}

static void drain_help(const struct config_setting *settings)
{
	printf("usage: farpage donors drain URI [URI...] [OPTION...]\n"
	       "       farpage donors drain @FILE [OPTION...]\n\n"
	       "Empties a donor, for maintenance: the donor lends nothing more, and recalls all its slabs from its\n"
	       "clients. The command waits until the clients have released the slabs, and then says that the donor\n"
	       "may be powered off. If the command is ended, the drain continues; farpage donors undrain ends the\n"
	       "drain. Several donors are drained at the same time. To drain one after the other, see farpage donors\n"
	       "roll.\n\n");
	config_help(settings);
	printf("\n"
	       "  farpage donors drain tcp://10.0.0.7 --key /etc/farpage/key\n");
}

int drain_command_begin(int argc, char **argv)
{
	static struct drain drain = {.deadline_s = 0, .timeout_s = DRAIN_NO_TIMEOUT};
	static struct config_list donors;
	const struct config_setting settings[] = {
	    {"key", CONFIG_STRING, &drain.visit.key_file, 0, 0, "FILE", "the key shared with the donor"},
	    {"admin-key", CONFIG_STRING, &drain.visit.key_file, 0, 0, "FILE",
	     "the donor's admin key, in place of --key; needed for --force, and for a donor that has an admin key"},
	    DRAIN_SETTINGS(&drain, "stop waiting after this time, with status 1; the drain continues (default: wait)"),
	    {"json", CONFIG_FLAG, &drain.json, 0, 0, NULL, "print the state at the end as JSON, sizes in bytes"},
	    {0},
	};
	int status = visit_read("drain", settings, argc, argv, NULL, &donors), begun;

	if (status == -ECANCELED) {
		drain_help(settings);
		return COMMAND_OK;
	}
	if (status < 0)
		return COMMAND_USAGE;
	if (drain_check(&drain, "drain") < 0)
		return COMMAND_USAGE;
	drain.several = donors.count > 1;
	drain.began = clock_now();
	/* Begins all drains before it waits for the first one, so that no pages move from one of these donors to
	   another. */
	begun = donors_each(&drain, &donors, drain_begin);
	status = donors_each(&drain, &donors, drain_finish);
	return begun != COMMAND_OK ? begun : status;
}

int drain_command_end(int argc, char **argv)
{
	static struct drain drain;
	static struct config_list donors;
	const struct config_setting settings[] = {
	    {"key", CONFIG_STRING, &drain.visit.key_file, 0, 0, "FILE", "the key shared with the donor"},
	    {"admin-key", CONFIG_STRING, &drain.visit.key_file, 0, 0, "FILE",
	     "the donor's admin key, in place of --key; needed for a donor that has an admin key"},
	    {"json", CONFIG_FLAG, &drain.json, 0, 0, NULL, "print the answer as JSON, sizes in bytes"},
	    {0},
	};
	int status = visit_read("undrain", settings, argc, argv, NULL, &donors);

	if (status == -ECANCELED) {
		printf("usage: farpage donors undrain URI [URI...] [OPTION...]\n"
		       "       farpage donors undrain @FILE [OPTION...]\n\n"
		       "Lets drained donors lend again. Clients keep the slabs that they have not released.\n\n");
		config_help(settings);
		return COMMAND_OK;
	}
	if (status < 0)
		return COMMAND_USAGE;
	drain.several = donors.count > 1;
	return donors_each(&drain, &donors, drain_end);
}

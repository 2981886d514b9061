/* drain: see drain.h. */
#include "cli/donors/drain.h"

#include "cli/commands.h"
#include "cli/donors/holders.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The time between two questions to the donor. */
#define DRAIN_PERIOD_MS 250u
#define DRAIN_NO_TIMEOUT UINT32_MAX

struct drain {
	struct visit visit;
	bool force, json;
	unsigned deadline_s, timeout_s;
	uint32_t shown; /* the number of slabs in the last progress line */
};

const char *drain_state_name(unsigned state)
{
	static const char *const names[] = {
	    [WIRE_STATE_LENDING] = "lending",
	    [WIRE_STATE_SHRINKING] = "shrinking",
	    [WIRE_STATE_DRAINING] = "draining",
	};
	_Static_assert(sizeof names / sizeof *names == WIRE_STATE_COUNT, "every state has its name");

	return state < WIRE_STATE_COUNT ? names[state] : "unknown";
}

/* --- What the donor is asked ----------------------------------------------------------------------------- */

static int drain_ask(struct drain *drain, enum wire_drain what, struct wire_message *ret_answer)
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

/* --- What is shown --------------------------------------------------------------------------------------- */

/* Writes, for example, "768M in 12 slabs of 2 clients". Returns @text. */
static const char *left_format(const struct drain *drain, const struct wire_message *answer, char *text, size_t max)
{
	char size[SIZE_TEXT_MAX];

	snprintf(text, max, "%s in %u slab%s of %u client%s",
		 size_format(answer->draining.slabs * drain->visit.slab_bytes, size), answer->draining.slabs,
		 answer->draining.slabs == 1 ? "" : "s", answer->draining.holders,
		 answer->draining.holders == 1 ? "" : "s");
	return text;
}

/* Shows the progress: on a terminal one line that changes, otherwise a line for each change. */
static void progress_show(struct drain *drain, const struct wire_message *answer)
{
	char left[96], until[32] = "";
	bool terminal = isatty(STDERR_FILENO);

	if (!terminal && answer->draining.slabs == drain->shown)
		return;
	drain->shown = answer->draining.slabs;
	if (!answer->draining.slabs)
		return;
	if (answer->draining.left_ms != WIRE_NO_DEADLINE)
		snprintf(until, sizeof until, ", %u s left", (answer->draining.left_ms + 999) / 1000);
	fprintf(stderr, "%s%s: %s still leased%s%s", terminal ? "\r\033[K" : "", drain->visit.uri,
		left_format(drain, answer, left, sizeof left), until, terminal ? "" : "\n");
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

	json_object_object_add(root, "donor", json_object_new_string(drain->visit.uri));
	json_object_object_add(root, "state",
			       json_object_new_string(drain_state_name(answer->draining.capacity.state)));
	json_object_object_add(root, "leased_bytes",
			       json_object_new_uint64(answer->draining.slabs * drain->visit.slab_bytes));
	json_object_object_add(root, "empty", json_object_new_boolean(!answer->draining.slabs));
	holders_each(&drain->visit, holders_add_json, list);
	json_object_object_add(root, "holders", list);
	printf("%s\n", json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}

/* --- Draining -------------------------------------------------------------------------------------------- */

/* Logs and prints which clients still lease slabs, for a donor that is not empty in time. Returns the exit status. */
static int drain_late(struct drain *drain, const struct wire_message *answer)
{
	char left[96];

	log_error("%s is not empty after %u s, and goes on draining: %s still leased; wait for them or stop them%s",
		  drain->visit.uri, drain->timeout_s, left_format(drain, answer, left, sizeof left),
		  drain->force ? "" : ", or take it with --force: what has no other copy is then lost");
	if (drain->json)
		drain_json(drain, answer);
	else
		holders_each(&drain->visit, holders_print_line, stdout);
	return COMMAND_FAILED;
}

static int drain_watch(struct drain *drain, struct wire_message *answer)
{
	const uint64_t end = clock_now() + drain->timeout_s * UINT64_C(1000000000);

	for (;;) {
		if (answer->draining.capacity.state != WIRE_STATE_DRAINING) {
			progress_end();
			log_error("%s is not draining any more: somebody has undrained it", drain->visit.uri);
			return COMMAND_FAILED;
		}
		progress_show(drain, answer);
		if (!answer->draining.slabs)
			break;
		if (drain->timeout_s != DRAIN_NO_TIMEOUT && clock_now() >= end) {
			progress_end();
			return drain_late(drain, answer);
		}
		if (operate_wait(drain->visit.operate, DRAIN_PERIOD_MS) < 0 ||
		    drain_ask(drain, WIRE_DRAIN_ASK, answer) < 0)
			return COMMAND_FAILED;
	}
	progress_end();
	if (drain->json)
		drain_json(drain, answer);
	else
		printf("%s is empty and lends nothing more: it is safe to power it off\n", drain->visit.uri);
	return COMMAND_OK;
}

static int drain_begin(void *user)
{
	struct drain *drain = user;
	struct wire_message answer;
	char left[96];

	if (drain_ask(drain, drain->force ? WIRE_DRAIN_FORCE : WIRE_DRAIN_WAIT, &answer) < 0)
		return COMMAND_FAILED;
	if (answer.draining.slabs && !drain->json) {
		printf("%s drains: %s%s\n", drain->visit.uri, left_format(drain, &answer, left, sizeof left),
		       drain->force ? ", taken at the deadline" : "");
		if (holders_each(&drain->visit, holders_print_line, stdout) < 0)
			return COMMAND_FAILED;
		fflush(stdout);
	}
	drain->shown = answer.draining.slabs;
	return drain_watch(drain, &answer);
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

/* --- The commands ---------------------------------------------------------------------------------------- */

static void drain_help(const struct config_setting *settings)
{
	printf(
	    "usage: farpage donors drain URI [OPTION...]\n\n"
	    "Empties a donor, for maintenance: it lends nothing more, asks its clients for all that they lease there,\n"
	    "and this waits until they have given it back. Then it says that the donor may be powered off. Ending\n"
	    "this does not end draining; farpage donors undrain does.\n\n");
	config_help(settings);
	printf("\n"
	       "  farpage donors drain tcp://10.0.0.7 --key /etc/farpage/key\n");
}

int drain_command_begin(int argc, char **argv)
{
	static struct drain drain = {.deadline_s = 0, .timeout_s = DRAIN_NO_TIMEOUT};
	const struct config_setting settings[] = {
	    {"key", CONFIG_STRING, &drain.visit.key_file, 0, 0, "FILE", "the key shared with the donor"},
	    {"admin-key", CONFIG_STRING, &drain.visit.key_file, 0, 0, "FILE",
	     "the donor's admin key, in place of --key; needed for --force, and for a donor that has an admin key"},
	    {"timeout", CONFIG_NUMBER, &drain.timeout_s, 0, 1000000, "SECONDS",
	     "stop waiting after this time, with status 1; the drain continues (default: wait)"},
	    {"force", CONFIG_FLAG, &drain.force, 0, 0, NULL,
	     "take unreleased slabs at the deadline: pages without another copy are lost"},
	    {"deadline", CONFIG_NUMBER, &drain.deadline_s, 1, 3600, "SECONDS",
	     "with --force: the donor is empty by then (default 10)"},
	    {"json", CONFIG_FLAG, &drain.json, 0, 0, NULL, "print the state at the end as JSON, sizes in bytes"},
	    {0},
	};
	int status = visit_read(&drain.visit, "drain", settings, argc, argv);

	if (status == -ECANCELED) {
		drain_help(settings);
		return COMMAND_OK;
	}
	if (status < 0)
		return COMMAND_USAGE;
	if (drain.deadline_s && !drain.force) {
		log_error("donors drain: --deadline is when --force takes what is left; give --force too, or --timeout "
			  "to stop waiting");
		return COMMAND_USAGE;
	}
	if (!drain.deadline_s)
		drain.deadline_s = 10;
	return visit_run(&drain.visit, drain_begin, &drain);
}

int drain_command_end(int argc, char **argv)
{
	static struct drain drain;
	const struct config_setting settings[] = {
	    {"key", CONFIG_STRING, &drain.visit.key_file, 0, 0, "FILE", "the key shared with the donor"},
	    {"admin-key", CONFIG_STRING, &drain.visit.key_file, 0, 0, "FILE",
	     "the donor's admin key, in place of --key; needed for a donor that has an admin key"},
	    {"json", CONFIG_FLAG, &drain.json, 0, 0, NULL, "print the answer as JSON, sizes in bytes"},
	    {0},
	};
	int status = visit_read(&drain.visit, "undrain", settings, argc, argv);

	if (status == -ECANCELED) {
		printf("usage: farpage donors undrain URI [OPTION...]\n\n"
		       "Lets a drained donor lend again. Clients keep the slabs that they have not released.\n\n");
		config_help(settings);
		return COMMAND_OK;
	}
	if (status < 0)
		return COMMAND_USAGE;
	return visit_run(&drain.visit, drain_end, &drain);
}

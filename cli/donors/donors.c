/*
 * farpage donors: asks each donor how much it lends, and shows the answers as a table or as JSON.
 *
 * Theory of operation. All donors are asked at once (ask.h), then the answers are printed. A donor that does not answer
 * has a row, too, with the reason. If a donor does not answer, far_query() logs a line with advice, and the exit status
 * is 1.
 */
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/donors/donors_table.h"
#include "cli/donors/drain.h"
#include "cli/donors/holders.h"
#include "cli/donors/roll.h"
#include "cli/json.h"
#include "cli/subcommands.h"
#include "client/far.h"
#include "common/config.h"
#include "common/donors_option.h"
#include "common/log.h"
#include "common/suggest.h"
#include "wire/auth.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The command must end within two seconds, including the look-up of names and the printing. */
#define DONORS_TIMEOUT_MS 1500

struct donors_options {
	struct config_list donors;
	const char *key_file;
	bool json;
	struct table_style style;
};

static struct json_object *donors_json(const struct ask *ask)
{
	const struct far_donor_info *donor = ask->answer;
	struct json_object *object = json_object_new_object();

	json_add_text(object, "donor", ask->uri);
	json_add_flag(object, "reachable", ask->status == 0);
	if (ask->status < 0) {
		json_add_text(object, "reason", ask_reason(ask->status));
		return object;
	}
	if (donor_name(ask) != ask->uri)
		json_add_text(object, "via", donor->via);
	json_add_number(object, "donated_bytes", donor->donated);
	json_add_number(object, "leased_bytes", donor->leased);
	json_add_number(object, "free_bytes", ask_free(donor));
	json_add_number(object, "clients", donor->clients);
	json_add_text(object, "state", drain_state_name(donor->state));
	if (*donor->failure_domain)
		json_add_text(object, "domain", donor->failure_domain);
	json_add_number(object, "slab_bytes", donor->slab_bytes);
	return object;
}

static void donors_print_json(const struct ask *asks, unsigned count)
{
	struct json_object *root = json_object_new_object(), *list = json_object_new_array();

	for (unsigned i = 0; i < count; i++)
		json_object_array_add(list, donors_json(&asks[i]));
	json_object_object_add(root, "donors", list);
	json_print(root, false, stdout);
}

/* Asks all donors, prints the answers, and frees @table. Returns the exit status. */
static int donors_show(const struct donors_options *options, const struct far_config *config, struct table *table)
{
	struct far_donor_info answers[CONFIG_LIST_MAX] = {0};
	struct ask asks[CONFIG_LIST_MAX];
	unsigned count = options->donors.count;
	int status = COMMAND_OK;

	for (unsigned i = 0; i < count; i++)
		asks[i] = (struct ask){.config = config, .uri = options->donors.items[i], .answer = &answers[i]};
	ask_all(asks, count, ask_figures);
	if (options->json) {
		donors_print_json(asks, count);
		table_close(table);
	} else {
		donors_add_rows(asks, count, !options->style.noheadings, table);
		table_print(table);
	}
	for (unsigned i = 0; i < count; i++)
		if (asks[i].status < 0)
			status = COMMAND_FAILED;
	return status;
}

static const struct subcommands_text text = {
    .name = "donors",
    .before = "usage: farpage donors --donor URI [--donor URI...] [OPTION...]\n"
	      "       farpage donors VERB URI [OPTION...]\n\n"
	      "Asks each donor how much it lends, how much of this is leased, and how much is free. A donor that\n"
	      "does not answer within two seconds is shown with the reason, and the exit status is then 1.\n\n",
    .after = "\nverbs:\n"
	     "  holders  list the clients that lease a donor's memory\n"
	     "  drain    empty a donor, for maintenance\n"
	     "  undrain  let a drained donor lend again\n"
	     "  roll     drain one donor after the other, and run a command for each\n\n"
	     "farpage donors VERB --help tells more about a verb.\n\n"
	     "  farpage donors --donor tcp://10.0.0.7 --donor tcp://10.0.0.8 --key /etc/farpage/key\n",
    .instead = "donors are named with --donor URI (the verbs are holders, drain, undrain and roll)",
};

/* Runs the verb argv[0], or names the nearest verb if there is no such verb. Returns false if argv[0] resembles no
   verb. */
static bool verb_run(int argc, char **argv, int *ret_status)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} verbs[] = {
	    {"holders", holders_command},
	    {"drain", drain_command_begin},
	    {"undrain", drain_command_end},
	    {"roll", roll_command},
	};
	struct suggestion near = {.word = argv[0]};
	char hint[SUGGEST_TEXT_MAX];

	for (unsigned i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
		if (strcmp(argv[0], verbs[i].name) == 0) {
			*ret_status = verbs[i].run(argc, argv);
			return true;
		}
		suggest_consider(&near, verbs[i].name);
	}
	if (!near.name)
		return false;
	log_error("donors: no such verb: %s%s; farpage donors --help lists them", argv[0],
		  suggest_format(&near, "", hint));
	*ret_status = COMMAND_USAGE;
	return true;
}

int command_donors(int argc, char **argv)
{
	static struct donors_options options; /* static, because strings from config_read() are never freed */
	const struct config_setting settings[] = {
	    {"donor", CONFIG_LIST, &options.donors, 0, 0, "URI",
	     "a donor, tcp://HOST[:PORT] (port 7470 if none is given); can be repeated; or @FILE, a donors file"},
	    {"key", CONFIG_STRING, &options.key_file, 0, 0, "FILE",
	     "the key shared with the donors (farpage key makes one)"},
	    {"json", CONFIG_FLAG, &options.json, 0, 0, NULL, "print JSON, sizes in bytes"},
	    TABLE_SETTINGS(&options.style),
	    {0},
	};
	struct far_config config = {.fabric = FABRIC_CONFIG_DEFAULT};
	uint8_t key[AUTH_KEY_SIZE];
	struct table *table;
	const char *file;
	int status;

	if (argc > 1 && *argv[1] != '-' && verb_run(argc - 1, argv + 1, &status))
		return status;
	status = subcommands_begin(&text, settings, defaults_read(settings, NULL, argc, argv, NULL), argc, argv);
	if (status >= 0)
		return status;
	if (donors_option_expand(&options.donors, &file) < 0)
		return COMMAND_USAGE;
	if (options.donors.count == 0) {
		log_error("donors: no donor to ask; name one with --donor tcp://HOST[:PORT]");
		return COMMAND_USAGE;
	}
	if (ask_with_key(&config, options.key_file, key) < 0)
		return COMMAND_FAILED;
	config.fabric.connect_ms = DONORS_TIMEOUT_MS;
	table = table_open("donors", donor_columns, DONOR_COLUMNS, &options.style);
	return table ? donors_show(&options, &config, table) : COMMAND_USAGE;
}

/*
 * farpage donors: asks each donor what it lends, and shows the answers as a table or as JSON.
 *
 * Theory of operation. All donors are asked at once (ask.h), then the answers are printed. A donor that does not answer
 * is a row like any other, with the reason. Such a donor also makes the exit status 1, and far_query() has logged a
 * line that says what to do.
 */
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/donors/drain.h"
#include "cli/subcommands.h"
#include "client/far.h"
#include "common/auth.h"
#include "common/config.h"
#include "common/donors_option.h"
#include "common/log.h"
#include "common/size.h"
#include "farpage/wire.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The command ends within two seconds. The rest of that time is for names, threads and printing. */
#define DONORS_TIMEOUT_MS 1500

struct donors_options {
	struct config_list donors;
	const char *key_file;
	bool json;
};

/* Returns the donor's address as given, or for auto:// the address that worked. */
static const char *donors_name(const struct ask *ask)
{
	const struct far_donor_info *donor = ask->answer;

	return strncmp(ask->uri, "auto://", strlen("auto://")) != 0 || !*donor->via ? ask->uri : donor->via;
}

static int donors_width(const struct ask *asks, unsigned count)
{
	size_t width = strlen("DONOR");

	for (unsigned i = 0; i < count; i++)
		if (strlen(donors_name(&asks[i])) > width)
			width = strlen(donors_name(&asks[i]));
	return (int)width;
}

/* Returns the width of the column of failure domains. Returns 0, for no such column, if no donor names its domain. */
static int donors_domain_width(const struct ask *asks, unsigned count)
{
	size_t width = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct far_donor_info *donor = asks[i].answer;

		if (strlen(donor->domain) > width)
			width = strlen(donor->domain);
	}
	return (int)(width && width < strlen("DOMAIN") ? strlen("DOMAIN") : width);
}

static void donors_print_row(int width, int domain_width, const char *name, const struct far_donor_info *donor)
{
	char donated[SIZE_TEXT_MAX], leased[SIZE_TEXT_MAX], unused[SIZE_TEXT_MAX], slab[SIZE_TEXT_MAX];

	printf("%-*s %8s %8s %8s %8u", width, name, size_format(donor->donated, donated),
	       size_format(donor->leased, leased), size_format(ask_free(donor), unused), donor->clients);
	if (donor->slab_bytes)
		printf(" %8s", size_format(donor->slab_bytes, slab));
	if (domain_width && donor->slab_bytes)
		printf("  %-*s", donor->state == WIRE_STATE_LENDING ? 0 : domain_width,
		       *donor->domain ? donor->domain : "-");
	if (donor->state != WIRE_STATE_LENDING)
		printf("  %s", drain_state_name(donor->state));
	printf("\n");
}

static void donors_print_table(const struct ask *asks, unsigned count)
{
	int width = donors_width(asks, count), domain_width = donors_domain_width(asks, count);
	struct far_donor_info total = {0};
	unsigned answered = 0;

	printf("%-*s %8s %8s %8s %8s %8s", width, "DONOR", "DONATED", "LEASED", "FREE", "CLIENTS", "SLAB");
	if (domain_width)
		printf("  %-*s", domain_width, "DOMAIN");
	printf("  STATE\n");
	for (unsigned i = 0; i < count; i++) {
		const struct far_donor_info *donor = asks[i].answer;

		if (asks[i].status < 0) {
			printf("%-*s  %s\n", width, asks[i].uri, ask_reason(asks[i].status));
			continue;
		}
		donors_print_row(width, domain_width, donors_name(&asks[i]), donor);
		total.donated += donor->donated;
		total.leased += donor->leased;
		total.clients += donor->clients;
		answered++;
	}
	if (answered > 1)
		donors_print_row(width, domain_width, "total", &total);
}

static struct json_object *donors_json(const struct ask *ask)
{
	const struct far_donor_info *donor = ask->answer;
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "donor", json_object_new_string(ask->uri));
	json_object_object_add(object, "reachable", json_object_new_boolean(ask->status == 0));
	if (ask->status < 0) {
		json_object_object_add(object, "reason", json_object_new_string(ask_reason(ask->status)));
		return object;
	}
	if (donors_name(ask) != ask->uri)
		json_object_object_add(object, "via", json_object_new_string(donor->via));
	json_object_object_add(object, "donated_bytes", json_object_new_uint64(donor->donated));
	json_object_object_add(object, "leased_bytes", json_object_new_uint64(donor->leased));
	json_object_object_add(object, "free_bytes", json_object_new_uint64(ask_free(donor)));
	json_object_object_add(object, "clients", json_object_new_uint64(donor->clients));
	json_object_object_add(object, "state", json_object_new_string(drain_state_name(donor->state)));
	if (*donor->domain)
		json_object_object_add(object, "domain", json_object_new_string(donor->domain));
	json_object_object_add(object, "slab_bytes", json_object_new_uint64(donor->slab_bytes));
	return object;
}

static void donors_print_json(const struct ask *asks, unsigned count)
{
	struct json_object *root = json_object_new_object(), *list = json_object_new_array();

	for (unsigned i = 0; i < count; i++)
		json_object_array_add(list, donors_json(&asks[i]));
	json_object_object_add(root, "donors", list);
	printf("%s\n", json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}

/* Asks all donors and prints the answers. Returns the exit status. */
static int donors_show(const struct donors_options *options, const struct far_config *config)
{
	struct far_donor_info answers[CONFIG_LIST_MAX] = {0};
	struct ask asks[CONFIG_LIST_MAX];
	unsigned count = options->donors.count;
	int status = COMMAND_OK;

	for (unsigned i = 0; i < count; i++)
		asks[i] = (struct ask){.config = config, .uri = options->donors.items[i], .answer = &answers[i]};
	ask_all(asks, count, ask_figures);
	if (options->json)
		donors_print_json(asks, count);
	else
		donors_print_table(asks, count);
	for (unsigned i = 0; i < count; i++)
		if (asks[i].status < 0)
			status = COMMAND_FAILED;
	return status;
}

static const struct subcommands_text text = {
    .name = "donors",
    .before = "usage: farpage donors --donor URI [--donor URI...] [OPTION...]\n"
	      "       farpage donors VERB URI [OPTION...]\n\n"
	      "Asks each donor what it lends, how much of that is leased to clients, and how much is free. A donor\n"
	      "that cannot be asked within two seconds is shown with the reason, and the exit status is then 1.\n\n",
    .after = "\nverbs:\n"
	     "  drain    empty a donor, for maintenance\n"
	     "  undrain  have a drained donor lend again\n\n"
	     "farpage donors VERB --help tells more about a verb.\n\n"
	     "  farpage donors --donor tcp://10.0.0.7 --donor tcp://10.0.0.8 --key /etc/farpage/key\n",
    .instead = "donors are named with --donor URI (and there are drain and undrain)",
};

int command_donors(int argc, char **argv)
{
	static struct donors_options options; /* config_read() returns strings that live until exit */
	const struct config_setting settings[] = {
	    {"donor", CONFIG_LIST, &options.donors, 0, 0, "URI",
	     "a donor, tcp://HOST[:PORT] (port 7470 if none is given); can be repeated; or @FILE, a donors file"},
	    {"key", CONFIG_STRING, &options.key_file, 0, 0, "FILE",
	     "the key shared with the donors (farpage key makes one)"},
	    {"json", CONFIG_FLAG, &options.json, 0, 0, NULL, "print JSON, sizes in bytes"},
	    {0},
	};
	struct far_config config = {.fabric = FABRIC_CONFIG_DEFAULT};
	uint8_t key[AUTH_KEY_SIZE];
	const char *file;
	int status;

	if (argc > 1 && !strcmp(argv[1], "drain"))
		return drain_command_begin(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "undrain"))
		return drain_command_end(argc - 1, argv + 1);
	status = subcommands_begin(&text, settings, defaults_read(settings, NULL, argc, argv, NULL), argc, argv);
	if (status >= 0)
		return status;
	if (donors_option_expand(&options.donors, &file) < 0)
		return COMMAND_USAGE;
	if (options.donors.count == 0) {
		log_error("donors: no donor to ask; name one with --donor tcp://HOST[:PORT]");
		return COMMAND_USAGE;
	}
	if (options.key_file) {
		if (auth_key_load_or_tell(options.key_file, key) < 0)
			return COMMAND_FAILED;
		config.key = key;
	}
	config.fabric.connect_ms = DONORS_TIMEOUT_MS;
	return donors_show(&options, &config);
}

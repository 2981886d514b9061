/*
 * farpage donors: asks each donor what it lends and shows the answers as a table or as JSON.
 *
 * Theory of operation. Every donor is asked on a thread of its own, so that the slowest, not the sum, decides how
 * long it takes; the main thread joins them all and prints. A donor that does not answer is a row like any other,
 * with the reason in it, and makes the exit status 1. far_query() has then logged the line that says what to do.
 */
#include "cli/commands.h"
#include "client/far.h"
#include "common/auth.h"
#include "common/config.h"
#include "common/log.h"
#include "common/size.h"
#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Every answer, and so the command, within two seconds: some of them are for names, threads and printing. */
#define DONORS_TIMEOUT_MS 1500

struct donors_question {
	const struct far_config *config;
	const char *uri;
	struct far_donor answer;
	pthread_t thread;
	bool started;
};

struct donors_options {
	struct config_list donors;
	const char *key_file;
	bool json;
};

static void *donors_ask(void *argument)
{
	struct donors_question *question = argument;
	struct far_donor answer = {0};
	int result = far_query(question->config, question->uri, &answer);

	if (result == 0)
		question->answer = answer;
	question->answer.uri = question->uri;
	question->answer.status = result;
	return NULL;
}

static void donors_ask_all(struct donors_question *questions, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		questions[i].started = pthread_create(&questions[i].thread, NULL, donors_ask, &questions[i]) == 0;
		if (!questions[i].started)
			donors_ask(&questions[i]);
	}
	for (unsigned i = 0; i < count; i++)
		if (questions[i].started)
			pthread_join(questions[i].thread, NULL);
}

/* Why a donor did not answer, in a few words. */
static const char *donors_reason(int status)
{
	switch (status) {
	case -EKEYREJECTED:
		return "wrong or missing key";
	case -EPROTO:
		return "something else listens there";
	case -EPROTONOSUPPORT:
		return "another version of the protocol";
	case -ENOENT:
		return "no such host";
	case -EINVAL:
		return "not an address";
	case -ETIMEDOUT:
		return "no answer";
	case -ECONNREFUSED:
		return "connection refused";
	case -EHOSTUNREACH:
		return "host unreachable";
	default:
		return strerror(-status);
	}
}

static int donors_width(const struct donors_question *questions, unsigned count)
{
	size_t width = strlen("DONOR");

	for (unsigned i = 0; i < count; i++)
		if (strlen(questions[i].uri) > width)
			width = strlen(questions[i].uri);
	return (int)width;
}

/* A donor whose operator lowered what it lends may have leased more than that for a while. */
static uint64_t donors_free(const struct far_donor *donor)
{
	return donor->donated > donor->leased ? donor->donated - donor->leased : 0;
}

static void donors_print_row(int width, const char *name, const struct far_donor *donor)
{
	char donated[SIZE_TEXT_MAX], leased[SIZE_TEXT_MAX], unused[SIZE_TEXT_MAX], slab[SIZE_TEXT_MAX];

	printf("%-*s %8s %8s %8s %8u", width, name, size_format(donor->donated, donated),
	       size_format(donor->leased, leased), size_format(donors_free(donor), unused), donor->clients);
	if (donor->slab_bytes)
		printf(" %8s", size_format(donor->slab_bytes, slab));
	printf("\n");
}

static void donors_print_table(const struct donors_question *questions, unsigned count)
{
	int width = donors_width(questions, count);
	struct far_donor total = {0};
	unsigned answered = 0;

	printf("%-*s %8s %8s %8s %8s %8s\n", width, "DONOR", "DONATED", "LEASED", "FREE", "CLIENTS", "SLAB");
	for (unsigned i = 0; i < count; i++) {
		const struct far_donor *donor = &questions[i].answer;

		if (donor->status < 0) {
			printf("%-*s  %s\n", width, donor->uri, donors_reason(donor->status));
			continue;
		}
		donors_print_row(width, donor->uri, donor);
		total.donated += donor->donated;
		total.leased += donor->leased;
		total.clients += donor->clients;
		answered++;
	}
	if (answered > 1)
		donors_print_row(width, "total", &total);
}

static struct json_object *donors_json(const struct far_donor *donor)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "donor", json_object_new_string(donor->uri));
	json_object_object_add(object, "reachable", json_object_new_boolean(donor->status == 0));
	if (donor->status < 0) {
		json_object_object_add(object, "reason", json_object_new_string(donors_reason(donor->status)));
		return object;
	}
	json_object_object_add(object, "donated_bytes", json_object_new_uint64(donor->donated));
	json_object_object_add(object, "leased_bytes", json_object_new_uint64(donor->leased));
	json_object_object_add(object, "free_bytes", json_object_new_uint64(donors_free(donor)));
	json_object_object_add(object, "clients", json_object_new_uint64(donor->clients));
	json_object_object_add(object, "slab_bytes", json_object_new_uint64(donor->slab_bytes));
	return object;
}

static void donors_print_json(const struct donors_question *questions, unsigned count)
{
	struct json_object *root = json_object_new_object(), *list = json_object_new_array();

	for (unsigned i = 0; i < count; i++)
		json_object_array_add(list, donors_json(&questions[i].answer));
	json_object_object_add(root, "donors", list);
	printf("%s\n", json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}

/* auth_key_load() with the one line about what is wrong. */
static int donors_load_key(const char *path, uint8_t ret_key[AUTH_KEY_SIZE])
{
	int result = auth_key_load(path, ret_key);

	if (result == -EPERM)
		log_error("donors: key file %s can be read by others than its owner; chmod 600 it", path);
	else if (result == -EINVAL)
		log_error("donors: %s is not a key file; farpage key makes one", path);
	else if (result < 0)
		log_error("donors: cannot read key file %s: %s", path, strerror(-result));
	return result;
}

/* Asks, and prints the answers; the exit status. */
static int donors_show(const struct donors_options *options, const struct far_config *config)
{
	struct donors_question questions[CONFIG_LIST_MAX] = {0};
	unsigned count = options->donors.count;
	int status = COMMAND_OK;

	for (unsigned i = 0; i < count; i++) {
		questions[i].config = config;
		questions[i].uri = options->donors.items[i];
	}
	donors_ask_all(questions, count);
	if (options->json)
		donors_print_json(questions, count);
	else
		donors_print_table(questions, count);
	for (unsigned i = 0; i < count; i++)
		if (questions[i].answer.status < 0)
			status = COMMAND_FAILED;
	return status;
}

static void donors_help(const struct config_setting *settings)
{
	printf("usage: farpage donors --donor URI [--donor URI...] [OPTION...]\n\n"
	       "Asks each donor what it lends, how much of that is leased to clients, and how much is free. A donor\n"
	       "that cannot be asked within two seconds is shown with the reason, and the exit status is then 1.\n\n");
	config_help(settings);
	printf("\n"
	       "  farpage donors --donor tcp://10.0.0.7 --donor tcp://10.0.0.8 --key /etc/farpage/key\n");
}

int command_donors(int argc, char **argv)
{
	static struct donors_options options; /* config_read() gives strings that live until exit */
	const struct config_setting settings[] = {
	    {.name = "donor",
	     .kind = CONFIG_LIST,
	     .value = &options.donors,
	     .argument = "URI",
	     .help = "a donor, tcp://HOST[:PORT] (port 7470 if none is given); can be repeated"},
	    {.name = "key",
	     .kind = CONFIG_STRING,
	     .value = &options.key_file,
	     .argument = "FILE",
	     .help = "the key shared with the donors (farpage key makes one)"},
	    {.name = "json", .kind = CONFIG_FLAG, .value = &options.json, .help = "print JSON, sizes in bytes"},
	    {.name = NULL},
	};
	struct far_config config = {.fabric = FABRIC_CONFIG_DEFAULT};
	uint8_t key[AUTH_KEY_SIZE];
	int first = config_read(settings, NULL, argc, argv, NULL);

	if (first == -ECANCELED) {
		donors_help(settings);
		return COMMAND_OK;
	}
	if (first < 0)
		return COMMAND_USAGE;
	if (first < argc) {
		log_error("donors: takes no argument \"%s\"; donors are named with --donor URI", argv[first]);
		return COMMAND_USAGE;
	}
	if (options.donors.count == 0) {
		log_error("donors: no donor to ask; name one with --donor tcp://HOST[:PORT]");
		return COMMAND_USAGE;
	}
	if (options.key_file) {
		if (donors_load_key(options.key_file, key) < 0)
			return COMMAND_FAILED;
		config.key = key;
	}
	config.fabric.connect_ms = DONORS_TIMEOUT_MS;
	return donors_show(&options, &config);
}

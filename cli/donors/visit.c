/* visit: see visit.h. */
#include "cli/donors/visit.h"

#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "common/donors_option.h"
#include "common/log.h"
#include "common/user.h"

#include <errno.h>
#include <string.h>

int visit_read(struct visit *visit, const char *verb, const struct config_setting *settings, int argc, char **argv)
{
	int at = defaults_read(settings, NULL, argc, argv, NULL), rest;

	if (at < 0)
		return at;
	if (at == argc) {
		log_error("donors %s: no donor given; name one, like farpage donors %s tcp://10.0.0.7", verb, verb);
		return -EINVAL;
	}
	visit->uri = argv[at];
	if (*visit->uri == '@') {
		log_error("donors %s: one donor at a time; name one donor of %s", verb, visit->uri + 1);
		return -EINVAL;
	}
	rest = config_read(settings, NULL, argc - at, argv + at, NULL); /* the options after the donor */
	if (rest < 0)
		return rest;
	if (at + rest == argc)
		return 0;
	log_error("donors %s: one donor at a time; \"%s\" is too many", verb, argv[at + rest]);
	return -EINVAL;
}

/* Appends the donor @uri. Returns 0, or -EINVAL after one logged line. */
static int donor_add(const char *verb, struct config_list *donors, const char *uri)
{
	for (unsigned i = 0; i < donors->count; i++)
		if (!strcmp(donors->items[i], uri)) {
			log_error("donors %s: %s is given twice; leave one", verb, uri);
			return -EINVAL;
		}
	if (donors->count == CONFIG_LIST_MAX) {
		log_error("donors %s: more than %u donors are given; split them", verb, CONFIG_LIST_MAX);
		return -EINVAL;
	}
	donors->items[donors->count++] = uri;
	return 0;
}

/* Replaces "@FILE" by the donors of that file. Returns 0, or -EINVAL after one logged line. */
static int donors_expand(const char *verb, struct config_list *donors)
{
	struct config_list file;
	static const char *path; /* static, because the string is never freed */

	for (unsigned i = 0; i < donors->count && donors->count > 1; i++)
		if (*donors->items[i] == '@') {
			log_error("donors %s: %s stands alone; write the other donors into it", verb, donors->items[i]);
			return -EINVAL;
		}
	if (*donors->items[0] != '@')
		return 0;
	file = *donors;
	if (donors_option_expand(&file, &path) < 0)
		return -EINVAL;
	donors->count = 0;
	for (unsigned i = 0; i < file.count; i++)
		if (donor_add(verb, donors, file.items[i]) < 0)
			return -EINVAL;
	return 0;
}

int visit_read_donors(const char *verb, const struct config_setting *settings, int argc, char **argv,
		      struct config_list *ret_donors)
{
	int at = defaults_read(settings, NULL, argc, argv, NULL), taken;

	ret_donors->count = 0;
	while (at >= 0 && at < argc) {
		if (donor_add(verb, ret_donors, argv[at]) < 0)
			return -EINVAL;
		taken = config_read(settings, NULL, argc - at, argv + at, NULL); /* the options after this donor */
		at = taken < 0 ? taken : at + taken;
	}
	if (at < 0)
		return at;
	if (!ret_donors->count) {
		log_error("donors %s: no donor given; name one, like farpage donors %s tcp://10.0.0.7", verb, verb);
		return -EINVAL;
	}
	return donors_expand(verb, ret_donors);
}

int visit_run(struct visit *visit, int (*act)(void *user), void *user)
{
	struct far_config config = {.user = user_name(), .fabric = FABRIC_CONFIG_DEFAULT};
	struct far_donor_info figures;
	int status;

	if (ask_with_key(&config, visit->key_file, visit->key) < 0)
		return COMMAND_FAILED;
	config.fabric.connect_ms = VISIT_CONNECT_MS;
	if (operate_open(&config, visit->uri, &visit->operate) < 0)
		return COMMAND_FAILED;
	operate_figures(visit->operate, &figures);
	visit->slab_bytes = figures.slab_bytes;
	status = act(user);
	operate_close(visit->operate);
	return status;
}

int visit_denied(const struct visit *visit, const struct wire_message *answer)
{
	if (answer->type == WIRE_DENIED && answer->denied.reason == WIRE_REASON_ADMIN) {
		log_error("donor %s does not let this key do that: give its admin key, with --admin-key FILE",
			  visit->uri);
		return -EACCES;
	}
	log_error("donor %s answers what was not asked", visit->uri);
	return -EPROTO;
}

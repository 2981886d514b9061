/* visit: see visit.h. */
#include "cli/donors/visit.h"

#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "common/donors_option.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>

/* Turns each --donor URI into URI. Returns the new number of words. */
static int donor_words(int argc, char **argv)
{
	static const char option[] = "--donor", joined[] = "--donor=";
	int count = 0;

	for (int i = 0; i < argc; i++) {
		if (!strcmp(argv[i], option) && i + 1 < argc)
			i++;
		argv[count++] = strncmp(argv[i], joined, sizeof joined - 1) ? argv[i] : argv[i] + sizeof joined - 1;
	}
	return count;
}

/* Reads the options of @verb, and the donors before, between and after them as they are written. Returns 0, -ECANCELED
   after --help, or -EINVAL after one logged line. */
static int words_read(const char *verb, const struct config_setting *settings, int argc, char **argv,
		      struct config_list *ret_words)
{
	argc = donor_words(argc, argv);
	int at = defaults_read(settings, NULL, argc, argv, NULL), taken;

	ret_words->count = 0;
	while (at >= 0 && at < argc) {
		if (ret_words->count == CONFIG_LIST_MAX) {
			log_error("donors %s: more than %u donors are given; split them", verb, CONFIG_LIST_MAX);
			return -EINVAL;
		}
		ret_words->items[ret_words->count++] = argv[at];
		taken = config_read(settings, NULL, argc - at, argv + at, NULL); /* the options after this donor */
		at = taken < 0 ? taken : at + taken;
	}
	return at < 0 ? at : 0;
}

int visit_read(const char *verb, const struct config_setting *settings, int argc, char **argv,
	       const struct config_list *defaults, struct config_list *ret_donors)
{
	static const char *file; /* static, because the string is never freed */
	int status = words_read(verb, settings, argc, argv, ret_donors);

	if (status < 0)
		return status;
	if (ret_donors->count == 0 && defaults)
		*ret_donors = *defaults;
	if (ret_donors->count == 0) {
		log_error("donors %s: no donor given; name one, like farpage donors %s tcp://10.0.0.7", verb, verb);
		return -EINVAL;
	}
	status = donors_option_expand(ret_donors, &file);
	for (unsigned i = 0; status == 0 && i < ret_donors->count; i++)
		for (unsigned j = 0; j < i; j++)
			if (!strcmp(ret_donors->items[i], ret_donors->items[j])) {
				log_error("donors %s: %s is given twice; leave one", verb, ret_donors->items[i]);
				return -EINVAL;
			}
	return status;
}

int visit_run(struct visit *visit, int (*act)(void *user), void *user)
{
	struct far_config config = {.fabric = FABRIC_CONFIG_DEFAULT};
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

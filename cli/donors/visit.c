/* visit: see visit.h. */
#include "cli/donors/visit.h"

#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "common/log.h"

#include <errno.h>

#define VISIT_CONNECT_MS 2000u

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

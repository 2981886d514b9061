/* helper_message: see helper_message.h. */
#include "cli/helper/helper_message.h"

#include "blockdev/devices.h"
#include "cli/run/run_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum helper_status helper_message_check(const void *message, size_t length, struct helper_request *ret_request)
{
	struct helper_request request;

	if (length != sizeof request)
		return HELPER_SHORT;
	memcpy(&request, message, sizeof request);
	if (request.version != HELPER_VERSION || request.zero)
		return HELPER_OTHER;
	if (request.local < RUN_SWAP_LEAST || request.local > SETTINGS_SIZE_MAX)
		return HELPER_LOCAL;
	if (request.swap && (request.swap < SETTINGS_SIZE_MIN || request.swap > SETTINGS_SIZE_MAX))
		return HELPER_SWAP;
	*ret_request = request;
	return HELPER_OK;
}

void helper_message_path(const char *file, char ret_path[PATH_MAX])
{
	const char *folder = secure_getenv("FARPAGE_HELPER");

	snprintf(ret_path, PATH_MAX, "%s/%s", folder && *folder ? folder : "/run/farpage-helper", file);
}

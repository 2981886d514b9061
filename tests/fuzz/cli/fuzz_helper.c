/*
 * Fuzzes what the helper (farpage-helper(8)) does with a user's message as root: the check of the message, and the
 * limits. The input is the limits, the user, a number of bytes, these bytes as the message, and records of other
 * devices. No accepted request exceeds a limit.
 */
#include "blockdev/devices.h"
#include "cli/helper/helper_limits.h"
#include "cli/run/run_options.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The beginning of an input. */
struct beginning {
	struct helper_limits limits;
	uint32_t uid;
	uint32_t length;
};

static void require(bool good)
{
	if (!good)
		abort();
}

static void judge(const struct beginning *input, const struct helper_grant *grants, unsigned count,
		  const struct helper_request *request)
{
	const struct helper_limits *limits = &input->limits;
	uint64_t swap = 0;

	unsigned __int128 all = 0, own = 0;
	unsigned own_count = 0;
	enum helper_status status = helper_limits_judge(limits, grants, count, input->uid, request->swap, &swap);
	char text[HELPER_TEXT_MAX];
	helper_limits_text(limits, status, text);
	require(memchr(text, 0, sizeof text) && (status == HELPER_OK) == !*text);
	if (status) {
		require(status == HELPER_FULL || status == HELPER_USER_DEVICES || status == HELPER_USER_SWAP);
		return;
	}
	for (unsigned i = 0; i < count; i++) {
		all += grants[i].swap;
		own += grants[i].uid == input->uid ? grants[i].swap : 0;
		own_count += grants[i].uid == input->uid;
	}
	require(swap >= SETTINGS_SIZE_MIN && (!request->swap || swap == request->swap));
	require(all + swap <= limits->swap && own + swap <= limits->user_swap);
	require(count < limits->devices && count < HELPER_GRANTS_MAX && own_count < limits->user_devices);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct beginning input;
	struct helper_grant grants[HELPER_GRANTS_MAX + 1] = {0};
	struct helper_request request;

	if (size < sizeof input)
		return 0;
	memcpy(&input, data, sizeof input);
	data += sizeof input;
	size -= sizeof input;
	size_t length = input.length < size ? input.length : size;
	/* A copy of its own, so that the sanitizer finds a read beyond the message. */
	uint8_t *message = malloc(length + !length);
	require(message);
	memcpy(message, data, length);
	enum helper_status status = helper_message_check(message, length, &request);
	free(message);
	if (status) {
		require(status <= HELPER_SWAP);
		return 0;
	}
	require(length == sizeof request && request.version == HELPER_VERSION && !request.zero);
	require(request.local >= RUN_SWAP_LEAST && request.local <= SETTINGS_SIZE_MAX);
	require(!request.swap || (request.swap >= SETTINGS_SIZE_MIN && request.swap <= SETTINGS_SIZE_MAX));
	size_t rest = size - length, most = sizeof grants;
	memcpy(grants, data + length, rest < most ? rest : most);
	judge(&input, grants, (unsigned)((rest < most ? rest : most) / sizeof grants[0]), &request);
	return 0;
}

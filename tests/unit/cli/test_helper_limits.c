/* Unit tests of cli/helper: which messages the helper accepts, and what its limits allow to a user. */
#include "blockdev/devices.h"
#include "cli/helper/helper_limits.h"
#include "cli/run/run_options.h"
#include "tests/lib/tap.h"

#define MIB (UINT64_C(1) << 20)
#define COUNT(array) (unsigned)(sizeof(array) / sizeof(array)[0])

static const struct helper_limits limits = {.swap = 100 * MIB, .user_swap = 60 * MIB, .devices = 4, .user_devices = 2};

static enum helper_status check(struct helper_request request, struct helper_request *ret_request)
{
	return helper_message_check(&request, sizeof request, ret_request);
}

static struct helper_request good(void)
{
	return (struct helper_request){.version = HELPER_VERSION, .local = 24 * MIB, .swap = 16 * MIB};
}

static void a_message_of_another_length_is_refused(void)
{
	char bytes[sizeof(struct helper_request) + 1] = {0};
	struct helper_request request = good(), read = {.local = 7};

	memcpy(bytes, &request, sizeof request);
	bool refused = true;
	for (size_t length = 0; length <= sizeof bytes; length++)
		if (length != sizeof request)
			refused = refused && helper_message_check(bytes, length, &read) == HELPER_SHORT;
	ok(refused && read.local == 7, "a message of another length is refused, and nothing is read from it");
	ok(check(request, &read) == HELPER_OK && read.local == 24 * MIB && read.swap == 16 * MIB,
	   "a message of the right length is read");
}

static void a_message_of_another_version_is_refused(void)
{
	struct helper_request request = good(), read;

	request.version = HELPER_VERSION + 1;
	ok(check(request, &read) == HELPER_OTHER, "a message of the next version is refused");
	request = good();
	request.zero = 1;
	ok(check(request, &read) == HELPER_OTHER, "a message whose reserved field is in use is refused");
}

static bool local_is(uint64_t local, enum helper_status status)
{
	struct helper_request request = good(), read;

	request.local = local;
	return check(request, &read) == status;
}

static bool swap_is(uint64_t swap, enum helper_status status)
{
	struct helper_request request = good(), read;

	request.swap = swap;
	return check(request, &read) == status;
}

static void sizes_out_of_bounds_are_refused(void)
{
	ok(local_is(RUN_SWAP_LEAST, HELPER_OK) && local_is(RUN_SWAP_LEAST - 1, HELPER_LOCAL) &&
	       local_is(0, HELPER_LOCAL),
	   "local memory below the least of the swap engine is refused");
	ok(local_is(SETTINGS_SIZE_MAX, HELPER_OK) && local_is(SETTINGS_SIZE_MAX + 1, HELPER_LOCAL) &&
	       local_is(UINT64_MAX, HELPER_LOCAL),
	   "local memory above 64T is refused");
	ok(swap_is(0, HELPER_OK) && swap_is(SETTINGS_SIZE_MIN, HELPER_OK) && swap_is(1, HELPER_SWAP) &&
	       swap_is(SETTINGS_SIZE_MIN - 1, HELPER_SWAP),
	   "swap space is 0 or 1M at least");
	ok(swap_is(SETTINGS_SIZE_MAX, HELPER_OK) && swap_is(SETTINGS_SIZE_MAX + 1, HELPER_SWAP) &&
	       swap_is(UINT64_MAX, HELPER_SWAP),
	   "swap space above 64T is refused");
}

static enum helper_status judge(const struct helper_grant *grants, unsigned count, uint32_t uid, uint64_t swap,
				uint64_t *ret_swap)
{
	*ret_swap = 0;
	return helper_limits_judge(&limits, grants, count, uid, swap, ret_swap);
}

static void a_user_may_have_what_is_left(void)
{
	const struct helper_grant grants[] = {{.swap = 20 * MIB, .uid = 1}, {.swap = 50 * MIB, .uid = 2}};
	uint64_t swap;

	ok(judge(NULL, 0, 1, 0, &swap) == HELPER_OK && swap == 60 * MIB,
	   "the first user gets all that one user may have");
	ok(judge(NULL, 0, 1, 60 * MIB, &swap) == HELPER_OK && swap == 60 * MIB &&
	       judge(NULL, 0, 1, 60 * MIB + 1, &swap) == HELPER_USER_SWAP && swap == 0,
	   "a user may have exactly swap-per-user");
	ok(judge(grants, COUNT(grants), 1, 0, &swap) == HELPER_OK && swap == 30 * MIB,
	   "a user whose own limit is higher gets what is left of all");
	ok(judge(grants, COUNT(grants), 2, 0, &swap) == HELPER_OK && swap == 10 * MIB,
	   "a user gets what is left of the user's own limit");
	ok(judge(grants, COUNT(grants), 3, 30 * MIB + 1, &swap) == HELPER_FULL,
	   "no user may have more than what is left of all");
}

static void devices_are_limited(void)
{
	const struct helper_grant two[] = {{.swap = MIB, .uid = 1}, {.swap = MIB, .uid = 1}};
	const struct helper_grant four[] = {{MIB, 1, 0}, {MIB, 2, 0}, {MIB, 3, 0}, {MIB, 4, 0}};
	const struct helper_grant rest[] = {{.swap = 60 * MIB - 1, .uid = 1}};
	uint64_t swap;

	ok(judge(two, COUNT(two), 1, MIB, &swap) == HELPER_USER_DEVICES,
	   "a user may not have more devices than devices-per-user");
	ok(judge(two, COUNT(two), 2, MIB, &swap) == HELPER_OK, "devices of one user do not count for another");
	ok(judge(four, COUNT(four), 5, MIB, &swap) == HELPER_FULL, "all users may not have more devices than devices");
	ok(judge(rest, COUNT(rest), 1, 0, &swap) == HELPER_USER_SWAP, "a user gets no device below the least size");
}

static void sums_do_not_overflow(void)
{
	const struct helper_grant broken[] = {{.swap = UINT64_MAX, .uid = 9}, {.swap = UINT64_MAX, .uid = 9}};
	uint64_t swap;

	ok(judge(broken, COUNT(broken), 1, MIB, &swap) == HELPER_FULL, "records of the largest size leave nothing");
	ok(judge(broken, 1, 9, MIB, &swap) == HELPER_USER_SWAP, "a record of the largest size leaves its user nothing");
}

static void each_status_has_a_text(void)
{
	char text[HELPER_TEXT_MAX];
	bool all = true;

	for (enum helper_status status = HELPER_SHORT; status < HELPER_STATUSES; status++) {
		helper_limits_text(&limits, status, text);
		all = all && strlen(text) > 20 && strlen(text) < HELPER_TEXT_MAX - 1 && !strchr(text, '\n');
	}
	ok(all, "each error has a text of one line");
	helper_limits_text(&limits, HELPER_USER_SWAP, text);
	ok(strstr(text, "60M"), "the text about the user's limit has the limit");
}

int main(void)
{
	a_message_of_another_length_is_refused();
	a_message_of_another_version_is_refused();
	sizes_out_of_bounds_are_refused();
	a_user_may_have_what_is_left();
	devices_are_limited();
	sums_do_not_overflow();
	each_status_has_a_text();
	return tap_done();
}

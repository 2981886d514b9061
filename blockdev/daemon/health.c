#include "blockdev/daemon/health.h"

#include "client/far.h"
#include "common/events.h"
#include "common/log.h"

#include <stdio.h>

static const char *const names[] = {
    [HEALTH_SERVING] = "serving", [HEALTH_DEGRADED] = "degraded", [HEALTH_FAILED] = "failed"};
_Static_assert(sizeof names / sizeof *names == HEALTHS, "every state has a name");

const char *health_name(enum health health)
{
	return names[health];
}

struct health_sight health_look(const struct store *store, bool backup)
{
	/* too large for the stack; only the main thread uses it */
	static struct far_donor_info donors[FAR_DONORS_MAX];
	struct health_sight sight = {.donors = far_donors(store, donors, FAR_DONORS_MAX), .backup = backup};
	struct store_stats stats;

	for (unsigned i = 0; i < sight.donors; i++) {
		sight.lost += donors[i].status < 0;
		sight.away += donors[i].away;
	}
	store_stats(store, &stats);
	sight.lacking = stats.slabs_lacking;
	sight.missing = stats.missing_pages;
	return sight;
}

static const char *is_or_are(uint64_t count)
{
	return count == 1 ? "is" : "are";
}

enum health health_judge(const struct health_sight *sight, char ret_why[HEALTH_WHY_MAX])
{
	ret_why[0] = '\0';
	if (sight->lost)
		snprintf(ret_why, HEALTH_WHY_MAX, "%u of %u donors %s lost", sight->lost, sight->donors,
			 is_or_are(sight->lost));
	else if (sight->away)
		snprintf(ret_why, HEALTH_WHY_MAX, "%u of %u donors %s out of reach, and waited for", sight->away,
			 sight->donors, is_or_are(sight->away));
	else if (sight->missing)
		snprintf(ret_why, HEALTH_WHY_MAX, "%llu pages were lost, and have not been written anew",
			 (unsigned long long)sight->missing);
	else if (sight->lacking)
		snprintf(ret_why, HEALTH_WHY_MAX, "%llu replicas of slabs are lacking",
			 (unsigned long long)sight->lacking);
	if (sight->donors && sight->lost == sight->donors && !sight->backup)
		return HEALTH_FAILED;
	return ret_why[0] ? HEALTH_DEGRADED : HEALTH_SERVING;
}

void health_tell(struct health_told *told, const char *path, enum health health, const char *why, uint64_t now)
{
	if (health != told->seen) {
		told->seen = health;
		told->since = now;
	}
	if (health == told->told || now - told->since < HEALTH_TELL_NS)
		return;
	told->told = health;
	if (health == HEALTH_FAILED)
		log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_DEVICE_FAILED, .device = path),
			  "%s has failed: %s; it is used again when one of them is back", path, why);
	else if (health == HEALTH_DEGRADED)
		log_event(LOG_LEVEL_WARNING, LOG_FIELDS(.id = EVENT_DEVICE_DEGRADED, .device = path),
			  "%s is degraded: %s", path, why);
	else
		log_event(LOG_LEVEL_WARNING, LOG_FIELDS(.id = EVENT_DEVICE_WHOLE, .device = path), "%s is whole again",
			  path);
}

/* donors_recall: see donors_recall.h. */
#include "client/donor/donors_recall.h"

#include "client/donor/donors_tell.h"
#include "common/events.h"
#include "common/log.h"

#include <inttypes.h>

#define NS_PER_MS UINT64_C(1000000)
/* If a deadline is nearer than this, `pressing` is set. A new deadline is usually twice as far away. */
#define PRESSING_NS (5000 * NS_PER_MS)

/* Counts and logs pages that were lost because their slabs were taken before the pages could be moved. @uri is the
   donor, or NULL if it is unknown. @lost is the number of pages. Also logs pages that became KEPT: @kept is the value
   of integrity.kept before the slabs were taken. */
static void lost_tell(struct far *far, const char *uri, uint64_t lost, uint64_t kept)
{
	donors_tell_kept(far, kept);
	if (!lost)
		return;
	far->lost_pages += lost;
	log_event(LOG_LEVEL_WARNING, LOG_FIELDS(.id = EVENT_DATA_LOST, .donor = uri),
		  "%s has taken memory back that could not be moved in time, and %" PRIu64 " pages are lost with it: "
		  "add donors, or give --replicas 2",
		  uri ? uri : "a donor", lost);
}

static void recall(struct far *far, unsigned index, const struct wire_message *message, uint64_t now)
{
	const uint32_t ms = message->revoke.deadline_ms;
	const bool first = !far->leases.recalled;

	if (leases_recall(&far->leases, index, message->revoke.slab,
			  ms == WIRE_NO_DEADLINE ? UINT64_MAX : now + ms * NS_PER_MS, now) &&
	    first)
		log_info("donor %s recalls memory: the pages there are moved to other donors", far->donors[index].uri);
}

/* Tells the rebuild thread how urgently slabs must be moved. `hurry`: a donor recalls slabs, and pages that are not
   moved in time may be lost. `pressing`: a deadline is near. */
static void hurry_set(struct far *far, uint64_t now)
{
	far->hurry = leases_recalling(&far->leases);
	far->pressing = far->hurry && leases_recalls_due(&far->leases) < now + PRESSING_NS;
}

void donors_recall_message(struct far *far, unsigned index, const struct wire_message *message, uint64_t now)
{
	const uint64_t kept = far->integrity.kept;

	if (message->type == WIRE_REVOKE)
		recall(far, index, message, now);
	else if (message->type == WIRE_KEEP)
		leases_keep(&far->leases, index, message->keep.slab);
	else
		lost_tell(far, far->donors[index].uri, leases_taken(&far->leases, index, message->revoked.slab, now),
			  kept);
	hurry_set(far, now);
}

int donors_recall_claim_taken(struct far *far, unsigned index, uint32_t request, uint64_t now)
{
	const uint64_t kept = far->integrity.kept;
	uint64_t slab;
	int status = claims_denied(&far->donors[index].claims, request, &slab);

	if (status <= 0)
		return status;
	lost_tell(far, far->donors[index].uri, leases_taken(&far->leases, index, slab, now), kept);
	return 0;
}

void donors_recall_tick(struct far *far, uint64_t now)
{
	const uint64_t kept = far->integrity.kept;

	lost_tell(far, NULL, leases_recalls_tick(&far->leases, now), kept);
	hurry_set(far, now);
}

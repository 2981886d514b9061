/* donors_act: carries out the actions of the lease planner, see donors.h. */
#include "client/donor/donors_tell.h"
#include "client/donor/internal.h"
#include "client/rebuild/rebuild.h"

/* Carries out an action that needs no message to a donor. Returns false if the action needs a message. */
static bool action_is_ours(struct far *far, const struct leases_action *action)
{
	switch (action->kind) {
	case LEASES_ASK:
	case LEASES_RELEASE:
		return false;
	case LEASES_WAKE:
		return true;
	case LEASES_FILL:
	case LEASES_DRAIN:
	case LEASES_LEAVE:
		if (action->kind == LEASES_LEAVE)
			donors_tell_leaving(far);
		fill_give(&far->rebuild->fill, action);
		mailbox_wake_rebuild(&far->mailbox);
		return true;
	case LEASES_LACKING:
	case LEASES_WHOLE:
		donors_tell_replicas(far, action->kind == LEASES_WHOLE);
		return true;
	}
	return true;
}

static void figures_publish(struct far *far)
{
	for (unsigned i = 0; i < far->donor_count; i++)
		atomic_store_explicit(&far->leased_here[i], far->leases.donors[i].held * far->leases.config.slab_bytes,
				      memory_order_relaxed);
}

void donors_act(struct far *far, uint64_t now)
{
	struct leases_action action;
	bool wake = false;

	while (leases_next(&far->leases, &action)) {
		struct far_donor *donor = &far->donors[action.donor];
		struct wire_message message = {.request = action.request};

		if (action_is_ours(far, &action)) {
			wake |= action.kind == LEASES_WAKE;
			continue;
		}
		far->quiet[action.donor] = 0;
		message.type = action.kind == LEASES_ASK ? WIRE_LEASE : WIRE_RELEASE;
		if (action.kind == LEASES_RELEASE)
			message.release.slab = action.slab;
		if (donor->comeback.state == COMEBACK_UP && !session_request(&donor->session, &message, now))
			donors_broke(far, action.donor, donor->session.donor.status, now);
	}
	if (wake) {
		figures_publish(far); /* first: who has waited for a slab may ask for the figures */
		donors_wake_queues(far, false);
	}
}

void donors_carry_out(struct far *far, uint64_t now)
{
	donors_act(far, now);
	figures_publish(far);
}

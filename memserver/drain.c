/* drain: see drain.h. */
#include "memserver/drain.h"

#include "common/log.h"
#include "memserver/connection.h"
#include "memserver/drain_file.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/*
 * Returns the remaining time in ms for the wire. The result is 0 only when the time is over, and WIRE_NO_DEADLINE only
 * when there is no deadline.
 */
static uint32_t left_ms(uint64_t until, uint64_t now)
{
	uint64_t ms = until > now ? (until - now + 999999) / 1000000 : 0;

	if (until == LEASE_NEVER)
		return WIRE_NO_DEADLINE;
	return ms < WIRE_NO_DEADLINE ? (uint32_t)ms : WIRE_NO_DEADLINE - 1;
}

static void drain_answer(struct donor *donor, uint32_t session, uint32_t request)
{
	struct wire_message answer = {.type = WIRE_DRAINING, .request = request};
	struct lease_draining draining;

	lease_drain_status(donor->book, &draining);
	answer.draining.slabs = draining.slabs;
	answer.draining.holders = draining.holders;
	answer.draining.left_ms = left_ms(draining.until, donor_now(donor));
	lease_capacity(donor->book, &answer.draining.capacity);
	connection_send(donor, session, &answer);
}

/* Answers with the first session from index @from on that has slabs. */
static void holder_answer(struct donor *donor, uint32_t session, uint32_t request, uint32_t from)
{
	struct wire_message answer = {.type = WIRE_HOLDER_REPLY, .request = request};

	for (uint32_t i = from; i < donor->config.limits.sessions; i++) {
		const struct lease_session *holder = &donor->book->sessions[i];

		if (!holder->slabs)
			continue;
		answer.holder_reply.next = i + 1;
		answer.holder_reply.slabs = holder->slabs;
		answer.holder_reply.away = holder->state != LEASE_SESSION_ACTIVE;
		answer.holder_reply.held_s = (uint32_t)(donor_held_ns(donor, i) / 1000000000);
		answer.holder_reply.about = donor->sessions[i].about;
		memcpy(answer.holder_reply.key, holder->owner, WIRE_KEY_NAME_SIZE);
		memcpy(answer.holder_reply.name, holder->id, WIRE_NAME_SIZE);
		memcpy(answer.holder_reply.peer, donor->sessions[i].from, WIRE_ADDRESS_SIZE);
		break;
	}
	connection_send(donor, session, &answer);
}

/*
 * Returns true if the session may do what @message asks:
 *
 * - Without keys, any client may do anything.
 * - Every client may ask for the progress of a drain.
 * - If there is an admin key, only clients with that key may begin a drain, end it, or list the holders of leases.
 * - If there are keys but no admin key, every client may do these three things. But nobody may drain by force, which
 *   would destroy others' data.
 */
static bool may_act(const struct donor *donor, uint32_t session, const struct wire_message *message)
{
	const struct keyring *keys = donor->config.keys;

	if (!keyring_is_needed(keys) || donor->sessions[session].admin)
		return true;
	if (message->type == WIRE_DRAIN && message->drain.what == WIRE_DRAIN_ASK)
		return true;
	return !keys->admins && !(message->type == WIRE_DRAIN && message->drain.what == WIRE_DRAIN_FORCE);
}

static void act_deny(struct donor *donor, uint32_t session, const struct wire_message *message)
{
	static const char *const acts[WIRE_DRAIN_COUNT] = {
	    [WIRE_DRAIN_WAIT] = "drain", [WIRE_DRAIN_FORCE] = "drain by force", [WIRE_DRAIN_END] = "undrain"};
	struct wire_message answer = {.type = WIRE_DENIED, .request = message->request};
	char who[DONOR_WHO_MAX];

	donor_who(donor, session, who);
	if (donor_may_tell(donor, DONOR_ACTS))
		log_warning("not allowed to %s (%s): the admin key is needed",
			    message->type == WIRE_DRAIN ? acts[message->drain.what] : "see who leases what", who);
	answer.denied.reason = WIRE_REASON_ADMIN;
	lease_capacity(donor->book, &answer.denied.capacity);
	connection_send(donor, session, &answer);
}

void drain_take(struct donor *donor, uint32_t session, const struct wire_message *message)
{
	char who[DONOR_WHO_MAX];

	if (!may_act(donor, session, message)) {
		act_deny(donor, session, message);
		return;
	}
	if (message->type == WIRE_HOLDER) {
		holder_answer(donor, session, message->request, message->holder.from);
		return;
	}
	assert(message->type == WIRE_DRAIN);
	if (message->drain.what != WIRE_DRAIN_ASK) {
		donor_who(donor, session, who);
		drain_file_write(donor->config.drain_file, message->drain.what != WIRE_DRAIN_END, who);
		donor_drain(donor, donor_now(donor), session, (enum wire_drain)message->drain.what,
			    message->drain.deadline_ms * UINT64_C(1000000));
	}
	drain_answer(donor, session, message->request);
}

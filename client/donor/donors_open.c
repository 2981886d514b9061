/* donors_open: connects to the donors of a store that is opened or adopted. See donors.h. */
#include "client/donor/donors_list.h"
#include "client/donor/donors_tell.h"
#include "client/donor/internal.h"
#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>

/* The most handshakes at a time. Each has a deadline, which many at once could miss for lack of processor time. */
#define HANDSHAKES_MAX 64u

void donors_connect(struct far *far, uint64_t now)
{
	unsigned under_way = 0;

	for (unsigned i = 0; i < far->connect_next; i++) {
		const enum donor_state state = far->donors[i].session.donor.state;

		under_way += state != DONOR_READY && state != DONOR_LOST;
	}
	for (; far->connect_next < far->donor_count && under_way < HANDSHAKES_MAX; under_way++) {
		struct far_donor *donor = &far->donors[far->connect_next];

		far->quiet[far->connect_next++] = 0;
		donors_session_open(far, donor, donor->uri, far->config.fabric.connect_ms, now);
	}
	for (unsigned i = far->connect_next; i < far->donor_count; i++)
		far->quiet[i] = UINT64_MAX; /* it has no session yet */
}

bool donors_donor_is_ready(const struct far_donor *donor)
{
	return donor->session.donor.state == DONOR_READY;
}

/* Returns true if the ready donors are in enough failure domains for all replicas. */
static bool ready_are_enough(const struct far *far)
{
	struct failure_domains domains = {0};
	unsigned ready = 0;

	for (unsigned i = 0; i < far->donor_count; i++)
		if (donors_donor_is_ready(&far->donors[i]))
			failure_domains_name(&domains, ready++, far->donors[i].session.donor.failure_domain);
	return ready && failure_domains_count(&domains, ready) >= far->config.replicas;
}

int donors_outcome(const struct far *far)
{
	const struct far_donor *failed = NULL;
	char text[DONOR_EXPLAIN_MAX];
	bool waits = false;

	for (unsigned i = 0; i < far->donor_count; i++) {
		const struct far_donor *donor = &far->donors[i];
		const struct donor *machine = &donor->session.donor;

		/* Looks for duplicates before it looks at the sessions' states. Two sessions with one donor end each
		   other, and the resulting errors would hide the cause. */
		if (donor->twin) {
			donors_list_tell_twin(far, i, (unsigned)donors_list_twin(far, i));
			return -EINVAL;
		}
		waits |= machine->state != DONOR_READY && machine->state != DONOR_LOST;
		if (machine->state == DONOR_LOST && !failed)
			failed = donor;
	}
	/* If a donor was ready and then broke off, another address may lead to the same donor. The answer from that
	   address will show this, so waits for it. */
	if (waits && (!failed || far->config.go_without || failed->session.donor.incarnation))
		return 1;
	if (!failed || (far->config.go_without && comeback_is_out_of_reach(failed->session.donor.status) &&
			!failed->session.donor.reason && ready_are_enough(far)))
		return 0;
	log_error("donor %s %s", failed->uri, donor_explain(&failed->session.donor, text));
	return failed->session.donor.status;
}

void donors_opened(struct far *far, uint64_t now)
{
	for (unsigned i = 0; i < far->donor_count; i++) {
		struct far_donor *donor = &far->donors[i];
		struct comeback_config config;

		far->quiet[i] = 0;
		if (donors_donor_is_ready(donor)) {
			donors_tell_failure_domain(far, i);
			leases_donor_heard(&far->leases, i, donors_free_bytes(donor));
			continue;
		}
		donor->status = donor->session.donor.status;
		log_warning("donor %s does not answer (%s): continuing without it until it answers", donor->uri,
			    format_errno(donor->status));
		config = donors_comeback_config(far);
		donor->away_at = clock_now();
		comeback_absent(&donor->comeback, &config, donor->status, now);
		donor->told = donor->adopted = true;
		session_drop(&donor->session);
		donors_round_end(far, donor); /* it may have broken off while others were connecting */
	}
}

void donors_adopt(struct far *far, uint64_t now)
{
	for (unsigned i = 0; i < far->donor_count; i++) {
		struct far_donor *donor = &far->donors[i];
		const struct comeback_config config = donors_comeback_config(far);

		donor->away_at = clock_now();
		comeback_adopt(&donor->comeback, &config, *state_incarnation(far->state, i), now);
		donor->adopted = true;
		session_drop(&donor->session); /* makes the session LOST, because none has been started */
		leases_donor_adopt(&far->leases, i, claims_count(&far->table, i));
	}
}

/* Returns true if the donor rejects our key or protocol version. All donors must have the same key and version, so
   the other donors would also reject ours. */
static bool donor_objects(const struct far_donor *donor)
{
	return donor->comeback.end == COMEBACK_REFUSED &&
	       (donor->comeback.status == -EKEYREJECTED || donor->comeback.status == -EPROTONOSUPPORT);
}

/* Returns true if this lost donor holds no slabs of the store: it was restarted, has given up the slabs, or never had
   any. */
static bool donor_holds_nothing(const struct far *far, unsigned index)
{
	enum comeback_end end = far->donors[index].comeback.end;

	return end == COMEBACK_RESTARTED || end == COMEBACK_FORGOTTEN || !far->leases.donors[index].held;
}

int donors_adopt_outcome(const struct far *far)
{
	bool up = false, waits = false, empty = true;
	int status = 0;

	for (unsigned i = 0; i < far->donor_count; i++) {
		const struct far_donor *donor = &far->donors[i];

		/* A donor without slabs of ours may have been removed, and another program may use its address by
		   now. */
		if (donor_objects(donor) && far->leases.donors[i].held)
			return donor->comeback.status;
		up |= donor->comeback.state == COMEBACK_UP;
		waits |= donor->comeback.state != COMEBACK_LOST;
		if (donor->comeback.state != COMEBACK_LOST)
			continue;
		status = donor->comeback.status;
		empty &= donor_holds_nothing(far, i);
	}
	if (up || waits)
		return up ? 0 : 1;
	return far->backup_path && empty ? 0 : status;
}

void donors_adopted(struct far *far, uint64_t now)
{
	far->adopting = false;
	for (unsigned i = 0; i < far->donor_count; i++)
		if (far->donors[i].comeback.state == COMEBACK_LOST) {
			donors_incarnation_keep(far, i, 0);
			donors_lose_donor(far, i, now);
		}
}

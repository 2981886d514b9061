/* peers_open: reaches the donors of a store that is opened or adopted. See peers.h. */
#include "client/donor/internal.h"
#include "client/donor/peers_tell.h"
#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"
#include "common/random.h"

#include <errno.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)

void peers_connect(struct far *far, uint64_t now)
{
	for (unsigned i = 0; i < far->peer_count; i++)
		peers_session_open(far, &far->peers[i], far->peers[i].uri, far->config.fabric.connect_ms, now);
}

bool peers_donor_is_ready(const struct far_peer *peer)
{
	return peer->session.donor.state == DONOR_READY;
}

/* Returns true if the ready donors can hold all replicas without the other donors. */
static bool ready_are_enough(const struct far *far)
{
	struct domains domains = {0};
	unsigned ready = 0;

	for (unsigned i = 0; i < far->peer_count; i++)
		if (peers_donor_is_ready(&far->peers[i]))
			domains_name(&domains, ready++, far->peers[i].session.donor.domain);
	return ready && domains_count(&domains, ready) >= far->config.replicas;
}

int peers_outcome(const struct far *far)
{
	const struct far_peer *failed = NULL;
	char text[DONOR_EXPLAIN_MAX];
	bool waits = false;

	for (unsigned i = 0; i < far->peer_count; i++) {
		const struct far_peer *peer = &far->peers[i];
		const struct donor *donor = &peer->session.donor;

		/* Checked first: two sessions of one client end each other, which would hide the cause. */
		if (peers_is_duplicate(far, i))
			return -EINVAL;
		waits |= donor->state != DONOR_READY && donor->state != DONOR_LOST;
		if (donor->state == DONOR_LOST && !failed)
			failed = peer;
	}
	/* If a donor was ready and then broke off, the reason may be a second address for the same donor. Its answer
	   will tell, so wait for it. */
	if (waits && (!failed || far->config.go_without || failed->session.donor.incarnation))
		return 1;
	if (!failed || (far->config.go_without && comeback_is_out_of_reach(failed->session.donor.status) &&
			!failed->session.donor.reason && ready_are_enough(far)))
		return 0;
	log_error("donor %s %s", failed->uri, donor_explain(&failed->session.donor, text));
	return failed->session.donor.status;
}

void peers_opened(struct far *far, uint64_t now)
{
	for (unsigned i = 0; i < far->peer_count; i++) {
		struct far_peer *peer = &far->peers[i];
		uint64_t seed;

		if (peers_donor_is_ready(peer)) {
			peers_tell_domain(far, i);
			leases_donor_heard(&far->leases, i, peers_free_bytes(peer));
			continue;
		}
		peer->status = peer->session.donor.status;
		log_warning("donor %s does not answer (%s): going on without it until it does", peer->uri,
			    format_errno(peer->status));
		random_secret(&seed, sizeof seed);
		peer->away_at = clock_now();
		comeback_absent(&peer->comeback, far->config.timeout_ms * NS_PER_MS, seed, peer->status, now);
		peer->told = peer->adopted = true;
		session_drop(&peer->session);
		peers_round_end(far, peer); /* it may have been ready, and have broken off while others were awaited */
	}
}

void peers_adopt(struct far *far, uint64_t now)
{
	for (unsigned i = 0; i < far->peer_count; i++) {
		struct far_peer *peer = &far->peers[i];
		uint64_t seed;

		random_secret(&seed, sizeof seed);
		peer->away_at = clock_now();
		comeback_adopt(&peer->comeback, far->config.timeout_ms * NS_PER_MS, seed,
			       state_header(far->state)->incarnations[i], now);
		peer->adopted = true;
		session_drop(&peer->session); /* no session has been started */
		leases_donor_adopt(&far->leases, i, claims_count(&far->table, i));
	}
}

/* Returns true if the donor rejects our key or protocol version. All donors share one key, and this program has one
   version, so the answer counts for all. */
static bool peer_objects(const struct far_peer *peer)
{
	return peer->comeback.end == COMEBACK_REFUSED &&
	       (peer->comeback.status == -EKEYREJECTED || peer->comeback.status == -EPROTONOSUPPORT);
}

/* Returns true if this lost donor holds nothing of the store: it restarted, forgot its slabs, or never had any. */
static bool peer_holds_nothing(const struct far *far, unsigned index)
{
	enum comeback_end end = far->peers[index].comeback.end;

	return end == COMEBACK_RESTARTED || end == COMEBACK_FORGOTTEN || !far->leases.donors[index].held;
}

int peers_adopt_outcome(const struct far *far)
{
	bool up = false, waits = false, empty = true;
	int status = 0;

	for (unsigned i = 0; i < far->peer_count; i++) {
		const struct far_peer *peer = &far->peers[i];

		if (peer_objects(peer))
			return peer->comeback.status;
		up |= peer->comeback.state == COMEBACK_UP;
		waits |= peer->comeback.state != COMEBACK_LOST;
		if (peer->comeback.state != COMEBACK_LOST)
			continue;
		status = peer->comeback.status;
		empty &= peer_holds_nothing(far, i);
	}
	if (up || waits)
		return up ? 0 : 1;
	return far->backup_path && empty ? 0 : status;
}

void peers_adopted(struct far *far, uint64_t now)
{
	far->adopting = false;
	for (unsigned i = 0; i < far->peer_count; i++)
		if (far->peers[i].comeback.state == COMEBACK_LOST) {
			peers_incarnation_keep(far, i, 0);
			peers_lose_donor(far, i, now);
		}
}

/* peers: see peers.h. */
#include "client/donor/peers.h"

#include "client/donor/control.h"
#include "client/donor/internal.h"
#include "client/donor/peers_recall.h"
#include "client/donor/peers_tell.h"
#include "client/io/far_queue.h"
#include "client/rebuild/rebuild.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)
/* Deadline of the first try to reach a donor again, in ms. Each further try may take this much longer, up to the
   configured deadline. If the first packet of a connect is lost, the kernel repeats it after a second at the
   earliest. */
#define PEER_TRY_MS 1000u
/* Donors must keep our leases longer than we try to reach them. They must also keep them while this process is stopped
   for a while by its user, a debugger or a migration. */
#define PEER_GRACE_MORE_MS 1000u
#define PEER_STOPPED_MS 600000u
/* How long leases live after a connection ended without a SUSPEND: either this process has ended, or the connection was
   reset and a try follows at once. */
#define PEER_CLOSED_MS 2000u
/* How long leases wait for the process that adopts a store, if the configuration does not say. Somebody has to start
   that process. */
#define PEER_ADOPT_MS 60000u

/* --- What queues see -------------------------------------------------------------------------------------------- */

/* A report is round << 32 | -status. The numerically greatest report is kept, so a newer round wins over an older
   one. */
void far_donor_broke(struct far *far, unsigned peer, uint32_t round, int status)
{
	uint64_t report = (uint64_t)round << 32 | (uint16_t)-status;
	uint64_t before = atomic_load(&far->peers[peer].report);

	assert(status < 0);
	while (before < report)
		if (atomic_compare_exchange_weak(&far->peers[peer].report, &before, report))
			break;
	control_kick(far);
}

void far_donor_waits(struct far *far, unsigned peer, uint64_t since)
{
	uint64_t before = atomic_load(&far->peers[peer].waits);

	while (!before || since < before) {
		if (!atomic_compare_exchange_weak(&far->peers[peer].waits, &before, since))
			continue;
		control_kick(far);
		return;
	}
}

/* --- Going and coming ------------------------------------------------------------------------------------------- */

static void queues_wake(struct far *far, bool all)
{
	struct far_queue *queue;

	pthread_mutex_lock(&far->lock);
	LIST_FOREACH(queue, &far->queues, link)
		far_queue_wake(queue, all);
	pthread_mutex_unlock(&far->lock);
}

void peers_round_end(struct far *far, struct far_peer *peer)
{
	peer->waits = 0; /* queues with requests that still wait set it again */
	if (peer->round & 1)
		peer->round++;
	far->changes++;
	queues_wake(far, true);
}

/* Starts a new round: connections made from now on belong to it, and prove that they know this session's key. */
static void round_begin(struct far *far, struct far_peer *peer)
{
	pthread_mutex_lock(&far->attach);
	memcpy(peer->session_key, peer->session.donor.session_key, AUTH_KEY_SIZE);
	assert(!(peer->round & 1));
	peer->round++;
	pthread_mutex_unlock(&far->attach);
	far->changes++;
	queues_wake(far, true);
}

uint64_t peers_free_bytes(const struct far_peer *peer)
{
	const struct wire_capacity *capacity = &peer->session.donor.capacity;

	return capacity->donated > capacity->leased ? capacity->donated - capacity->leased : 0;
}

static void peer_heard(struct far_peer *peer)
{
	const struct wire_capacity *capacity = &peer->session.donor.capacity;

	peer->donated = capacity->donated;
	peer->leased = capacity->leased;
	peer->slab_bytes = capacity->slab_bytes;
	peer->clients = capacity->clients;
}

void peers_session_open(struct far *far, struct far_peer *peer, const char *uri, unsigned connect_ms, uint64_t now)
{
	const struct far_config *config = &far->config;
	uint32_t wished_ms = config->grace_ms || !far->state ? config->grace_ms : PEER_ADOPT_MS;
	uint32_t silent_ms = config->timeout_ms > PEER_STOPPED_MS ? config->timeout_ms : PEER_STOPPED_MS;
	uint32_t grace_ms = silent_ms + PEER_GRACE_MORE_MS;
	struct donor_config donor = {.key = config->key,
				     .grace_ms = wished_ms > grace_ms ? wished_ms : grace_ms,
				     .closed_ms = wished_ms > PEER_CLOSED_MS ? wished_ms : PEER_CLOSED_MS,
				     .connect_ns = connect_ms * NS_PER_MS,
				     .timeout_ns = config->timeout_ms * NS_PER_MS};

	memcpy(donor.id, far->id, WIRE_ID_SIZE);
	random_secret(donor.nonce, sizeof donor.nonce);
	session_start(&peer->session, far->fabric, far->domain, uri, &donor, now);
}

static void peer_leave(struct far *far, unsigned index, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];

	peer->told = false;
	peer->away_at = clock_now();
	peers_tell_broke(peer);
	session_suspend(&peer->session);
	leases_donor_away(&far->leases, index, now);
	peers_round_end(far, peer);
}

void peers_incarnation_keep(struct far *far, unsigned index, uint64_t incarnation)
{
	if (far->state)
		atomic_store(&state_header(far->state)->incarnations[index], incarnation);
}

/* The donor has been reached for the first time. Remembers the way (RDMA or TCP). Logs if the donor will not keep
   leases as long as wished. */
static void first_reached(struct far *far, struct far_peer *peer)
{
	peers_tell_grace(far, peer);
	pthread_mutex_lock(&far->attach);
	memcpy(peer->via, peer->session.uri, sizeof peer->via);
	pthread_mutex_unlock(&far->attach);
}

static void peer_return(struct far *far, unsigned index, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];

	peers_tell_back(peer);
	peers_tell_domain(far, index);
	peer->comeback.anew = false;
	peer->status = 0;
	if (peer->adopted)
		first_reached(far, peer);
	peer->adopted = false;
	peers_incarnation_keep(far, index, peer->comeback.incarnation);
	peer_heard(peer);
	/* Not claims.held: the donor may have taken back some of those slabs since. */
	leases_donor_back(&far->leases, index, claims_count(&far->table, index), peers_free_bytes(peer), now);
	round_begin(far, peer);
}

void peers_lose_donor(struct far *far, unsigned index, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];
	uint64_t lost, kept = far->integrity.kept;

	lost = leases_donor_lost(&far->leases, index, now);
	far->lost_pages += lost;
	peer->donated = peer->leased = 0;
	peers_round_end(far, peer);
	log_info("donor %s is lost, and %" PRIu64 " pages with it", peer->uri, lost);
	peers_tell_kept(far, kept);
	/* No PEER_TELL_NS warning from now on: no slot names this donor any more, so nothing waits for its return. */
	peer->told = true;
	comeback_anew(&peer->comeback, now);
}

static void peer_bury(struct far *far, unsigned index, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];

	/* Logged before any request fails because of this donor: the program may not survive that failure. */
	peers_tell_lost(far, peer);
	/* Recorded before any write completes without this donor. A process that adopts the store must not use the
	   donor's copies, which miss that write. */
	if (!far->adopting)
		peers_incarnation_keep(far, index, 0);
	peer->status = peer->comeback.status;
	/* A session that is still alive says goodbye: nothing of ours on this donor is of use any more. */
	if (!far->adopting)
		session_end(&peer->session);
	session_drop(&peer->session);
	if (!far->adopting)
		peers_lose_donor(far, index, now);
}

static void peer_do(struct far *far, unsigned index, enum comeback_step step, uint64_t now);

static void peer_broke(struct far *far, unsigned index, int status, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];
	uint16_t reason = peer->session.donor.reason;
	bool final = reason && reason != WIRE_REASON_FULL;

	peer_do(far, index, comeback_broke(&peer->comeback, status, final, now), now);
}

static void peer_try(struct far *far, unsigned index, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];
	const struct fabric_config *fabric = &far->config.fabric;
	unsigned connect_ms = fabric->connect_ms > fabric->io_ms ? fabric->connect_ms : fabric->io_ms;

	/* For a donor of an adopted store the way is not known yet, and an RDMA device may have to be opened first. So
	   this try gets the full deadline, as when a store is opened. */
	if (!peer->adopted && connect_ms / PEER_TRY_MS > peer->comeback.tries)
		connect_ms = PEER_TRY_MS * peer->comeback.tries;
	peers_session_open(far, peer, peer->adopted ? peer->uri : peer->via, connect_ms, now);
	if (peer->session.donor.state == DONOR_LOST)
		peer_broke(far, index, peer->session.donor.status, now);
}

static bool claim_send(struct far_peer *peer, uint64_t now)
{
	struct wire_message message = {.type = WIRE_CLAIM};

	while (claims_next(&peer->claims, &message.request, &message.claim.slab))
		if (!session_request(&peer->session, &message, now))
			return false;
	message = (struct wire_message){.type = WIRE_CLAIMED};
	return !claims_over(&peer->claims) || session_request(&peer->session, &message, now);
}

/* Sends further claims. When the last claim is answered, the donor is back. */
static void peer_claim(struct far *far, unsigned index, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];

	if (!claim_send(peer, now))
		peer_broke(far, index, peer->session.donor.status, now);
	else if (claims_over(&peer->claims))
		peer_do(far, index, comeback_claimed(&peer->comeback), now);
}

static void peer_do(struct far *far, unsigned index, enum comeback_step step, uint64_t now)
{
	switch (step) {
	case COMEBACK_NOTHING:
		return;
	case COMEBACK_LEAVE:
		peer_leave(far, index, now);
		return;
	case COMEBACK_PAUSE:
		leases_donor_claiming(&far->leases, index, false);
		session_suspend(&far->peers[index].session);
		return;
	case COMEBACK_TRY:
		peer_try(far, index, now);
		return;
	case COMEBACK_CLAIM:
		peer_claim(far, index, now);
		return;
	case COMEBACK_RETURN:
		peer_return(far, index, now);
		return;
	case COMEBACK_BURY:
		peer_bury(far, index, now);
		return;
	}
}

/* --- What sessions say ------------------------------------------------------------------------------------------ */

static void peer_opened(struct far *far, struct far_peer *peer)
{
	uint64_t seed;

	random_secret(&seed, sizeof seed);
	comeback_init(&peer->comeback, far->config.timeout_ms * NS_PER_MS, seed, peer->session.donor.incarnation);
	first_reached(far, peer);
	peer_heard(peer);
	round_begin(far, peer);
}

bool peers_is_duplicate(const struct far *far, unsigned index)
{
	const uint64_t incarnation = far->peers[index].session.donor.incarnation;

	for (unsigned i = 0; i < far->peer_count && incarnation; i++) {
		if (i == index || far->peers[i].comeback.incarnation != incarnation)
			continue;
		log_error("%s and %s are the same donor: name it once", far->peers[i < index ? i : index].uri,
			  far->peers[i < index ? index : i].uri);
		return true;
	}
	return false;
}

static void peer_welcomed(struct far *far, unsigned index, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];
	const struct donor *donor = &peer->session.donor;
	uint64_t held = claims_count(&far->table, index);

	/* The donor ended the session of the other address when it accepted this one. Nothing has been claimed, so
	   nothing must be given back. A goodbye must not be sent either: it would free the leases. */
	if (peers_is_duplicate(far, index)) {
		session_suspend(&peer->session);
		peer_broke(far, index, -EINVAL, now);
		return;
	}
	/* The donor may have been restarted with another --slab. */
	if (donor->capacity.slab_bytes != far->leases.config.slab_bytes && !held) {
		peer_broke(far, index, -EINVAL, now);
		return;
	}
	claims_begin(&peer->claims, &far->table, index);
	leases_donor_claiming(&far->leases, index, true);
	peer_do(far, index, comeback_welcomed(&peer->comeback, donor->incarnation, donor->slabs, held), now);
}

static void claim_answered(struct far *far, unsigned index, const struct wire_message *message, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];
	int status = message->type == WIRE_GRANTED ? 0 : -EPROTO;

	if (message->type == WIRE_DENIED && message->denied.reason == WIRE_REASON_TAKEN) {
		if (peers_recall_claim_taken(far, index, message->request, now) < 0)
			peer_broke(far, index, -EPROTO, now);
		else
			peer_claim(far, index, now);
		return;
	}
	if (message->type == WIRE_DENIED) {
		peer_do(far, index, comeback_denied(&peer->comeback), now);
		return;
	}
	if (status == 0)
		status = claims_confirmed(&peer->claims, message->request, message->granted.slab,
					  message->granted.address, message->granted.rkey);
	if (status < 0) {
		peer_broke(far, index, status, now);
		return;
	}
	leases_recall_void(&far->leases, message->request / FAR_SLOTS_MAX, message->request % FAR_SLOTS_MAX);
	peer_claim(far, index, now);
}

static void lease_answered(struct far *far, unsigned index, const struct wire_message *message, uint64_t now)
{
	struct chunk_slot slot = {0};
	bool asked = true;

	switch (message->type) {
	case WIRE_GRANTED:
		slot.address = message->granted.address;
		slot.rkey = message->granted.rkey;
		slot.slab = message->granted.slab;
		asked = leases_granted(&far->leases, index, message->request, &slot, now);
		break;
	case WIRE_DENIED:
		/* A RELEASE carries no request number. The donor denies it if the donor has already taken the slab
		   itself. */
		asked = message->request ? leases_denied(&far->leases, index, message->request, now)
					 : leases_released(&far->leases, index);
		break;
	case WIRE_RELEASED:
		asked = leases_released(&far->leases, index);
		break;
	default:
		break;
	}
	if (!asked)
		peer_broke(far, index, -EPROTO, now);
}

static void peer_answered(struct far *far, unsigned index, const struct wire_message *message, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];

	peer_heard(peer);
	leases_donor_heard(&far->leases, index, peers_free_bytes(peer));
	if (message->type == WIRE_GRANTED && message->granted.bytes < far->leases.config.slab_bytes)
		peer_broke(far, index, -EPROTO, now);
	else if (peer->comeback.state == COMEBACK_CLAIMING)
		claim_answered(far, index, message, now);
	else
		lease_answered(far, index, message, now);
}

static void peer_news(struct far *far, unsigned index, const struct donor_answer *answer, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];

	switch (answer->news) {
	case DONOR_NOTHING:
		return;
	case DONOR_IS_READY:
		if (far->open)
			peer_welcomed(far, index, now);
		else
			peer_opened(far, peer);
		return;
	case DONOR_IS_LOST:
		if (far->open)
			peer_broke(far, index, peer->session.donor.status, now);
		return;
	case DONOR_ANSWERED:
		if (far->open)
			peer_answered(far, index, &answer->message, now);
		return;
	case DONOR_RECALLS:
		peer_heard(peer);
		leases_donor_heard(&far->leases, index, peers_free_bytes(peer));
		if (far->open)
			peers_recall_message(far, index, &answer->message, now);
		return;
	}
}

/* --- Called by the loop ----------------------------------------------------------------------------------------- */

void peers_event(struct far *far, const struct fabric_event *event, uint64_t now)
{
	struct session *session = event->user;
	struct far_peer *peer = (struct far_peer *)((char *)session - offsetof(struct far_peer, session));
	struct donor_answer answer;

	session_event(session, event, now, &answer);
	peer_news(far, (unsigned)(peer - far->peers), &answer, now);
}

static void report_take(struct far *far, unsigned index, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];
	uint64_t report = atomic_exchange(&peer->report, 0);

	/* A report from an earlier round has been dealt with already. */
	if (report && (uint32_t)(report >> 32) == peer->round)
		peer_broke(far, index, -(int)(uint16_t)report, now);
	if (peer->waits && peer->comeback.state != COMEBACK_UP)
		comeback_waits(&peer->comeback, peer->waits);
}

/* Returns when (by far_now()) the user must be told that the donor is away. Returns UINT64_MAX if the user has been
   told, the donor is not away, or the reason is not known yet. */
static uint64_t tell_due(const struct far *far, const struct far_peer *peer)
{
	if (peer->told || !comeback_is_waited_for(&peer->comeback) || peer->comeback.unknown)
		return UINT64_MAX;
	return patience_at(&far->patience, peer->away_at + PEER_TELL_NS);
}

/* Carries out an action that no donor is told of. Returns false if the action is a message to a donor. */
static bool action_is_ours(struct far *far, const struct leases_action *action)
{
	switch (action->kind) {
	case LEASES_ASK:
	case LEASES_RELEASE:
		return false;
	case LEASES_WAKE:
		return true;
	case LEASES_FILL:
		rebuild_fill(far->rebuild, action->request, action->chunk, action->epoch, action->donor);
		return true;
	case LEASES_DRAIN:
		rebuild_drain(far->rebuild, action->request, action->chunk);
		return true;
	case LEASES_LEAVE:
		peers_tell_leaving(far);
		rebuild_leave(far->rebuild, action->request, action->chunk, action->epoch);
		return true;
	case LEASES_LACKING:
	case LEASES_WHOLE:
		peers_tell_replicas(far, action->kind == LEASES_WHOLE);
		return true;
	}
	return true;
}

static void actions_carry_out(struct far *far, uint64_t now)
{
	struct leases_action action;
	bool wake = false;

	while (leases_next(&far->leases, &action)) {
		struct far_peer *peer = &far->peers[action.donor];
		struct wire_message message = {.request = action.request};

		if (action_is_ours(far, &action)) {
			wake |= action.kind == LEASES_WAKE;
			continue;
		}
		message.type = action.kind == LEASES_ASK ? WIRE_LEASE : WIRE_RELEASE;
		if (action.kind == LEASES_RELEASE)
			message.release.slab = action.slab;
		if (peer->comeback.state == COMEBACK_UP && !session_request(&peer->session, &message, now))
			peer_broke(far, action.donor, peer->session.donor.status, now);
	}
	if (wake)
		queues_wake(far, false);
}

void peers_carry_out(struct far *far, uint64_t now)
{
	actions_carry_out(far, now);
	for (unsigned i = 0; i < far->peer_count; i++)
		far->peers[i].leased_here = far->leases.donors[i].held * far->leases.config.slab_bytes;
}

void peers_tick(struct far *far, uint64_t now)
{
	struct donor_answer answer;

	if (far->open)
		peers_recall_tick(far, now);

	for (unsigned i = 0; i < far->peer_count; i++) {
		struct far_peer *peer = &far->peers[i];

		session_tick(&peer->session, now, &answer);
		peer_news(far, i, &answer, now);
		if (!far->open)
			continue;
		report_take(far, i, now);
		peer_do(far, i, comeback_tick(&peer->comeback, now), now);
		if (now >= tell_due(far, peer))
			peers_tell_away(far, peer);
		actions_carry_out(far, now); /* the queue of actions has room for the loss of only one donor */
	}
}

uint64_t peers_due(const struct far *far)
{
	uint64_t due = far->open ? leases_recalls_due(&far->leases) : UINT64_MAX;

	for (unsigned i = 0; i < far->peer_count; i++) {
		uint64_t session = session_due(&far->peers[i].session);
		uint64_t comeback = far->open ? comeback_due(&far->peers[i].comeback) : UINT64_MAX;

		due = session < due ? session : due;
		due = comeback < due ? comeback : due;
		if (far->open && tell_due(far, &far->peers[i]) < due)
			due = tell_due(far, &far->peers[i]);
	}
	return due;
}

void peers_end(struct far *far)
{
	for (unsigned i = 0; i < far->peer_count; i++)
		session_end(&far->peers[i].session);
}

void peers_leave(struct far *far)
{
	for (unsigned i = 0; i < far->peer_count; i++)
		session_drop(&far->peers[i].session);
}

/* donors: see donors.h. */
#include "client/donor/donors.h"

#include "client/donor/donors_list.h"
#include "client/donor/donors_recall.h"
#include "client/donor/donors_tell.h"
#include "client/donor/internal.h"
#include "client/io/far_queue.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)
/* The deadline of the first try to reach a donor again, in ms. Each further try gets this much more, up to the
   configured deadline. The first deadline is not shorter, because the kernel repeats the first packet of a connect
   only after a second. */
#define DONORS_TRY_MS 1000u
#define DONORS_BEAT_PART 16u
/* If this process falls silent, donors keep our leases a second longer than we try to reach them, and at least ten
   minutes. Its user, a debugger or a migration may only have stopped it. */
#define DONORS_GRACE_MORE_MS 1000u
#define DONORS_STOPPED_MS 600000u
/* How long donors keep leases after a connection ended without a SUSPEND. In this case, this process has ended, or
   the connection was reset and a try follows at once. */
#define DONORS_CLOSED_MS 2000u
/* How long donors keep leases for a process that adopts the store, by default. Somebody must start that process. */
#define DONORS_ADOPT_MS 60000u

/* --- Donors that go away and return ---------------------------------------------------------------------------- */

void donors_wake_queues(struct far *far, bool all)
{
	struct far_queue *queue;

	pthread_mutex_lock(&far->lock);
	LIST_FOREACH(queue, &far->queues, link)
		far_queue_wake(queue, all);
	pthread_mutex_unlock(&far->lock);
}

void donors_round_end(struct far *far, struct far_donor *donor)
{
	mailbox_forget_waits(&far->mailbox, (unsigned)(donor - far->donors));
	if (donor->round & 1)
		donor->round++;
	far->changes++;
	donors_wake_queues(far, true);
}

/* Begins a new round. Data connections of this round use the key of the current session. */
static void round_begin(struct far *far, struct far_donor *donor)
{
	pthread_mutex_lock(&far->attach);
	memcpy(donor->session_key, donor->session.donor.session_key, AUTH_KEY_SIZE);
	assert(!(donor->round & 1));
	donor->round++;
	pthread_mutex_unlock(&far->attach);
	far->changes++;
	donors_wake_queues(far, true);
}

uint64_t donors_free_bytes(const struct far_donor *donor)
{
	const struct wire_capacity *capacity = &donor->session.donor.capacity;

	return capacity->donated > capacity->leased ? capacity->donated - capacity->leased : 0;
}

static void donor_heard(struct far_donor *donor)
{
	const struct wire_capacity *capacity = &donor->session.donor.capacity;

	donor->donated = capacity->donated;
	donor->leased = capacity->leased;
	donor->slab_bytes = capacity->slab_bytes;
	donor->clients = capacity->clients;
	donor->clearing = capacity->state == WIRE_STATE_CLEARING;
}

void donors_session_open(struct far *far, struct far_donor *donor, const char *uri, unsigned connect_ms, uint64_t now)
{
	const struct far_config *config = &far->config;
	uint32_t wished_ms = config->grace_ms || !far->state ? config->grace_ms : DONORS_ADOPT_MS;
	uint32_t silent_ms = config->last_timeout_ms > DONORS_STOPPED_MS ? config->last_timeout_ms : DONORS_STOPPED_MS;
	uint32_t grace_ms = silent_ms + DONORS_GRACE_MORE_MS;
	struct donor_config session = {.key = config->key,
				       .grace_ms = wished_ms > grace_ms ? wished_ms : grace_ms,
				       .closed_ms = wished_ms > DONORS_CLOSED_MS ? wished_ms : DONORS_CLOSED_MS,
				       .connect_ns = connect_ms * NS_PER_MS,
				       .timeout_ns = config->timeout_ms * NS_PER_MS,
				       .about = far->about};

	memcpy(session.id, far->id, WIRE_ID_SIZE);
	random_secret(session.nonce, sizeof session.nonce);
	session_start(&donor->session, far->fabric, far->domain, uri, &session, now);
}

static void donor_leave(struct far *far, unsigned index, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];

	donor->told = false;
	donor->away_at = clock_now();
	donors_tell_broke(donor);
	session_suspend(&donor->session);
	leases_donor_away(&far->leases, index, now);
	donors_round_end(far, donor);
}

void donors_incarnation_keep(struct far *far, unsigned index, uint64_t incarnation)
{
	if (far->state)
		atomic_store(state_incarnation(far->state, index), incarnation);
}

/* Called when the donor was reached for the first time. Stores the address that worked (RDMA or TCP). Logs a line
   if the donor will not keep leases as long as needed. */
static void first_reached(struct far *far, struct far_donor *donor)
{
	donors_tell_grace(far, donor);
	pthread_mutex_lock(&far->attach);
	memcpy(donor->via, donor->session.uri, sizeof donor->via);
	pthread_mutex_unlock(&far->attach);
}

static void donor_return(struct far *far, unsigned index, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];

	donors_tell_back(donor);
	donors_tell_failure_domain(far, index);
	donor->comeback.anew = false;
	donor->status = 0;
	if (donor->adopted)
		first_reached(far, donor);
	donor->adopted = donor->added = false;
	donors_incarnation_keep(far, index, donor->comeback.incarnation);
	donor_heard(donor);
	/* Counts the slabs anew, because the donor may have taken some slabs since it confirmed them. claims.held
	   still includes these slabs. */
	leases_donor_back(&far->leases, index, claims_count(&far->table, index), donors_free_bytes(donor), now);
	round_begin(far, donor);
}

void donors_lose_donor(struct far *far, unsigned index, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];
	uint64_t lost, kept = far->integrity.kept;

	lost = leases_donor_lost(&far->leases, index, now);
	far->lost_pages += lost;
	donor->donated = donor->leased = 0;
	donors_round_end(far, donor);
	log_info("donor %s is lost, and %" PRIu64 " pages with it", donor->uri, lost);
	donors_tell_kept(far, kept);
	/* Suppresses the warning that the donor is away: no slot names it any more, so no request waits for it. */
	donor->told = true;
	comeback_anew(&donor->comeback, now);
}

static void donor_bury(struct far *far, unsigned index, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];

	/* Logs the loss before any request fails, because the program may not survive the failure. */
	donors_tell_lost(far, index);
	/* Records the loss before any write completes without the donor. The donor's copies miss that write, so a
	   process that adopts the store must not use them. */
	if (!far->adopting)
		donors_incarnation_keep(far, index, 0);
	donor->status = donor->comeback.status;
	/* If the session is still alive, says goodbye, because this store needs no slab of the donor any more. */
	if (!far->adopting)
		session_end(&donor->session);
	session_drop(&donor->session);
	if (!far->adopting)
		donors_lose_donor(far, index, now);
}

static void donor_do(struct far *far, unsigned index, enum comeback_step step, uint64_t now);

void donors_broke(struct far *far, unsigned index, int status, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];
	uint16_t reason = donor->session.donor.reason;
	bool final = reason && reason != WIRE_REASON_FULL;

	far->quiet[index] = 0;
	donor_do(far, index, comeback_broke(&donor->comeback, status, final, now), now);
}

static void donor_try(struct far *far, unsigned index, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];
	const struct fabric_config *fabric = &far->config.fabric;
	unsigned connect_ms = fabric->connect_ms > fabric->io_ms ? fabric->connect_ms : fabric->io_ms;

	/* For a donor of an adopted store, it is not known yet if RDMA works, and an RDMA device may have to be
	   opened first. So this try gets the full deadline, as when a store is opened. */
	if (!donor->adopted && connect_ms / DONORS_TRY_MS > donor->comeback.tries)
		connect_ms = DONORS_TRY_MS * donor->comeback.tries;
	donors_session_open(far, donor, donor->adopted ? donor->uri : donor->via, connect_ms, now);
	if (donor->session.donor.state == DONOR_LOST)
		donors_broke(far, index, donor->session.donor.status, now);
}

static bool claim_send(struct far_donor *donor, uint64_t now)
{
	struct wire_message message = {.type = WIRE_CLAIM};

	while (claims_next(&donor->claims, &message.request, &message.claim.slab))
		if (!session_request(&donor->session, &message, now))
			return false;
	message = (struct wire_message){.type = WIRE_CLAIMED};
	return !claims_over(&donor->claims) || session_request(&donor->session, &message, now);
}

/* Sends further claims. When all are answered, the donor returns. */
static void donor_claim(struct far *far, unsigned index, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];

	if (!claim_send(donor, now))
		donors_broke(far, index, donor->session.donor.status, now);
	else if (claims_over(&donor->claims))
		donor_do(far, index, comeback_claimed(&donor->comeback), now);
}

static void donor_do(struct far *far, unsigned index, enum comeback_step step, uint64_t now)
{
	switch (step) {
	case COMEBACK_NOTHING:
		return;
	case COMEBACK_LEAVE:
		donor_leave(far, index, now);
		return;
	case COMEBACK_PAUSE:
		leases_donor_claiming(&far->leases, index, false);
		donors_tell_not_added(&far->donors[index]);
		session_suspend(&far->donors[index].session);
		return;
	case COMEBACK_TRY:
		donor_try(far, index, now);
		return;
	case COMEBACK_CLAIM:
		donor_claim(far, index, now);
		return;
	case COMEBACK_RETURN:
		donor_return(far, index, now);
		return;
	case COMEBACK_BURY:
		donor_bury(far, index, now);
		return;
	}
}

/* --- News of sessions ----------------------------------------------------------------------------------------- */

struct comeback_config donors_comeback_config(const struct far *far)
{
	struct comeback_config config = {.patience_ns = far->config.timeout_ms * NS_PER_MS,
					 .last_ns = far->config.last_timeout_ms * NS_PER_MS};

	random_secret(&config.seed, sizeof config.seed);
	return config;
}

static void donor_opened(struct far *far, struct far_donor *donor)
{
	const struct comeback_config config = donors_comeback_config(far);

	comeback_init(&donor->comeback, &config, donor->session.donor.incarnation);
	first_reached(far, donor);
	donor_heard(donor);
	donor->twin = donors_list_twin(far, (unsigned)(donor - far->donors)) >= 0;
	round_begin(far, donor);
}

/* Two addresses lead to one donor, which has already ended the session of the other address. If the user has removed
   the other address, the donor is reached at this one until it has been let go. Nothing was claimed through this
   session, so nothing is released. A goodbye is not sent, because it would free the leases. */
static void twin_refuse(struct far *far, unsigned index, unsigned other, uint64_t now)
{
	struct far_donor *donor = &far->donors[index], *first = &far->donors[other];

	if (donors_list_is_leaving(far, other)) {
		log_warning("donor %s is donor %s under another address: it is used as a new donor once no page is "
			    "left on the old one",
			    donor->uri, first->uri);
		pthread_mutex_lock(&far->attach);
		memcpy(first->via, donor->session.uri, sizeof first->via);
		pthread_mutex_unlock(&far->attach);
		first->adopted = false; /* so that the next try uses `via` */
	} else {
		donors_list_tell_twin(far, index, other);
	}
	donor->added = false; /* the user was told already why the donor is not used */
	donor->twin = true;
	session_suspend(&donor->session);
	donors_broke(far, index, -EINVAL, now);
}

static void donor_welcomed(struct far *far, unsigned index, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];
	const struct donor *machine = &donor->session.donor;
	uint64_t held = claims_count(&far->table, index);
	int twin = donors_list_twin(far, index);

	if (twin >= 0) {
		twin_refuse(far, index, (unsigned)twin, now);
		return;
	}
	/* The donor may have been restarted with another --slab. */
	if (machine->capacity.slab_bytes != far->leases.config.slab_bytes && !held) {
		if (donor->added)
			log_error("donor %s lends slabs of another size than the others: it is not used; restart it "
				  "with the same --slab",
				  donor->uri);
		donor->added = false;
		donors_broke(far, index, -EINVAL, now);
		return;
	}
	claims_begin(&donor->claims, &far->table, index);
	leases_donor_claiming(&far->leases, index, true);
	donor_do(far, index, comeback_welcomed(&donor->comeback, machine->incarnation, machine->slabs, held), now);
}

static void claim_answered(struct far *far, unsigned index, const struct wire_message *message, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];
	int status = message->type == WIRE_GRANTED ? 0 : -EPROTO;

	if (message->type == WIRE_DENIED && message->denied.reason == WIRE_REASON_TAKEN) {
		if (donors_recall_claim_taken(far, index, message->request, now) < 0)
			donors_broke(far, index, -EPROTO, now);
		else
			donor_claim(far, index, now);
		return;
	}
	if (message->type == WIRE_DENIED) {
		donor_do(far, index, comeback_denied(&donor->comeback), now);
		return;
	}
	if (status == 0)
		status = claims_confirmed(&donor->claims, message->request, message->granted.slab,
					  message->granted.address, message->granted.rkey);
	if (status < 0) {
		donors_broke(far, index, status, now);
		return;
	}
	leases_recall_void(&far->leases, message->request / FAR_SLOTS_MAX, message->request % FAR_SLOTS_MAX);
	donor_claim(far, index, now);
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
		/* The answer to a RELEASE has no request number. A denied RELEASE means that the donor had taken
		   the slab itself. */
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
		donors_broke(far, index, -EPROTO, now);
}

static void donor_answered(struct far *far, unsigned index, const struct wire_message *message, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];

	donor_heard(donor);
	leases_donor_heard(&far->leases, index, donors_free_bytes(donor));
	if (message->type == WIRE_GRANTED && message->granted.bytes < far->leases.config.slab_bytes)
		donors_broke(far, index, -EPROTO, now);
	else if (donor->comeback.state == COMEBACK_CLAIMING)
		claim_answered(far, index, message, now);
	else
		lease_answered(far, index, message, now);
}

static void donor_news(struct far *far, unsigned index, const struct donor_answer *answer, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];

	switch (answer->news) {
	case DONOR_NOTHING:
		return;
	case DONOR_IS_READY:
		if (far->open)
			donor_welcomed(far, index, now);
		else
			donor_opened(far, donor);
		return;
	case DONOR_IS_LOST:
		if (far->open)
			donors_broke(far, index, donor->session.donor.status, now);
		return;
	case DONOR_ANSWERED:
		if (far->open)
			donor_answered(far, index, &answer->message, now);
		return;
	case DONOR_RECALLS:
		donor_heard(donor);
		leases_donor_heard(&far->leases, index, donors_free_bytes(donor));
		if (far->open)
			donors_recall_message(far, index, &answer->message, now);
		return;
	}
}

/* --- Functions for the control thread's loop ------------------------------------------------------------------- */

void donors_event(struct far *far, const struct fabric_event *event, uint64_t now)
{
	struct session *session = event->user;
	struct far_donor *donor = (struct far_donor *)((char *)session - offsetof(struct far_donor, session));
	unsigned index = (unsigned)(donor - far->donors);
	struct donor_answer answer;

	far->quiet[index] = 0;
	session_event(session, event, now, &answer);
	donor_news(far, index, &answer, now);
}

/* Acts on the reports of queues about the donor. Drops a report of an earlier round, because the control thread has
   already ended that round. */
static void reports_take(struct far *far, unsigned index, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];
	int status = mailbox_take_break(&far->mailbox, index, donor->round);
	uint64_t since;

	if (status < 0)
		donors_broke(far, index, status, now);
	/* Loads the wait only now, because donors_broke() may have ended the round, which clears the waits of that
	   round. */
	since = mailbox_oldest_wait(&far->mailbox, index);
	if (since && donor->comeback.state != COMEBACK_UP)
		comeback_waits(&donor->comeback, since);
}

/* Returns when (by far_now()) to tell the user that the donor is away. Returns UINT64_MAX if the user was told, if
   the donor is not away, or if the reason is not known yet. */
static uint64_t tell_due(const struct far *far, const struct far_donor *donor)
{
	if (donor->told || !comeback_is_waited_for(&donor->comeback) || donor->comeback.unknown)
		return UINT64_MAX;
	return patience_at(&far->patience, donor->away_at + DONORS_TELL_NS);
}

/* Prolongs the patience with a donor that has the last copy of a page. But an adoption must succeed or fail soon,
   because the keeper waits for it. */
static void donor_keep_waiting(struct far *far, unsigned index, uint64_t now)
{
	struct far_donor *donor = &far->donors[index];

	if (far->adopting || !comeback_is_overdue(&donor->comeback, now))
		return;
	if (!leases_donor_has_last(&far->leases, index))
		comeback_not_needed(&donor->comeback, now);
	else if (comeback_needed(&donor->comeback, now))
		donors_tell_needed(far, donor);
}

/*
 * Returns until when the donor needs no tick, unless there is news of it. A donor that is up has only heartbeats to
 * wait for. With many donors most wait at any time, and are skipped without a look at their state. Heartbeats to more
 * than FAR_DONORS_EAGER donors are up to a DONORS_BEAT_PART of their period late, so that one wake-up sends many.
 */
static uint64_t quiet_until(const struct far *far, const struct far_donor *donor)
{
	const uint64_t period =
	    far->donor_count > FAR_DONORS_EAGER ? donor->session.donor.heartbeat_ns / DONORS_BEAT_PART : 0;
	uint64_t due;

	if (donor->comeback.state != COMEBACK_UP || donor->session.donor.state != DONOR_READY)
		return 0;
	due = session_due(&donor->session);
	return period ? (due + period - 1) / period * period : due;
}

void donors_tick(struct far *far, uint64_t now)
{
	const bool broke = far->open && mailbox_has_breaks(&far->mailbox);
	struct donor_answer answer;

	if (far->open)
		donors_recall_tick(far, now);

	for (unsigned i = 0; i < far->donor_count; i++) {
		struct far_donor *donor = &far->donors[i];

		if (now < far->quiet[i] && !broke)
			continue;
		session_tick(&donor->session, now, &answer);
		donor_news(far, i, &answer, now);
		far->quiet[i] = quiet_until(far, donor);
		if (!far->open)
			continue;
		reports_take(far, i, now);
		donor_keep_waiting(far, i, now);
		donor_do(far, i, comeback_tick(&donor->comeback, now), now);
		if (now >= tell_due(far, donor))
			donors_tell_away(far, donor);
		/* Carries the actions out here, because actions[] has room for the loss of one donor only. */
		donors_act(far, now);
	}
}

uint64_t donors_due(const struct far *far)
{
	uint64_t due = far->open ? leases_recalls_due(&far->leases) : UINT64_MAX;

	for (unsigned i = 0; i < far->donor_count; i++) {
		uint64_t session, comeback;

		if (far->quiet[i]) {
			due = far->quiet[i] < due ? far->quiet[i] : due;
			continue;
		}
		session = session_due(&far->donors[i].session);
		comeback = far->open ? comeback_due(&far->donors[i].comeback) : UINT64_MAX;
		due = session < due ? session : due;
		due = comeback < due ? comeback : due;
		if (far->open && tell_due(far, &far->donors[i]) < due)
			due = tell_due(far, &far->donors[i]);
	}
	return due;
}

void donors_end(struct far *far)
{
	for (unsigned i = 0; i < far->donor_count; i++)
		session_end(&far->donors[i].session);
}

void donors_leave(struct far *far)
{
	for (unsigned i = 0; i < far->donor_count; i++)
		session_drop(&far->donors[i].session);
}

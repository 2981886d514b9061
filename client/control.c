#include "client/control.h"

#include "client/far_queue.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "common/size.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CONTROL_STACK (256u << 10)
#define CONTROL_EVENTS 16u
#define CONTROL_DEPTH 16u /* it posts no reads and writes */
/* How long a slab stays ours that nobody uses: a program that frees and allocates soon wants it again. */
#define CONTROL_IDLE_MS 500u
#define NS_PER_MS UINT64_C(1000000)

void control_kick(struct far *far)
{
	if (!atomic_exchange(&far->kicked, true))
		eventfd_write(far->wake, 1);
}

/* In a word or two, for the line that says that a donor is gone. */
static const char *death_name(int status)
{
	switch (status) {
	case -ECONNRESET:
	case -EPIPE:
		return "connection reset";
	case -ETIMEDOUT:
		return "no answer in time";
	case -EPROTO:
		return "it broke the protocol";
	default:
		return strerror(-status);
	}
}

/* Said before anything that is lost with it is answered: the program may not outlive that. */
static void peer_fail(struct far *far, unsigned index, int status, const char *why)
{
	int alive = 0;

	assert(status < 0);
	if (!atomic_compare_exchange_strong(&far->peers[index].status, &alive, status))
		return;
	log_error("donor %s is gone (%s): what it held is lost", far->peers[index].uri, why);
	control_kick(far);
}

void far_peer_fail(struct far *far, unsigned peer, int status)
{
	peer_fail(far, peer, status, death_name(status));
}

/* As the donor has put it, where it has. */
static void session_fail(struct far *far, unsigned index)
{
	const struct donor *donor = &far->peers[index].session.donor;

	peer_fail(far, index, donor->status,
		  donor->reason ? wire_reason_name(donor->reason) : death_name(donor->status));
}

/* --- What sessions and planner say to each other ------------------------------------------------------------- */

static uint64_t capacity_free(const struct wire_capacity *capacity)
{
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

static void peer_answered(struct far *far, unsigned index, const struct wire_message *message, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];
	struct chunk_slot slot = {0};

	peer_heard(peer);
	leases_donor_heard(&far->leases, index, capacity_free(&peer->session.donor.capacity));
	switch (message->type) {
	case WIRE_GRANTED:
		if (message->granted.bytes < far->leases.config.slab_bytes) {
			donor_fail(&peer->session.donor, -EPROTO);
			session_fail(far, index);
			return;
		}
		slot.address = message->granted.address;
		slot.rkey = message->granted.rkey;
		slot.slab = message->granted.slab;
		leases_granted(&far->leases, index, message->request, &slot, now);
		return;
	case WIRE_DENIED:
		leases_denied(&far->leases, index, message->request, now);
		return;
	case WIRE_RELEASED:
		leases_released(&far->leases, index);
		return;
	default:
		return;
	}
}

static void queues_wake(struct far *far)
{
	struct far_queue *queue;

	pthread_mutex_lock(&far->lock);
	LIST_FOREACH(queue, &far->queues, link)
		far_queue_wake(queue);
	pthread_mutex_unlock(&far->lock);
}

static void leases_carry_out(struct far *far, uint64_t now)
{
	struct leases_action action;
	bool wake = false;

	while (leases_next(&far->leases, &action)) {
		struct far_peer *peer = &far->peers[action.donor];
		struct wire_message message = {.request = action.request};

		if (action.kind == LEASES_WAKE) {
			wake = true;
			continue;
		}
		message.type = action.kind == LEASES_ASK ? WIRE_LEASE : WIRE_RELEASE;
		if (action.kind == LEASES_RELEASE)
			message.release.slab = action.slab;
		if (!peer->buried && !session_request(&peer->session, &message, now))
			session_fail(far, action.donor);
	}
	for (unsigned i = 0; i < far->peer_count; i++)
		far->peers[i].leased_here = far->leases.donors[i].held * far->leases.config.slab_bytes;
	if (wake)
		queues_wake(far);
}

/* --- Burying ------------------------------------------------------------------------------------------------- */

static void peer_bury(struct far *far, unsigned index, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];
	uint64_t lost;

	peer->buried = true;
	/* A session that still lives says goodbye: nothing of ours there is of use any more. */
	session_end(&peer->session);
	donor_fail(&peer->session.donor, peer->status);
	lost = leases_donor_lost(&far->leases, index, now);
	far->lost_pages += lost;
	peer->donated = peer->leased = 0;
	log_info("donor %s is gone: %" PRIu64 " pages are lost", peer->uri, lost);
}

static void peers_bury(struct far *far, uint64_t now)
{
	for (unsigned i = 0; i < far->peer_count; i++)
		if (far->peers[i].status && !far->peers[i].buried)
			peer_bury(far, i, now);
}

/* --- Opening ------------------------------------------------------------------------------------------------- */

static int open_fail(const struct far_peer *peer)
{
	char text[DONOR_EXPLAIN_MAX];

	log_error("donor %s %s", peer->uri, donor_explain(&peer->session.donor, text));
	return peer->session.donor.status;
}

/* All donors must lend slabs of one size, for a chunk's replicas may lie on any of them. */
static int open_check_slabs(const struct far *far)
{
	uint64_t bytes = far->peers[0].slab_bytes;
	char first[SIZE_TEXT_MAX], other[SIZE_TEXT_MAX];

	if (!bytes || bytes % STORE_PAGE) {
		log_error("donor %s lends slabs of %" PRIu64 " bytes: restart it with a --slab of whole pages",
			  far->peers[0].uri, bytes);
		return -EINVAL;
	}
	for (unsigned i = 1; i < far->peer_count; i++) {
		if (far->peers[i].slab_bytes != bytes) {
			log_error("donor %s lends slabs of %s, donor %s of %s: restart them with the same --slab",
				  far->peers[0].uri, size_format(bytes, first), far->peers[i].uri,
				  size_format(far->peers[i].slab_bytes, other));
			return -EINVAL;
		}
	}
	return 0;
}

static int open_lay_out(struct far *far)
{
	uint64_t free = 0, slab_bytes, pages = far->config.pages;
	struct leases_config config = {.donor_count = far->peer_count,
				       .timeout_ns = far->config.fabric.io_ms * NS_PER_MS,
				       .idle_ns = CONTROL_IDLE_MS * NS_PER_MS};
	char text[SIZE_TEXT_MAX];
	int error = open_check_slabs(far);

	if (error < 0)
		return error;
	config.slab_bytes = slab_bytes = far->peers[0].slab_bytes;
	random_secret(&config.seed, sizeof config.seed);
	for (unsigned i = 0; i < far->peer_count; i++)
		free += capacity_free(&far->peers[i].session.donor.capacity);
	if (!pages)
		pages = 4 * (free / STORE_PAGE);
	if (!pages) {
		log_error("no donor has free memory: start them with a larger --donate, or add donors");
		return -ENOSPC;
	}
	error = chunk_table_open(&far->table, pages, slab_bytes / STORE_PAGE, far->config.replicas);
	if (error == 0)
		error = integrity_open(&far->integrity, pages);
	if (error < 0) {
		log_error("cannot keep the books of %s of far memory: %s", size_format(pages * STORE_PAGE, text),
			  strerror(-error));
		return error;
	}
	leases_init(&far->leases, &config, &far->table, &far->integrity);
	for (unsigned i = 0; i < far->peer_count; i++)
		leases_donor_heard(&far->leases, i, capacity_free(&far->peers[i].session.donor.capacity));
	far->base.pages = pages;
	return 0;
}

static void open_connect(struct far *far)
{
	struct donor_config config = {.key = far->config.key,
				      .grace_ms = far->config.grace_ms,
				      .connect_ns = far->config.fabric.connect_ms * NS_PER_MS,
				      .timeout_ns = far->config.fabric.io_ms * NS_PER_MS};

	memcpy(config.id, far->id, WIRE_ID_SIZE);
	for (unsigned i = 0; i < far->peer_count; i++) {
		random_secret(config.nonce, sizeof config.nonce);
		session_start(&far->peers[i].session, far->fabric, far->domain, far->peers[i].uri, &config,
			      clock_now());
	}
}

/* 1: not yet known; 0: all are ready; or the first one's error, logged. */
static int open_outcome(struct far *far)
{
	bool all = true;

	for (unsigned i = 0; i < far->peer_count; i++) {
		if (far->peers[i].session.donor.state == DONOR_LOST)
			return open_fail(&far->peers[i]);
		all &= far->peers[i].session.donor.state == DONOR_READY;
	}
	return all ? 0 : 1;
}

/* --- The loop ------------------------------------------------------------------------------------------------ */

static unsigned peer_index(const struct far *far, const struct session *session)
{
	const struct far_peer *peer =
	    (const struct far_peer *)((const char *)session - offsetof(struct far_peer, session));

	return (unsigned)(peer - far->peers);
}

static void control_news(struct far *far, unsigned index, const struct donor_answer *answer, bool open, uint64_t now)
{
	struct far_peer *peer = &far->peers[index];

	switch (answer->news) {
	case DONOR_NOTHING:
		return;
	case DONOR_IS_READY:
		memcpy(peer->session_key, peer->session.donor.session_key, AUTH_KEY_SIZE);
		peer_heard(peer);
		return;
	case DONOR_IS_LOST:
		if (open)
			session_fail(far, index);
		return;
	case DONOR_ANSWERED:
		if (open)
			peer_answered(far, index, &answer->message, now);
		return;
	}
}

static uint64_t control_due(const struct far *far, bool open)
{
	uint64_t due = open ? leases_due(&far->leases) : UINT64_MAX;

	for (unsigned i = 0; i < far->peer_count; i++) {
		uint64_t other = donor_due(&far->peers[i].session.donor);

		due = other < due ? other : due;
	}
	return due;
}

/* Whole ms, rounded up, so that a wait does not end just before its time. */
static int control_timeout(uint64_t due, uint64_t now)
{
	uint64_t ms;

	if (due == UINT64_MAX)
		return -1;
	if (due <= now)
		return 0;
	ms = (due - now + NS_PER_MS - 1) / NS_PER_MS;
	return ms > 3600000 ? 3600000 : (int)ms;
}

/* Waits for something to happen and deals with it. */
static void control_step(struct far *far, bool open)
{
	struct fabric_event events[CONTROL_EVENTS];
	struct donor_answer answer;
	eventfd_t value;
	uint64_t now = clock_now();
	int count = fabric_wait(far->fabric, events, CONTROL_EVENTS, control_timeout(control_due(far, open), now));
	bool scan = false;

	now = clock_now();
	for (int i = 0; i < count; i++) {
		if (events[i].kind == FABRIC_READABLE) {
			eventfd_read(far->wake, &value);
			atomic_store(&far->kicked, false);
			scan = true;
			continue;
		}
		struct session *session = events[i].user;

		session_event(session, &events[i], now, &answer);
		control_news(far, peer_index(far, session), &answer, open, now);
		if (open)
			leases_carry_out(far, now);
	}
	for (unsigned i = 0; i < far->peer_count; i++) {
		session_tick(&far->peers[i].session, now, &answer);
		control_news(far, i, &answer, open, now);
	}
	if (!open)
		return;
	peers_bury(far, now);
	if (scan)
		leases_scan(&far->leases, now);
	leases_tick(&far->leases, now);
	leases_carry_out(far, now);
}

static int control_open(struct far *far)
{
	struct fabric_config config = far->config.fabric;
	int error;

	config.spin_us = 0; /* nobody waits for this thread in microseconds */
	config.depth = CONTROL_DEPTH;
	error = fabric_open(&config, &far->fabric);
	if (error == 0)
		error = fabric_watch(far->fabric, far->wake, far);
	if (error < 0) {
		log_error("cannot set up the network: %s", strerror(-error));
		return error;
	}
	open_connect(far);
	while ((error = open_outcome(far)) == 1)
		control_step(far, false);
	return error < 0 ? error : open_lay_out(far);
}

static void *control_main(void *argument)
{
	struct far *far = argument;
	int status = control_open(far);

	far->open_status = status;
	sem_post(&far->opened);
	if (status == 0)
		while (!far->stop)
			control_step(far, true);
	for (unsigned i = 0; i < far->peer_count; i++)
		session_end(&far->peers[i].session);
	fabric_close(far->fabric);
	far->fabric = NULL;
	return NULL;
}

static int thread_start(struct far *far)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int error = pthread_attr_init(&attributes);

	if (error)
		return -error;
	error = pthread_attr_setstacksize(&attributes, CONTROL_STACK);
	if (!error) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		error = pthread_create(&far->thread, &attributes, control_main, far);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	pthread_attr_destroy(&attributes);
	return -error;
}

int control_start(struct far *far)
{
	int error;

	far->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (far->wake < 0)
		return -errno;
	sem_init(&far->opened, 0, 0);
	error = thread_start(far);
	if (error < 0)
		goto close_wake;
	while (sem_wait(&far->opened) < 0)
		;
	error = far->open_status;
	if (error == 0)
		return 0;
	pthread_join(far->thread, NULL);
close_wake:
	sem_destroy(&far->opened);
	close(far->wake);
	return error;
}

void control_stop(struct far *far)
{
	far->stop = true;
	control_kick(far);
	pthread_join(far->thread, NULL);
	sem_destroy(&far->opened);
	close(far->wake);
}

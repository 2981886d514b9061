#include "client/donor/control.h"

#include "client/donor/donors.h"
#include "client/donor/donors_list.h"
#include "client/donor/donors_tell.h"
#include "client/lease/failure_domains.h"
#include "client/rebuild/rebuild.h"
#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"
#include "common/random.h"
#include "common/size.h"
#include "common/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define CONTROL_STACK (256u << 10)
/* The longest sleep while a donor is away. If this process is paused during a sleep, the sleep's planned time still
   counts as waiting for that donor (patience.h). So the sleep must be short. */
#define MISSED_SLEEP_NS UINT64_C(50000000)
#define CONTROL_EVENTS 64u
#define CONTROL_DEPTH 16u /* the thread posts neither reads nor writes */
/* An empty chunk keeps its slabs for this long, because a program that frees memory often allocates again soon. */
#define CONTROL_IDLE_MS 500u
/* The pause before donors are asked again for a missing replica, after none had a free slab. */
#define CONTROL_PAUSE_MS 1000u
#define NS_PER_MS UINT64_C(1000000)

/* --- Opening ------------------------------------------------------------------------------------------------- */

/* Checks that all donors lend slabs of the same size, because a chunk's replicas may be on any of them. */
static int open_check_slabs(const struct far *far, const struct far_donor *first)
{
	uint64_t bytes = first->slab_bytes;
	char here[SIZE_TEXT_MAX], other[SIZE_TEXT_MAX];

	if (!bytes || bytes % STORE_PAGE) {
		log_error("donor %s lends slabs of %" PRIu64 " bytes: restart it with a --slab of whole pages",
			  first->uri, bytes);
		return -EINVAL;
	}
	for (unsigned i = 0; i < far->donor_count; i++) {
		const struct far_donor *donor = &far->donors[i];

		if (!donors_donor_is_ready(donor) || donor->slab_bytes == bytes)
			continue;
		log_error("donor %s lends slabs of %s, donor %s of %s: restart them with the same --slab", first->uri,
			  size_format(bytes, here), donor->uri, size_format(donor->slab_bytes, other));
		return -EINVAL;
	}
	return 0;
}

/* Checks that there are enough failure domains, because no two replicas of a chunk may be in the same failure
   domain. */
static int open_check_failure_domains(const struct far *far)
{
	const char *uris[FAR_DONORS_MAX];
	struct failure_domains domains = {0};
	char text[FAILURE_DOMAINS_TEXT_MAX];

	for (unsigned i = 0; i < far->donor_count; i++) {
		failure_domains_name(&domains, i, far->donors[i].session.donor.failure_domain);
		uris[i] = far->donors[i].uri;
	}
	if (!failure_domains_lack(&domains, far->donor_count, far->config.replicas, uris, text))
		return 0;
	log_error("%s", text);
	return -EINVAL;
}

static int open_leases(struct far *far, uint64_t slab_bytes)
{
	struct leases_config config = {.donor_count = far->donor_count,
				       .slab_bytes = slab_bytes,
				       .timeout_ns = far->config.last_timeout_ms * NS_PER_MS,
				       .idle_ns = CONTROL_IDLE_MS * NS_PER_MS,
				       .pause_ns = CONTROL_PAUSE_MS * NS_PER_MS,
				       .backup = far->backup_path};

	far->integrity.keeps = far->backup_path;
	random_secret(&config.seed, sizeof config.seed);
	leases_init(&far->leases, &config, &far->table, &far->integrity);
	far->base.pages = far->integrity.pages;
	if (warmth_open(&far->warmth, far->table.count, far->donor_places, far_now(far)) < 0)
		return -ENOMEM;
	return leases_recalls_open(&far->leases);
}

/* Creates the tables in the state file, and stores the incarnation of each donor that has answered. */
static int open_state(struct far *far, uint64_t pages, uint64_t chunk_pages)
{
	const char *uris[FAR_DONORS_MAX];
	struct far_config config = far->config;
	int error;

	for (unsigned i = 0; i < far->donor_count; i++)
		uris[i] = far->donors[i].uri;
	config.donors = uris;
	error = state_create(far->state, &config, pages, chunk_pages, far->id);
	if (error < 0)
		return error;
	for (unsigned i = 0; i < far->donor_count; i++)
		*state_incarnation(far->state, i) = far->donors[i].comeback.incarnation;
	state_tables(far->state, &far->table, &far->integrity);
	return 0;
}

static int open_tables(struct far *far, uint64_t pages, uint64_t chunk_pages)
{
	char text[SIZE_TEXT_MAX];
	int error = chunk_table_open(&far->table, pages, chunk_pages, far->config.replicas);

	if (error == 0)
		error = far->config.encrypt ? integrity_open_sealed(&far->integrity, pages)
					    : integrity_open(&far->integrity, pages);
	if (error < 0)
		log_error("cannot allocate the tables of %s of far memory: %s", size_format(pages * STORE_PAGE, text),
			  format_errno(error));
	return error;
}

/* Returns how many bytes of pages fit on the donors with all replicas. Each page counts once. */
static uint64_t open_room(const struct far *far, uint64_t slab_bytes)
{
	struct failure_domains_share shares[FAR_DONORS_MAX];

	for (unsigned i = 0; i < far->donor_count; i++)
		shares[i] =
		    (struct failure_domains_share){.failure_domain = far->donors[i].session.donor.failure_domain,
						   .slabs = donors_free_bytes(&far->donors[i]) / slab_bytes};
	return failure_domains_chunks(shares, far->donor_count, far->config.replicas) * slab_bytes;
}

static int open_lay_out(struct far *far)
{
	uint64_t slab_bytes, pages = far->config.pages;
	const struct far_donor *first = far->donors;
	int error;

	while (!donors_donor_is_ready(first))
		first++;
	error = open_check_slabs(far, first);
	if (error == 0)
		error = open_check_failure_domains(far);
	if (error < 0)
		return error;
	slab_bytes = first->slab_bytes;
	if (!pages)
		pages = 4 * (open_room(far, slab_bytes) / STORE_PAGE + far->config.local_pages);
	if (!pages) {
		log_error("the donors have nothing free%s: start them with a larger --donate, or add donors",
			  far->config.replicas > 1 ? " for as many replicas" : "");
		return -ENOSPC;
	}
	error = far->state ? open_state(far, pages, slab_bytes / STORE_PAGE)
			   : open_tables(far, pages, slab_bytes / STORE_PAGE);
	if (error < 0)
		return error;
	error = open_leases(far, slab_bytes);
	if (error == 0)
		donors_opened(far, far_now(far));
	return error;
}

/* --- The loop ------------------------------------------------------------------------------------------------ */

static uint64_t control_due(const struct far *far)
{
	uint64_t due = far->open ? leases_due(&far->leases) : UINT64_MAX;
	uint64_t donors = donors_due(far), list = far->open ? donors_list_due(far) : UINT64_MAX;
	uint64_t soon = far_now(far) + MISSED_SLEEP_NS;

	if (donors < due)
		due = donors;
	if (list < due)
		due = list;
	for (unsigned i = 0; i < far->donor_count && due > soon; i++)
		if (comeback_is_waited_for(&far->donors[i].comeback))
			due = soon;
	return due;
}

/* Tells donors the access rates of their slabs, if these rates have changed (warmth.h). */
static void control_tell_warmth(struct far *far, uint64_t now)
{
	struct donor_set up = {0}, told;

	warmth_look(&far->warmth, now);
	if (far->warmth.next >= far->warmth.count)
		return;
	for (unsigned i = 0; i < far->donor_count; i++)
		if (far->donors[i].comeback.state == COMEBACK_UP)
			donor_set_add(&up, i);
	warmth_tell(&far->warmth, &far->table, &up, now, &told);
	for (int i = -1; (i = donor_set_next(&told, (unsigned)(i + 1))) >= 0;)
		session_tell(&far->donors[i].session, &far->warmth.messages[i]);
}

static void control_step(struct far *far)
{
	struct fabric_event events[CONTROL_EVENTS];
	int timeout_ms = patience_sleep(&far->patience, clock_now(), control_due(far));
	int count = fabric_wait(far->fabric, events, CONTROL_EVENTS, timeout_ms);
	bool scan = false;
	uint64_t now;

	patience_wake(&far->patience, clock_now());
	now = far_now(far);
	/* Handles finished copies before the events, because such a copy may save the pages of a donor that is
	   found lost below. */
	if (far->open)
		rebuild_collect(far, now);
	for (int i = 0; i < count; i++) {
		if (events[i].kind == FABRIC_READABLE && events[i].user == far->list) {
			donors_list_noticed(far->list);
			continue;
		}
		if (events[i].kind == FABRIC_READABLE) {
			mailbox_control_is_awake(&far->mailbox);
			scan = true;
			continue;
		}
		donors_event(far, &events[i], now);
		if (far->open)
			donors_act(far, now); /* here, because actions[] has room for a few events only */
	}
	donors_tick(far, now);
	if (!far->open)
		return;
	if (scan)
		leases_scan(&far->leases, now);
	donors_list_tick(far, now);
	leases_tick(&far->leases, now);
	donors_carry_out(far, now);
	control_tell_warmth(far, now);
}

static int control_begin(struct far *far)
{
	int error;

	donors_connect(far, far_now(far));
	while ((error = donors_outcome(far)) == 1) {
		control_step(far);
		donors_connect(far, far_now(far));
	}
	if (error == 0)
		error = open_lay_out(far);
	far->open = error == 0;
	return error;
}

/* Adopts the store that an ended process has left. */
static int control_adopt(struct far *far)
{
	uint64_t lost = 0;
	int error = state_recover(far->state, &lost);

	if (error < 0)
		return error;
	state_tables(far->state, &far->table, &far->integrity);
	far->lost_pages = lost;
	error = open_leases(far, far->table.pages * STORE_PAGE);
	if (error < 0)
		return error;
	/* From now on, this is an open store whose donors are all away. */
	far->open = far->adopting = true;
	donors_adopt(far, far_now(far));
	while ((error = donors_adopt_outcome(far)) == 1)
		control_step(far);
	far->open = error == 0;
	if (error < 0)
		return error;
	donors_adopted(far, far_now(far));
	donors_list_read_again(far->list);
	/* Finds chunks that are empty, so that their slabs are released. */
	leases_scan(&far->leases, far_now(far));
	donors_carry_out(far, far_now(far));
	return 0;
}

static int control_open(struct far *far)
{
	struct fabric_config config = far->config.fabric;
	int error;

	config.spin_us = 0; /* no answer is needed within microseconds */
	config.depth = CONTROL_DEPTH;
	/* Few donors need little memory, and their connections then never fault. */
	config.messages_only = far->donor_count > FAR_DONORS_EAGER;
	error = fabric_open(&config, &far->fabric);
	if (error == 0)
		error = fabric_watch(far->fabric, far->mailbox.control_wake, far);
	if (error == 0)
		error = donors_list_watch(far);
	if (error < 0) {
		log_error("cannot set up the network: %s", format_errno(error));
		return error;
	}
	return far->state && !state_is_new(far->state) ? control_adopt(far) : control_begin(far);
}

static void *control_main(void *argument)
{
	struct far *far = argument;
	int status = control_open(far);

	far->open_status = status;
	sem_post(&far->opened);
	if (status == 0)
		while (!far->stop)
			control_step(far);
	if (far->leave)
		donors_leave(far);
	else
		donors_end(far);
	fabric_close(far->fabric);
	far->fabric = NULL;
	return NULL;
}

int control_start(struct far *far)
{
	int error;

	sem_init(&far->opened, 0, 0);
	error = thread_start(&far->thread, NULL, CONTROL_STACK, control_main, far);
	if (error < 0)
		goto destroy_opened;
	while (sem_wait(&far->opened) < 0)
		;
	error = far->open_status;
	if (error == 0)
		return 0;
	pthread_join(far->thread, NULL);
destroy_opened:
	sem_destroy(&far->opened);
	return error;
}

void control_stop(struct far *far)
{
	far->stop = true;
	mailbox_wake_control(&far->mailbox);
	pthread_join(far->thread, NULL);
	sem_destroy(&far->opened);
}

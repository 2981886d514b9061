/* donor: see donor.h. */
#include "memserver/donor.h"

#include "common/clock.h"
#include "common/events.h"
#include "common/log.h"
#include "common/random.h"
#include "common/size.h"
#include "memserver/connection.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const line_names[] = {
    [DONOR_REFUSALS] = "refusals",
    [DONOR_MISTAKES] = "lines about clients whose connections were ended",
    [DONOR_VISITS] = "lines about clients that came or went",
    [DONOR_LEASES] = "lines about slabs leased or released",
    [DONOR_LACKS] = "lines about resources that a client could not get",
    [DONOR_ACTS] = "lines about draining",
};
static_assert(sizeof line_names / sizeof *line_names == DONOR_LINES, "every kind of line has its name");

/* The least grace time while the program is being replaced. The next program may need some time until it listens. */
#define SUSPENDED_GRACE_NS UINT64_C(10000000000)

bool donor_may_tell(struct donor *donor, enum donor_line kind)
{
	return log_limit_take(&donor->lines[kind], clock_now());
}

int donor_open(const struct donor_config *config, struct donor **ret_donor)
{
	struct donor *donor = calloc(1, sizeof *donor);
	int status = -ENOMEM;

	if (!donor)
		goto fail;
	donor->config = *config;
	random_secret(&donor->incarnation, sizeof donor->incarnation);
	for (unsigned i = 0; i < DONOR_LINES; i++)
		donor->lines[i].what = line_names[i];
	donor->sessions = calloc(config->limits.sessions, sizeof *donor->sessions);
	donor->regions = calloc(config->limits.slabs, sizeof *donor->regions);
	donor->domains = calloc(config->limits.slabs, sizeof *donor->domains);
	if (!donor->sessions || !donor->regions || !donor->domains)
		goto fail;
	status = lease_open(&config->limits, &donor->book);
	if (status < 0)
		goto fail;
	status = slab_open(&config->slabs, &donor->worker);
	if (status < 0)
		goto fail;
	donor->config.fabric.known = connection_is_known;
	donor->config.fabric.known_user = donor;
	status = fabric_open(&donor->config.fabric, &donor->fabric);
	if (status < 0)
		goto fail;
	status = fabric_domain_open(&donor->lobby);
	if (status < 0)
		goto fail;
	*ret_donor = donor;
	return 0;
fail:
	log_error("cannot start: %s", strerror(-status));
	donor_close(donor);
	return status;
}

uint64_t donor_now(const struct donor *donor)
{
	return patience_at(&donor->patience, clock_now());
}

/* --- Domains --------------------------------------------------------------------------------------------- */

/* Closes @domain unless a session or a slab still uses it. Accepts NULL. */
static void domain_drop(struct donor *donor, struct fabric_domain *domain)
{
	if (!domain)
		return;
	for (uint32_t i = 0; i < donor->config.limits.sessions; i++)
		if (donor->sessions[i].domain == domain)
			return;
	for (uint32_t i = 0; i < donor->config.limits.slabs; i++)
		if (donor->domains[i] == domain)
			return;
	fabric_domain_close(domain);
}

int donor_session_open(struct donor *donor, uint32_t session)
{
	struct donor_session *s = &donor->sessions[session];
	const uint8_t *id = donor->book->sessions[session].id;
	int status;

	if (s->domain) /* the session existed when its client returned */
		return 0;
	status = fabric_domain_open(&s->domain);
	if (status < 0) {
		if (donor_may_tell(donor, DONOR_LACKS))
			log_error("no protection domain for a client: %s", strerror(-status));
		s->domain = NULL;
		return status;
	}
	snprintf(s->name, sizeof s->name, "%02x%02x%02x%02x", id[0], id[1], id[2], id[3]);
	return 0;
}

uint64_t donor_held_ns(const struct donor *donor, uint32_t session)
{
	const uint64_t since = donor->sessions[session].since;

	return since ? clock_now() - since : 0;
}

/* Reports that the slab has no memory now. */
static void slab_left(struct donor *donor, uint32_t slab)
{
	struct fabric_domain *domain = donor->domains[slab];

	donor->domains[slab] = NULL;
	domain_drop(donor, domain);
}

void donor_close(struct donor *donor)
{
	if (!donor)
		return;
	if (donor->book) {
		lease_leave(donor->book);
		donor_settle(donor);
		lease_close(donor->book);
	}
	while (donor->handshakes)
		connection_end(donor->handshakes);
	fabric_domain_close(donor->lobby);
	fabric_close(donor->fabric);
	slab_close(donor->worker);
	for (uint32_t i = 0; donor->domains && donor->sessions && i < donor->config.limits.slabs; i++)
		slab_left(donor, i);
	free(donor->sessions);
	free(donor->regions);
	free(donor->domains);
	free(donor);
}

uint64_t donor_refused(const struct donor *donor)
{
	uint64_t refused = 0;

	for (unsigned i = 0; i < DONOR_REFUSED_COUNT; i++)
		refused += donor->totals.refused[i];
	return refused;
}

void donor_status(const struct donor *donor, char text[DONOR_STATUS_MAX])
{
	static const char *const states[] = {
	    [WIRE_STATE_LENDING] = "",
	    [WIRE_STATE_SHRINKING] = "; memory is short",
	    [WIRE_STATE_DRAINING] = "; draining",
	    [WIRE_STATE_CLEARING] = "; clearing slabs",
	};
	static_assert(sizeof states / sizeof *states == WIRE_STATE_COUNT, "every state has its words");
	char lent[SIZE_TEXT_MAX], all[SIZE_TEXT_MAX], refused[48] = "";
	const uint64_t refused_count = donor_refused(donor);
	struct wire_capacity capacity;

	lease_capacity(donor->book, &capacity);
	if (refused_count)
		snprintf(refused, sizeof refused, "; %llu refused", (unsigned long long)refused_count);
	snprintf(text, DONOR_STATUS_MAX, "lending %u of %llu slabs (%s of %s) to %u client%s%s%s",
		 (unsigned)(capacity.leased / capacity.slab_bytes),
		 (unsigned long long)(capacity.donated / capacity.slab_bytes), size_format(capacity.leased, lent),
		 size_format(capacity.donated, all), capacity.clients, capacity.clients == 1 ? "" : "s",
		 states[capacity.state], refused);
}

/* --- Actions of the book --------------------------------------------------------------------------------- */

/*
 * Handles a slab that the device of the session's connection cannot register. A new slab is refused, so that the client
 * asks another donor. If the client already holds the slab, ends the client's connection: after a reconnect, the client
 * may reach the slab.
 */
static void do_without(struct donor *donor, const struct lease_action *action)
{
	if (donor_may_tell(donor, DONOR_LACKS))
		log_event(LOG_LEVEL_WARNING, LOG_FIELDS(.client = donor->sessions[action->session].name),
			  "client %s cannot be given slab %u over its connection%s",
			  donor->sessions[action->session].name, action->slab,
			  action->kind == LEASE_CONFIRM ? ", which is ended" : "");
	if (action->kind == LEASE_CONFIRM)
		connection_give_up(donor, action->session);
	else
		lease_refuse(donor->book, action->slab);
}

static void do_grant(struct donor *donor, const struct lease_action *action)
{
	struct wire_message message = {.type = WIRE_GRANTED, .request = action->request};
	struct donor_session *session = &donor->sessions[action->session];
	struct fabric_remote remote;
	char text[DONOR_STATUS_MAX];

	if (!session->connection) /* the client has just gone, and the book does not know this yet */
		return;
	remote = fabric_export(donor->regions[action->slab], session->connection->conn);
	if (!remote.address) { /* the client's device cannot reach the memory */
		do_without(donor, action);
		return;
	}
	message.granted.slab = action->name;
	message.granted.address = remote.address;
	message.granted.rkey = remote.rkey;
	message.granted.bytes = donor->config.limits.slab_bytes;
	lease_capacity(donor->book, &message.granted.capacity);
	connection_send(donor, action->session, &message);
	if (action->kind == LEASE_CONFIRM) /* not a new lease */
		return;
	donor->totals.granted++;
	if (!session->since)
		session->since = clock_now();
	if (!donor_may_tell(donor, DONOR_LEASES))
		return;
	donor_status(donor, text);
	log_event(LOG_LEVEL_INFO, LOG_FIELDS(.client = session->name), "client %s leases slab %u; %s", session->name,
		  action->slab, text);
}

static void do_deny(struct donor *donor, const struct lease_action *action)
{
	struct wire_message message = {.type = WIRE_DENIED, .request = action->request};

	message.denied.reason = action->reason;
	lease_capacity(donor->book, &message.denied.capacity);
	connection_send(donor, action->session, &message);
	log_debug("client %s was denied: %s", donor->sessions[action->session].name, wire_reason_name(action->reason));
}

static void do_clear(struct donor *donor, const struct lease_action *action)
{
	donor->regions[action->slab] = NULL;
	slab_clear(donor->worker, action->slab);
}

static void do_returned(struct donor *donor, const struct lease_action *action)
{
	struct wire_message message = {.type = WIRE_RELEASED, .request = action->request};

	donor->totals.returned++;
	message.released.slab = action->name;
	lease_capacity(donor->book, &message.released.capacity);
	connection_send(donor, action->session, &message);
	if (donor_may_tell(donor, DONOR_LEASES))
		log_event(LOG_LEVEL_INFO, LOG_FIELDS(.client = donor->sessions[action->session].name),
			  "client %s gave slab %u back", donor->sessions[action->session].name, action->slab);
}

static void do_revoke(struct donor *donor, const struct lease_action *action)
{
	struct wire_message message = {.type = WIRE_REVOKE};
	const uint64_t now = donor_now(donor), left_ms = action->until > now ? (action->until - now) / 1000000 : 0;

	donor->totals.recalled++;
	message.revoke.slab = action->name;
	message.revoke.deadline_ms = action->until == LEASE_NEVER     ? WIRE_NO_DEADLINE
				     : left_ms < WIRE_NO_DEADLINE - 1 ? (uint32_t)left_ms
								      : WIRE_NO_DEADLINE - 1;
	lease_capacity(donor->book, &message.revoke.capacity);
	connection_send(donor, action->session, &message);
	log_debug("client %s is asked to return slab %u", donor->sessions[action->session].name, action->slab);
}

static void do_keep(struct donor *donor, const struct lease_action *action)
{
	struct wire_message message = {.type = WIRE_KEEP};

	message.keep.slab = action->name;
	connection_send(donor, action->session, &message);
}

static void do_taken(struct donor *donor, const struct lease_action *action)
{
	struct wire_message message = {.type = WIRE_REVOKED};

	donor->totals.taken++;
	message.revoked.slab = action->name;
	lease_capacity(donor->book, &message.revoked.capacity);
	connection_send(donor, action->session, &message);
	if (donor_may_tell(donor, DONOR_LEASES))
		log_event(LOG_LEVEL_INFO,
			  LOG_FIELDS(.id = EVENT_SLAB_TAKEN, .client = donor->sessions[action->session].name),
			  "slab %u is taken from client %s, which has not released it in time", action->slab,
			  donor->sessions[action->session].name);
}

static void do_fence(struct donor *donor, const struct lease_action *action)
{
	struct donor_session *session = &donor->sessions[action->session];

	while (session->data)
		connection_end(session->data);
	connection_end(session->connection);
	donor->totals.vanished += donor->book->sessions[action->session].state == LEASE_SESSION_GRACE;
	if (donor->book->sessions[action->session].state == LEASE_SESSION_GRACE && donor_may_tell(donor, DONOR_VISITS))
		log_event(LOG_LEVEL_INFO, LOG_FIELDS(.id = EVENT_CLIENT_LOST, .client = session->name),
			  "client %s vanished; its %u slabs are kept for %.3g s", session->name,
			  donor->book->sessions[action->session].slabs,
			  (double)donor->book->sessions[action->session].grace_ns / 1e9);
	for (uint32_t i = 0; session->domain && i < donor->config.limits.slabs; i++)
		if (donor->domains[i] == session->domain)
			slab_abandon(donor->worker, i); /* the client no longer waits for this slab */
}

static void do_forget(struct donor *donor, const struct lease_action *action)
{
	struct donor_session *session = &donor->sessions[action->session];
	struct fabric_domain *domain = session->domain;

	if (domain && donor_may_tell(donor, DONOR_VISITS))
		log_event(LOG_LEVEL_INFO, LOG_FIELDS(.client = session->name),
			  "client %s is gone, and its leases with it", session->name);
	memset(session, 0, sizeof *session);
	domain_drop(donor, domain);
}

static void action_do(struct donor *donor, const struct lease_action *action)
{
	struct wire_message ping = {.type = WIRE_PING};

	switch (action->kind) {
	case LEASE_PREPARE:
		donor->domains[action->slab] = donor->sessions[action->session].domain;
		slab_prepare(donor->worker, action->slab, donor->domains[action->slab]);
		break;
	case LEASE_ABANDON:
		slab_abandon(donor->worker, action->slab);
		break;
	case LEASE_GRANT:
	case LEASE_CONFIRM:
		do_grant(donor, action);
		break;
	case LEASE_DENY:
		do_deny(donor, action);
		break;
	case LEASE_CLEAR:
		do_clear(donor, action);
		break;
	case LEASE_RETURNED:
		do_returned(donor, action);
		break;
	case LEASE_REVOKE:
		do_revoke(donor, action);
		break;
	case LEASE_KEEP:
		do_keep(donor, action);
		break;
	case LEASE_TAKEN:
		do_taken(donor, action);
		break;
	case LEASE_PING:
		connection_send(donor, action->session, &ping);
		break;
	case LEASE_FENCE:
		do_fence(donor, action);
		break;
	case LEASE_FORGET:
		do_forget(donor, action);
		break;
	}
}

/* Logs once for each drain that it is complete. While the limit refuses lines, waits for the end of the minute. */
static void drained_tell(struct donor *donor)
{
	const uint64_t due = log_limit_due(&donor->lines[DONOR_ACTS]);

	if (!donor->book->draining || lease_in_use(donor->book)) {
		donor->drained = false;
		return;
	}
	if (donor->drained || (due != UINT64_MAX && clock_now() < due) || !donor_may_tell(donor, DONOR_ACTS))
		return;
	log_event(LOG_LEVEL_INFO, LOG_FIELDS(.id = EVENT_DONOR_DRAINED), "drained: nothing is leased any more");
	donor->drained = true;
}

void donor_settle(struct donor *donor)
{
	struct lease_action action;

	while (lease_next(donor->book, &action))
		action_do(donor, &action);
	drained_tell(donor);
}

void donor_end_deaf(struct donor *donor)
{
	while (donor->deaf_clients) {
		connection_end_deaf(donor);
		donor_settle(donor); /* this may mark more connections as deaf */
	}
}

/* --- Slabs, time, the end -------------------------------------------------------------------------------- */

static enum lease_outcome slab_prepared(struct donor *donor, const struct slab_answer *answer)
{
	if (answer->status == 0) {
		donor->regions[answer->slab] = answer->region;
		return LEASE_READY;
	}
	if (answer->status != -ECANCELED && donor_may_tell(donor, DONOR_LACKS))
		log_warning("no memory for slab %u: %s", answer->slab,
			    answer->status == -ENOMEM ? "this machine needs its memory (see --reserve)"
			    : answer->status == -EPERM
				? "the limit on locked memory is too low (see ulimit -l, LimitMEMLOCK=)"
				: strerror(-answer->status));
	slab_left(donor, answer->slab);
	return LEASE_NO_MEMORY;
}

void donor_slabs_ready(struct donor *donor)
{
	struct slab_answer answer;

	while (slab_answer(donor->worker, &answer)) {
		if (answer.kind == SLAB_CLEAR) {
			slab_left(donor, answer.slab);
			lease_cleared(donor->book, answer.slab);
		} else {
			lease_prepared(donor->book, answer.slab, slab_prepared(donor, &answer));
		}
		donor_settle(donor);
	}
}

void donor_tick(struct donor *donor, uint64_t now)
{
	connection_expire_handshakes(donor, now);
	for (unsigned i = 0; i < DONOR_LINES; i++)
		log_limit_tell(&donor->lines[i], now);
	drained_tell(donor);
	if (now >= lease_deadline(donor->book)) {
		lease_expire(donor->book, now);
		donor_settle(donor);
	}
}

uint64_t donor_deadline(const struct donor *donor)
{
	uint64_t deadline = lease_deadline(donor->book), other = connection_deadline(donor);

	for (unsigned i = 0; i < DONOR_LINES; i++) {
		deadline = other < deadline ? other : deadline;
		other = log_limit_due(&donor->lines[i]);
	}
	return other < deadline ? other : deadline;
}

void donor_target(struct donor *donor, uint64_t now, uint32_t target, bool pressed)
{
	lease_target(donor->book, now, target, pressed);
	donor_settle(donor);
}

uint32_t donor_quota_slabs(const struct donor *donor, uint64_t bytes)
{
	const uint64_t slabs = bytes / donor->config.limits.slab_bytes;

	if (!bytes || slabs >= LEASE_SLABS_MAX)
		return 0;
	return slabs ? (uint32_t)slabs : 1;
}

void donor_who(const struct donor *donor, uint32_t session, char who[DONOR_WHO_MAX])
{
	const char *owner = donor->book->sessions[session].owner;

	snprintf(who, DONOR_WHO_MAX, "%s%s%s%s", *owner ? "key " : "", owner, *owner ? ", " : "",
		 donor->sessions[session].from);
}

void donor_drain(struct donor *donor, uint64_t now, uint32_t session, enum wire_drain what, uint64_t within_ns)
{
	bool tell = donor->sessions[session].admin || donor_may_tell(donor, DONOR_ACTS);
	char who[DONOR_WHO_MAX];

	donor_who(donor, session, who);
	if (tell && what == WIRE_DRAIN_FORCE)
		log_event(LOG_LEVEL_WARNING, LOG_FIELDS(.id = EVENT_DONOR_DRAINING),
			  "draining by force (%s): what clients have not released in %.3g s is taken", who,
			  (double)within_ns / 1e9);
	else if (tell && what == WIRE_DRAIN_WAIT)
		log_event(LOG_LEVEL_INFO, LOG_FIELDS(.id = EVENT_DONOR_DRAINING),
			  "draining (%s): no slab is lent, and clients are asked to release their slabs", who);
	else if (tell && what == WIRE_DRAIN_END)
		log_event(LOG_LEVEL_INFO, LOG_FIELDS(.id = EVENT_DONOR_LENDING), "lending again (%s)%s", who,
			  donor->book->draining ? "" : ", as before");
	lease_drain(donor->book, now, what, within_ns);
	donor_settle(donor);
}

bool donor_has_clients(const struct donor *donor)
{
	for (uint32_t i = 0; i < donor->config.limits.sessions; i++)
		if (donor->sessions[i].connection)
			return true;
	return false;
}

void donor_suspend(struct donor *donor)
{
	const struct wire_message message = {.type = WIRE_SUSPEND};

	donor->suspended = true;
	lease_sessions_wait(donor->book, SUSPENDED_GRACE_NS);
	for (uint32_t i = 0; i < donor->config.limits.sessions; i++)
		connection_send(donor, i, &message);
	while (donor->handshakes)
		connection_end(donor->handshakes);
}

void donor_resume(struct donor *donor)
{
	donor->suspended = false;
}

void donor_leave(struct donor *donor)
{
	const struct lease_session *sessions = donor->book->sessions;
	char text[SIZE_TEXT_MAX];
	const uint64_t refused = donor_refused(donor);
	uint64_t slabs = 0;
	unsigned holders = 0;

	for (uint32_t i = 0; i < donor->config.limits.sessions; i++) {
		slabs += sessions[i].slabs;
		holders += sessions[i].slabs > 0;
		if (sessions[i].slabs)
			log_event(LOG_LEVEL_INFO, LOG_FIELDS(.client = donor->sessions[i].name),
				  "client %s still leases %u slab%s (%s)%s", donor->sessions[i].name, sessions[i].slabs,
				  sessions[i].slabs == 1 ? "" : "s",
				  size_format(sessions[i].slabs * donor->config.limits.slab_bytes, text),
				  sessions[i].state == LEASE_SESSION_GRACE ? "; it had vanished" : "");
	}
	if (slabs)
		log_event(LOG_LEVEL_WARNING, LOG_FIELDS(.id = EVENT_DATA_LOST),
			  "stopping while %llu slab%s (%s) %s leased by %u client%s: the contents are lost",
			  (unsigned long long)slabs, slabs == 1 ? "" : "s",
			  size_format(slabs * donor->config.limits.slab_bytes, text), slabs == 1 ? "is" : "are",
			  holders, holders == 1 ? "" : "s");
	else
		log_info("stopping; nothing is leased");
	if (refused)
		log_info("refused %llu connection%s since the start", (unsigned long long)refused,
			 refused == 1 ? "" : "s");
	lease_leave(donor->book);
	donor_settle(donor);
}

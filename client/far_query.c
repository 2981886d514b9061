/*
 * far_query: what one donor has, asked in a session of its own: the handshake's WELCOME carries the figures. Of the
 * clients it counts, one is this.
 *
 * Threads: the caller's.
 */
#include "client/far.h"
#include "client/session.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"

#include <errno.h>
#include <string.h>

#define QUERY_EVENTS 8u
#define NS_PER_MS UINT64_C(1000000)

/* Until the donor is READY or LOST. */
static void query_wait(struct session *session, struct fabric *fabric)
{
	while (session->donor.state != DONOR_READY && session->donor.state != DONOR_LOST) {
		struct fabric_event events[QUERY_EVENTS];
		struct donor_answer answer;
		uint64_t now = clock_now(), due = session_due(session);
		int count =
		    fabric_wait(fabric, events, QUERY_EVENTS, due > now ? (int)((due - now) / NS_PER_MS) + 1 : 0);

		now = clock_now();
		for (int i = 0; i < count; i++)
			session_event(session, &events[i], now, &answer);
		session_tick(session, now, &answer);
	}
}

static int query_ask(const struct far_config *config, const char *uri, struct fabric *fabric,
		     struct fabric_domain *domain, struct far_donor *ret_donor)
{
	unsigned connect_ms = config->fabric.connect_ms ? config->fabric.connect_ms : FABRIC_CONFIG_DEFAULT.connect_ms;
	struct donor_config donor = {
	    .key = config->key, .connect_ns = connect_ms * NS_PER_MS, .timeout_ns = connect_ms * NS_PER_MS};
	char text[DONOR_EXPLAIN_MAX];
	struct session session;
	int status = 0;

	random_secret(donor.id, sizeof donor.id);
	random_secret(donor.nonce, sizeof donor.nonce);
	session_start(&session, fabric, domain, uri, &donor, clock_now());
	query_wait(&session, fabric);
	if (session.donor.state == DONOR_READY) {
		*ret_donor = (struct far_donor){
		    .uri = uri,
		    .donated = session.donor.capacity.donated,
		    .leased = session.donor.capacity.leased,
		    .slab_bytes = session.donor.capacity.slab_bytes,
		    .clients = session.donor.capacity.clients ? session.donor.capacity.clients - 1 : 0,
		};
		memcpy(ret_donor->via, session.uri, sizeof ret_donor->via);
	} else {
		status = session.donor.status;
		log_error("donor %s %s", uri, donor_explain(&session.donor, text));
	}
	session_end(&session);
	return status;
}

int far_query(const struct far_config *config, const char *uri, struct far_donor *ret_donor)
{
	struct fabric_domain *domain;
	struct fabric *fabric;
	int error = fabric_open(&config->fabric, &fabric);

	if (error < 0)
		return error;
	error = fabric_domain_open(&domain);
	if (error == 0) {
		error = query_ask(config, uri, fabric, domain, ret_donor);
		fabric_close(fabric);
		fabric_domain_close(domain);
		return error;
	}
	fabric_close(fabric);
	return error;
}

/* operate: see operate.h. */
#include "client/donor/operate.h"

#include "client/donor/about.h"
#include "client/donor/session.h"
#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"
#include "common/random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPERATE_EVENTS 8u
#define NS_PER_MS UINT64_C(1000000)

struct operate {
	const char *uri;
	bool quiet;
	struct fabric *fabric;
	struct fabric_domain *domain;
	struct session session;
	uint32_t request; /* the number of the last request sent */
	bool answered;    /* `message` is the answer to that request */
	struct wire_message message;
};

static void news_take(struct operate *operate, const struct donor_answer *answer)
{
	if (answer->news != DONOR_ANSWERED || answer->message.request != operate->request)
		return;
	operate->message = answer->message;
	operate->answered = true;
}

/* Waits for events, until @end at most, and handles them. */
static void step(struct operate *operate, uint64_t end)
{
	uint64_t now = clock_now(), due = session_due(&operate->session);
	struct fabric_event events[OPERATE_EVENTS];
	struct donor_answer answer;
	int count;

	due = due < end ? due : end;
	count =
	    fabric_wait(operate->fabric, events, OPERATE_EVENTS, due > now ? (int)((due - now) / NS_PER_MS) + 1 : 0);
	now = clock_now();
	for (int i = 0; i < count; i++) {
		session_event(&operate->session, &events[i], now, &answer);
		news_take(operate, &answer);
	}
	session_tick(&operate->session, now, &answer);
	news_take(operate, &answer);
}

/* Returns 0 if the session is alive. Otherwise returns -errno. Also logs why the session ended, unless the session is
   quiet. */
static int status_tell(const struct operate *operate)
{
	const struct donor *donor = &operate->session.donor;
	char text[DONOR_EXPLAIN_MAX];

	if (donor->state != DONOR_LOST)
		return 0;
	if (!operate->quiet)
		log_error("donor %s %s", operate->uri, donor_explain(donor, text));
	return donor->status;
}

static int connect_wait(struct operate *operate, const struct far_config *config)
{
	unsigned connect_ms = config->fabric.connect_ms ? config->fabric.connect_ms : FABRIC_CONFIG_DEFAULT.connect_ms;
	struct donor_config donor = {
	    .key = config->key, .connect_ns = connect_ms * NS_PER_MS, .timeout_ns = connect_ms * NS_PER_MS};

	about_find(config->user, config->command, &donor.about);
	random_secret(donor.id, sizeof donor.id);
	random_secret(donor.nonce, sizeof donor.nonce);
	session_start(&operate->session, operate->fabric, operate->domain, operate->uri, &donor, clock_now());
	while (operate->session.donor.state != DONOR_READY && operate->session.donor.state != DONOR_LOST)
		step(operate, UINT64_MAX);
	return status_tell(operate);
}

/* Opens the network and connects. Returns 0 or -errno. */
static int start(struct operate *operate, const struct far_config *config)
{
	int status = fabric_open(&config->fabric, &operate->fabric);

	if (!status)
		status = fabric_domain_open(&operate->domain);
	if (!status)
		return connect_wait(operate, config);
	if (!operate->quiet)
		log_error("cannot set up the network: %s", format_errno(status));
	return status;
}

static int open_session(const struct far_config *config, const char *uri, bool quiet,
			struct operate_refusal *ret_refusal, struct operate **ret_operate)
{
	struct operate *operate = calloc(1, sizeof *operate);
	int status;

	if (!operate) {
		if (!quiet)
			log_error("cannot reach %s: %s", uri, format_errno(-ENOMEM));
		return -ENOMEM;
	}
	operate->uri = uri;
	operate->quiet = quiet;
	status = start(operate, config);
	if (status < 0) {
		*ret_refusal = (struct operate_refusal){.reason = operate->session.donor.reason,
							.detail = operate->session.donor.detail};
		operate_close(operate);
		return status;
	}
	*ret_operate = operate;
	return 0;
}

int operate_open(const struct far_config *config, const char *uri, struct operate **ret_operate)
{
	struct operate_refusal refusal;

	return open_session(config, uri, false, &refusal, ret_operate);
}

int operate_try(const struct far_config *config, const char *uri, struct operate_refusal *ret_refusal,
		struct operate **ret_operate)
{
	*ret_refusal = (struct operate_refusal){0};
	return open_session(config, uri, true, ret_refusal, ret_operate);
}

void operate_close(struct operate *operate)
{
	if (!operate)
		return;
	session_end(&operate->session);
	fabric_close(operate->fabric);
	fabric_domain_close(operate->domain);
	free(operate);
}

const char *operate_peer(const struct operate *operate)
{
	return fabric_conn_peer(operate->session.conn);
}

uint64_t operate_incarnation(const struct operate *operate)
{
	return operate->session.donor.incarnation;
}

void operate_figures(const struct operate *operate, struct far_donor_info *ret_donor)
{
	const struct wire_capacity *capacity = &operate->session.donor.capacity;

	*ret_donor = (struct far_donor_info){
	    .uri = operate->uri,
	    .donated = capacity->donated,
	    .leased = capacity->leased,
	    .slab_bytes = capacity->slab_bytes,
	    .state = capacity->state,
	    .clients = capacity->clients ? capacity->clients - 1 : 0,
	};
	memcpy(ret_donor->via, operate->session.uri, sizeof ret_donor->via);
	memcpy(ret_donor->failure_domain, operate->session.donor.failure_domain, sizeof ret_donor->failure_domain);
}

int operate_ask(struct operate *operate, const struct wire_message *request, struct wire_message *ret_answer)
{
	struct wire_message message = *request;

	message.request = ++operate->request;
	operate->answered = false;
	if (session_request(&operate->session, &message, clock_now()))
		while (!operate->answered && operate->session.donor.state == DONOR_READY)
			step(operate, UINT64_MAX);
	if (!operate->answered)
		return status_tell(operate);
	*ret_answer = operate->message;
	return 0;
}

int operate_wait(struct operate *operate, unsigned ms)
{
	uint64_t end = clock_now() + ms * NS_PER_MS;

	while (operate->session.donor.state == DONOR_READY && clock_now() < end)
		step(operate, end);
	return status_tell(operate);
}

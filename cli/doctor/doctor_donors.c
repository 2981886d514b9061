/*
 * doctor_donors: see doctor_donors.h.
 *
 * Theory of operation. A probe opens a session of its own, as `farpage donors` does. Then it asks for the donor's
 * status several times, one request after the other. The donor's process answers these requests itself. So they take
 * longer than a page over rdma://, which bypasses that process. farpage bench measures pages.
 *
 * Threads: one for each probe, joined before doctor_donors_probe() returns.
 */
#include "cli/doctor/doctor_donors.h"
#include "cli/ask.h"
#include "cli/doctor/doctor.h"
#include "client/donor/session.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/size.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)
#define ROUNDS 16
#define ROUNDS_NS (100 * NS_PER_MS) /* no new round after this time, because other probes wait for their turn */
#define EVENTS 8
#define FAR_NS NS_PER_MS /* too long a round trip for a local network */

static const char why_reach[] = "farpage run does not start unless every donor answers";

static const char *refusal_mend(const struct donor_probe *probe)
{
	switch (probe->reason) {
	case WIRE_REASON_KEY:
		return "copy the donor's key file here and name it with --key; both sides need the same";
	case WIRE_REASON_KEY_NEEDED:
		return "the donor has a key: copy its key file here and name it with --key";
	case WIRE_REASON_KEY_UNKNOWN:
		return "the donor was started without a key: start it with --key, or leave --key out here";
	case WIRE_REASON_FULL:
		return "stop another client of it, raise its --clients, or use another donor";
	case WIRE_REASON_LEAVING:
		return "it is shutting down: use another donor, or start it again";
	default:
		return "install the same farpage on both sides";
	}
}

static const char *failure_mend(int status)
{
	switch (status) {
	case -ENODEV:
		return "name it as tcp://HOST, or make a soft-RoCE device, as root: modprobe -a rdma_rxe rdma_ucm && "
		       "rdma link add rxe0 type rxe netdev NETDEV";
	case -EINVAL:
		return "write rdma://HOST[:PORT], tcp://HOST[:PORT] or auto://HOST[:PORT], an IPv6 address in brackets";
	case -ENOENT:
		return "check the name, and /etc/hosts or the name server; or give the address";
	case -ECONNREFUSED:
		return "start farpage-memserver there, and check that it listens on this address, port and fabric "
		       "(--listen)";
	case -ETIMEDOUT:
		return "check that the host runs, and that no firewall keeps the port closed (tcp: 7470; RoCE: udp "
		       "4791)";
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		return "check the address and the routes (ip route get ADDRESS)";
	case -EPROTO:
	case -ECONNRESET:
		return "check the port: is it farpage-memserver that listens there, of this version?";
	case -EPROTONOSUPPORT:
		return "install the same farpage on both sides";
	case -EMFILE:
	case -ENFILE:
		return "raise the limit on open files (ulimit -n)";
	case -ENOMEM:
		return "raise the limit on locked memory (ulimit -l), or end what uses the memory of this host";
	default:
		return "";
	}
}

struct doctor_verdict doctor_judge_reach(const struct donor_probe *probe, bool rdma)
{
	bool automatic = strncmp(probe->uri, "auto://", 7) == 0;
	struct doctor_verdict verdict;

	if (!probe->status) {
		if (!automatic || strncmp(probe->peer, "rdma://", 7) == 0 || !rdma)
			return doctor_judged(DOCTOR_PASS, why_reach, "answers as %s, protocol version %u", probe->peer,
					     WIRE_VERSION);
		verdict = doctor_judged(DOCTOR_WARN, why_reach,
					"answers as %s only, though this host has RDMA: pages take the slower way",
					probe->peer);
		doctor_mend(&verdict, "start farpage-memserver there with --listen rdma://ADDRESS, too");
		return verdict;
	}
	if (probe->status == -ENODEV && rdma) {
		verdict = doctor_judged(DOCTOR_FAIL, why_reach, "no RDMA device of this host leads to that address");
		doctor_mend(&verdict,
			    "name it by an address on its RDMA network (ip route get ADDRESS and rdma link show "
			    "the way from here), or as tcp://HOST");
		return verdict;
	}
	if (probe->reason == WIRE_REASON_VERSION)
		verdict =
		    doctor_judged(DOCTOR_FAIL, why_reach, "refuses: it speaks protocol version %u, this farpage %u",
				  probe->detail, WIRE_VERSION);
	else if (probe->reason)
		verdict = doctor_judged(DOCTOR_FAIL, why_reach, "refuses: %s", wire_reason_name(probe->reason));
	else
		verdict = doctor_judged(DOCTOR_FAIL, why_reach, "%s", ask_reason(probe->status));
	doctor_mend(&verdict, "%s", probe->reason ? refusal_mend(probe) : failure_mend(probe->status));
	return verdict;
}

struct doctor_verdict doctor_judge_free(const struct donor_probe *probe)
{
	static const char why[] = "what is free now can be leased by the next program";
	const struct wire_capacity *capacity = &probe->capacity;
	uint64_t unused = capacity->donated > capacity->leased ? capacity->donated - capacity->leased : 0;
	char donated[SIZE_TEXT_MAX], free_text[SIZE_TEXT_MAX], slab[SIZE_TEXT_MAX];
	unsigned others = capacity->clients ? capacity->clients - 1 : 0;
	struct doctor_verdict verdict;

	if (probe->status)
		return doctor_judged(DOCTOR_SKIP, why, "the donor does not answer");
	size_format(capacity->donated, donated);
	size_format(unused, free_text);
	size_format(capacity->slab_bytes, slab);
	if (unused >= capacity->slab_bytes)
		return doctor_judged(DOCTOR_PASS, why, "%s free of %s in slabs of %s, other clients: %u", free_text,
				     donated, slab, others);
	verdict = doctor_judged(DOCTOR_WARN, why, "nothing free of %s, other clients: %u", donated, others);
	doctor_mend(&verdict, "stop a client of it, let it lend more (--donate), or use another donor");
	return verdict;
}

struct doctor_verdict doctor_judge_distance(const struct donor_probe *probe)
{
	static const char why[] = "each page that is not here costs at least a way there and back; the donor's process "
				  "answers these messages, so pages are quicker: farpage bench measures them";
	struct doctor_verdict verdict;
	double connect_ms = (double)probe->connect_ns / 1e6, round_us = (double)probe->round_ns / 1e3;
	double worst_us = (double)probe->worst_ns / 1e3;

	if (probe->status || !probe->rounds)
		return doctor_judged(DOCTOR_SKIP, why, "the donor does not answer");
	verdict = doctor_judged(probe->round_ns < FAR_NS ? DOCTOR_PASS : DOCTOR_WARN, why,
				"message and answer %.0f us (median of %u; at most %.0f), connected in %.1f ms",
				round_us, probe->rounds, worst_us, connect_ms);
	if (verdict.status == DOCTOR_WARN)
		doctor_mend(&verdict, "use donors on the same switch; check that the host is not busy");
	return verdict;
}

/* --- The conversation -------------------------------------------------------------------------------------------- */

struct talk {
	const struct far_config *config;
	struct donor_probe *probe;
	pthread_mutex_t *turn; /* held while measuring, so that one probe measures at a time */
	struct fabric *fabric;
	struct fabric_domain *domain;
	struct session session;
	unsigned answered; /* status requests answered */
};

/* Waits once for events and handles them. */
static void talk_step(struct talk *talk)
{
	struct session *session = &talk->session;
	struct fabric_event events[EVENTS];
	struct donor_answer answer;
	uint64_t now = clock_now(), due = session_due(session);
	int count = fabric_wait(talk->fabric, events, EVENTS, due > now ? (int)((due - now) / NS_PER_MS) + 1 : 0);

	now = clock_now();
	for (int i = 0; i < count; i++) {
		session_event(session, &events[i], now, &answer);
		talk->answered += answer.news == DONOR_ANSWERED;
	}
	session_tick(session, now, &answer);
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void talk_rounds(struct talk *talk)
{
	const struct wire_message question = {.type = WIRE_STATUS};
	struct donor_probe *probe = talk->probe;
	uint64_t times[ROUNDS], end = clock_now() + ROUNDS_NS;
	unsigned done = 0;

	while (done < ROUNDS && clock_now() < end) {
		uint64_t start = clock_now();

		if (!session_request(&talk->session, &question, start))
			break;
		while (talk->answered == done && talk->session.donor.state == DONOR_READY)
			talk_step(talk);
		if (talk->answered == done)
			break;
		times[done++] = clock_now() - start;
	}
	if (!done)
		return;
	qsort(times, done, sizeof times[0], compare_times);
	probe->rounds = done;
	probe->round_ns = times[done / 2];
	probe->worst_ns = times[done - 1];
}

static void talk_hold(struct talk *talk)
{
	const uint64_t limit_ns = talk->config->fabric.connect_ms * NS_PER_MS;
	struct donor_config donor = {.key = talk->config->key, .connect_ns = limit_ns, .timeout_ns = limit_ns};
	struct session *session = &talk->session;
	struct donor_probe *probe = talk->probe;
	uint64_t start = clock_now();

	random_secret(donor.id, sizeof donor.id);
	random_secret(donor.nonce, sizeof donor.nonce);
	session_start(session, talk->fabric, talk->domain, probe->uri, &donor, start);
	while (session->donor.state != DONOR_READY && session->donor.state != DONOR_LOST)
		talk_step(talk);
	if (session->donor.state == DONOR_READY) {
		probe->connect_ns = clock_now() - start;
		snprintf(probe->peer, sizeof probe->peer, "%s", fabric_conn_peer(session->conn));
		pthread_mutex_lock(talk->turn);
		talk_rounds(talk);
		pthread_mutex_unlock(talk->turn);
		probe->capacity = session->donor.capacity;
	}
	if (session->donor.state == DONOR_LOST) {
		probe->status = session->donor.status;
		probe->reason = session->donor.reason;
		probe->detail = session->donor.detail;
	}
	session_end(session);
}

struct errand {
	struct donor_probe *probe;
	pthread_mutex_t *turn;
};

static void probe_one(struct ask *ask)
{
	const struct errand *errand = ask->answer;
	struct talk talk = {.config = ask->config, .probe = errand->probe, .turn = errand->turn};
	int error = fabric_open(&ask->config->fabric, &talk.fabric);

	if (!error) {
		error = fabric_domain_open(&talk.domain);
		if (!error) {
			talk_hold(&talk);
			fabric_domain_close(talk.domain);
		}
		fabric_close(talk.fabric);
	}
	if (error)
		talk.probe->status = error;
	ask->status = talk.probe->status;
}

void doctor_donors_probe(const char *const *uris, unsigned count, const uint8_t *key, unsigned connect_ms,
			 struct donor_probe *probes)
{
	struct far_config config = {.key = key, .fabric = FABRIC_CONFIG_DEFAULT};
	pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
	struct errand errands[FAR_DONORS_MAX];
	struct ask asks[FAR_DONORS_MAX];

	config.fabric.connect_ms = connect_ms;
	for (unsigned i = 0; i < count; i++) {
		probes[i] = (struct donor_probe){.uri = uris[i]};
		errands[i] = (struct errand){.probe = &probes[i], .turn = &turn};
		asks[i] = (struct ask){.config = &config, .uri = uris[i], .answer = &errands[i]};
	}
	ask_all(asks, count, probe_one);
	pthread_mutex_destroy(&turn);
}

/* --- The checks -------------------------------------------------------------------------------------------------- */

void doctor_donors_reach(struct doctor *doctor)
{
	for (unsigned i = 0; i < doctor->probe_count; i++) {
		struct doctor_verdict verdict = doctor_judge_reach(&doctor->probes[i], doctor->devices.count > 0);

		doctor_add(doctor, doctor->probes[i].uri, &verdict);
	}
}

void doctor_donors_free(struct doctor *doctor)
{
	for (unsigned i = 0; i < doctor->probe_count; i++) {
		struct doctor_verdict verdict = doctor_judge_free(&doctor->probes[i]);

		doctor_add(doctor, doctor->probes[i].uri, &verdict);
	}
}

void doctor_donors_distance(struct doctor *doctor)
{
	for (unsigned i = 0; i < doctor->probe_count; i++) {
		struct doctor_verdict verdict = doctor_judge_distance(&doctor->probes[i]);

		doctor_add(doctor, doctor->probes[i].uri, &verdict);
	}
}

/*
 * doctor_donors: checks whether the donors answer, over which fabric, how much memory they have free, and how long an
 * answer takes.
 *
 * Theory of operation. A probe opens a session of its own, as `farpage donors` does. Then it asks for the donor's
 * status several times, one request after the other. The donor's program answers these requests. So a request for the
 * status takes longer than a read of a page over rdma://, which the donor's device answers. `farpage bench` measures
 * pages.
 *
 * Threads: one for each probe, joined before doctor_donors_read() returns.
 */
#include "cli/ask.h"
#include "cli/doctor/internal.h"
#include "common/clock.h"
#include "wire/wire.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)
#define CONNECT_MS 1500 /* the time limit for each step of a conversation with a donor */
#define ROUNDS 16
#define ROUNDS_NS (100 * NS_PER_MS) /* no new round begins after this time, because other probes wait for their turn */
#define FAR_NS NS_PER_MS            /* a longer round trip is too long for a local network */

struct mend {
	int code;
	const char *text;
};

/* The advice for each enum wire_reason. */
static const struct mend refusals[] = {
    {WIRE_REASON_KEY, "copy the donor's key file here and name it with --key; both sides need the same"},
    {WIRE_REASON_KEY_NEEDED, "the donor has a key: copy its key file here and name it with --key"},
    {WIRE_REASON_KEY_UNKNOWN, "the donor was started without a key: start it with --key, or leave --key out here"},
    {WIRE_REASON_FULL, "stop another client of it, raise its --clients, or use another donor"},
    {WIRE_REASON_LEAVING, "it is shutting down: use another donor, or start it again"},
    {0, "install the same farpage on both sides"}, /* for any other reason */
};

static const struct mend failures[] = {
    {ENODEV, "name it as tcp://HOST, or make a soft-RoCE device, as root: modprobe -a rdma_rxe rdma_ucm && rdma link "
	     "add rxe0 type rxe netdev NETDEV"},
    {EINVAL, "write rdma://HOST[:PORT], tcp://HOST[:PORT] or auto://HOST[:PORT], an IPv6 address in brackets"},
    {ENOENT, "check the name, and /etc/hosts or the name server; or give the address"},
    {ECONNREFUSED,
     "start farpage-memserver there, and check that it listens on this address, port and fabric (--listen)"},
    {ETIMEDOUT, "check that the host runs, and that no firewall keeps the port closed (tcp: 7470; RoCE: udp 4791)"},
    {EHOSTUNREACH, "check the address and the routes (ip route get ADDRESS)"},
    {ENETUNREACH, "check the address and the routes (ip route get ADDRESS)"},
    {EPROTO, "check the port: is it farpage-memserver that listens there, of this version?"},
    {ECONNRESET, "check the port: is it farpage-memserver that listens there, of this version?"},
    {EPROTONOSUPPORT, "install the same farpage on both sides"},
    {EMFILE, "raise the limit on open files (ulimit -n)"},
    {ENFILE, "raise the limit on open files (ulimit -n)"},
    {ENOMEM, "raise the limit on locked memory (ulimit -l), or end what uses the memory of this host"},
    {0, ""},
};

static const char *mend_of(const struct mend *mends, int code)
{
	while (mends->code && mends->code != code)
		mends++;
	return mends->text;
}

struct verdict doctor_donors_reach(const struct host *host)
{
	const struct probe *probe = host->donor;
	const struct operate_refusal *refusal = &probe->refusal;
	bool rdma = host->rdma.count;

	if (refusal->reason == WIRE_REASON_VERSION)
		return FAIL("refuses: it speaks protocol version %u, this farpage %u\n%s", refusal->detail,
			    WIRE_VERSION, mend_of(refusals, refusal->reason));
	if (refusal->reason)
		return FAIL("refuses: %s\n%s", wire_reason_name(refusal->reason), mend_of(refusals, refusal->reason));
	if (probe->status == -ENODEV && rdma)
		return FAIL("no RDMA device of this host leads to that address\n"
			    "name it by an address on its RDMA network (ip route get ADDRESS and rdma link show the "
			    "way from here), or as tcp://HOST");
	if (probe->status)
		return FAIL("%s\n%s", ask_reason(probe->status), mend_of(failures, -probe->status));
	if (rdma && strncmp(probe->uri, "auto://", 7) == 0 && strncmp(probe->peer, "rdma://", 7) != 0)
		return WARN("answers as %s only, although this host has RDMA: pages take the slower path\n"
			    "start farpage-memserver there with --listen rdma://ADDRESS, too",
			    probe->peer);
	return PASS("answers as %s, protocol version %u", probe->peer, WIRE_VERSION);
}

struct verdict doctor_donors_free(const struct host *host)
{
	const struct far_donor_info *figures = &host->donor->figures;

	if (host->donor->status)
		return SKIP("the donor does not answer");
	if (ask_free(figures) < figures->slab_bytes)
		return WARN("nothing free of %s, other clients: %u", SIZE(figures->donated), figures->clients);
	return PASS("%s free of %s in slabs of %s, other clients: %u", SIZE(ask_free(figures)), SIZE(figures->donated),
		    SIZE(figures->slab_bytes), figures->clients);
}

struct verdict doctor_donors_distance(const struct host *host)
{
	const struct probe *probe = host->donor;

	if (probe->status || !probe->rounds)
		return SKIP("the donor does not answer");
	return verdict_of(probe->round_ns < FAR_NS ? PASS : WARN,
			  "message and answer %.0f us (median of %u; at most %.0f), connected in %.1f ms",
			  (double)probe->round_ns / 1e3, probe->rounds, (double)probe->worst_ns / 1e3,
			  (double)probe->connect_ns / 1e6);
}

/* --- Facts ------------------------------------------------------------------------------------------------------- */

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void rounds_measure(struct operate *operate, struct probe *probe)
{
	const struct wire_message question = {.type = WIRE_STATUS};
	uint64_t times[ROUNDS], end = clock_now() + ROUNDS_NS, start;
	struct wire_message answer;
	unsigned done = 0;

	while (done < ROUNDS && (start = clock_now()) < end) {
		probe->status = operate_ask(operate, &question, &answer);
		if (probe->status < 0)
			return;
		times[done++] = clock_now() - start;
	}
	if (!done)
		return;
	qsort(times, done, sizeof times[0], compare_times);
	probe->rounds = done;
	probe->round_ns = times[done / 2];
	probe->worst_ns = times[done - 1];
}

static void probe_one(struct ask *ask)
{
	static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* one probe measures at a time */
	struct probe *probe = ask->answer;
	uint64_t start = clock_now();
	struct operate *operate;

	probe->status = operate_try(ask->config, ask->uri, &probe->refusal, &operate);
	if (probe->status < 0)
		return;
	probe->connect_ns = clock_now() - start;
	snprintf(probe->peer, sizeof probe->peer, "%s", operate_peer(operate));
	pthread_mutex_lock(&turn);
	rounds_measure(operate, probe);
	pthread_mutex_unlock(&turn);
	operate_figures(operate, &probe->figures);
	operate_close(operate);
}

/* Talks with all donors at once. Logs nothing. */
void doctor_donors_read(struct host *host)
{
	struct far_config config = {.key = host->key, .fabric = FABRIC_CONFIG_DEFAULT};
	struct ask asks[CONFIG_LIST_MAX];

	config.fabric.connect_ms = CONNECT_MS;
	host->probe_count = host->donors->count;
	for (unsigned i = 0; i < host->probe_count; i++) {
		host->probes[i].uri = host->donors->items[i];
		asks[i] = (struct ask){.config = &config, .uri = host->probes[i].uri, .answer = &host->probes[i]};
	}
	ask_all(asks, host->probe_count, probe_one);
}

bool doctor_donors_each(struct host *host, unsigned index)
{
	if (index >= host->probe_count)
		return false;
	host->donor = &host->probes[index];
	snprintf(host->subject, sizeof host->subject, "%s", host->donor->uri);
	return true;
}

/* verbs: connections with peers that break the rules, have another protocol, or are silent. */
#include "tests/unit/fabric/verbs_peer.h"

static struct fabric_config quick(void)
{
	struct fabric_config config = FABRIC_CONFIG_DEFAULT;

	config.connect_ms = 400;
	return config;
}

/* --- Peers that connect ----------------------------------------------------------------------------------- */

static void closed(struct peer *peer, struct pair *pair)
{
	peer_close(peer);
	pair_close(pair);
}

/*
 * Opens a pair and a peer that is connected to it. If a listener has just been closed, siw sometimes loses the next
 * one. It drops a reference too many, and the kernel usually logs a warning (siw_destroy_listen, siw_cep_put). In that
 * case this function makes another listener, because no test is about this bug.
 */
static bool opened(struct peer *peer, struct pair *pair, const struct fabric_config *config)
{
	for (unsigned attempt = 1;; attempt++) {
		bool connected;

		pair_open(pair, config);
		peer_open(peer);
		connected = peer_connect(peer, pair, 0);
		if (connected || !peer->unheard || attempt == 3)
			return connected;
		printf("# the driver has lost its listener: another one\n");
		closed(peer, pair);
	}
}

static bool established(struct peer *peer, struct pair *pair)
{
	return opened(peer, pair, NULL) && peer_send_opening(peer, VERBS_VERSION) &&
	       pump_until(pair, side_count(&pair->donor, FABRIC_ESTABLISHED));
}

/* Checks that the donor ends the connection with @status and takes nothing from it as a message. */
static void check_ended(const char *name, struct peer *peer, struct pair *pair, int status)
{
	int ended = pump_until(pair, side_ended(&pair->donor));

	ok(ended == status && side_count(&pair->donor, FABRIC_DISCONNECTED) == 1, "%s ends the connection: %s", name,
	   strerror(-ended));
	ok(side_count(&pair->donor, FABRIC_MESSAGE) == 0, "%s is not taken for a message", name);
	closed(peer, pair);
}

static void a_peer_that_says_nothing_is_dropped(void)
{
	struct fabric_config config = quick();
	struct peer peer;
	struct pair pair;
	uint64_t begin;

	ok(opened(&peer, &pair, &config), "a peer that says nothing connects");
	begin = clock_now();
	ok(pump_until(&pair, side_ended(&pair.donor)) && clock_now() - begin >= 300000000,
	   "a peer that says nothing is dropped after connect_ms");
	ok(side_count(&pair.donor, FABRIC_ESTABLISHED) == 0, "a peer that says nothing is never established");
	check_ended("a missing opening", &peer, &pair, -ETIMEDOUT);
}

static void bad_openings_end_the_connection(void)
{
	struct peer peer;
	struct pair pair;

	ok(opened(&peer, &pair, NULL) && peer_send_opening(&peer, VERBS_VERSION + 1),
	   "a peer sends an opening of another version");
	check_ended("an opening of another version", &peer, &pair, -EPROTO);
	ok(opened(&peer, &pair, NULL) && peer_send(&peer, VERBS_MESSAGE_USER, 0, "hello", 5),
	   "a peer sends a message instead of an opening");
	check_ended("a message instead of an opening", &peer, &pair, -EPROTO);
	ok(opened(&peer, &pair, NULL) && peer_post(&peer, IBV_WR_SEND, 2, (struct fabric_remote){0}),
	   "a peer sends two bytes instead of an opening");
	check_ended("two bytes instead of an opening", &peer, &pair, -EPROTO);
}

static void malformed_messages_end_the_connection(void)
{
	static const uint8_t kinds[] = {0, VERBS_MESSAGE_OPEN, VERBS_MESSAGE_USER, VERBS_MESSAGE_CREDIT, 200};
	struct peer peer;
	struct pair pair;

	for (unsigned i = 0; i < sizeof kinds; i++) {
		/* A message of the user must have bytes, and a message of credits must have none. These messages break
		   this rule. */
		size_t size = kinds[i] == VERBS_MESSAGE_USER ? 0 : 8;
		char name[48];

		snprintf(name, sizeof name, "a message of kind %u with %zu bytes", kinds[i], size);
		ok(established(&peer, &pair) && peer_send(&peer, kinds[i], 0, "garbage!", size), "a peer sends %s",
		   name);
		check_ended(name, &peer, &pair, -EPROTO);
	}
	ok(established(&peer, &pair) && peer_send(&peer, VERBS_MESSAGE_CREDIT, 1, NULL, 0),
	   "a peer sends credits that nobody gave");
	check_ended("a message of credits that nobody gave", &peer, &pair, -EPROTO);
}

/* RDMA Write with Immediate completes a receive without writing its buffer. */
static void a_write_with_immediate_data_is_no_message(void)
{
	struct peer peer;
	struct pair pair;

	if (!established(&peer, &pair)) {
		ok(false, "a peer is established");
		closed(&peer, &pair);
		return;
	}
	if (peer_is_iwarp(pair.donor.conn)) {
		tap_skip("a write with immediate data is not taken for a message", "iWARP has none");
		closed(&peer, &pair);
		return;
	}
	fill(pair.donor.memory, PEER_MEMORY, 3);
	ok(peer_post(&peer, IBV_WR_RDMA_WRITE_WITH_IMM, 40000, fabric_export(pair.donor.region, pair.donor.conn)),
	   "a peer sends a write with immediate data");
	check_ended("a write with immediate data", &peer, &pair, -EPROTO);
}

/*
 * A peer sends more messages than the donor has buffers for, while the donor's program does not run. On InfiniBand
 * the peer's device waits for free buffers. On iWARP the connection ends.
 */
static void a_flood_of_messages_is_held_back(void)
{
	const unsigned count = 2 * VERBS_RECEIVES;
	struct peer peer;
	struct pair pair;
	uint64_t until;
	bool iwarp;

	ok(established(&peer, &pair), "a peer that floods the donor is established");
	iwarp = peer_is_iwarp(pair.donor.conn);
	for (unsigned i = 0; i < count; i++)
		peer_send(&peer, VERBS_MESSAGE_USER, 0, "flood", 5);
	until = clock_now() + 200000000;
	while (clock_now() < until) {
		peer_poll(&peer);
		sched_yield();
	}
	ok(peer.sent < count || iwarp, "the device of a flooding peer sends no more than there is room for (%u)",
	   peer.sent);
	pump_until(&pair, side_ended(&pair.donor) || side_count(&pair.donor, FABRIC_MESSAGE) == count);
	ok(iwarp ? side_ended(&pair.donor) == -ECONNRESET : side_count(&pair.donor, FABRIC_MESSAGE) == count,
	   "a flooded donor gets all messages that arrive (%u)", side_count(&pair.donor, FABRIC_MESSAGE));
	ok(pair_connect(&pair), "a flooded donor takes other connections");
	closed(&peer, &pair);
}

/* --- Peers that are connected to --------------------------------------------------------------------------- */

/* Checks that the client's connection ends with @status and is never established. */
static void check_not_taken(const char *name, struct peer *peer, struct pair *pair, int status)
{
	int ended = pump_until(pair, side_ended(&pair->client));

	ok(ended == status && side_count(&pair->client, FABRIC_ESTABLISHED) == 0, "%s ends the connect: %s", name,
	   strerror(-ended));
	closed(peer, pair);
}

static void bad_answers_end_the_connect(void)
{
	struct verbs_answer answer = peer_answer(VERBS_VERSION + 1);
	struct fabric_config config = quick();
	struct peer peer;
	struct pair pair;

	pair_open(&pair, NULL);
	peer_open(&peer);
	ok(peer_listen(&peer, &pair) && peer_accept(&peer, &pair, &answer, sizeof answer),
	   "a peer of another version accepts");
	check_not_taken("an accept of another version", &peer, &pair, -EPROTONOSUPPORT);

	pair_open(&pair, NULL);
	peer_open(&peer);
	ok(peer_listen(&peer, &pair) && peer_accept(&peer, &pair, "hello", 5), "a peer with another protocol accepts");
	check_not_taken("an accept of another protocol", &peer, &pair, -EPROTO);

	pair_open(&pair, NULL);
	peer_open(&peer);
	ok(peer_listen(&peer, &pair) && rdma_reject(peer.id, &answer, sizeof answer) == 0,
	   "a peer of another version rejects");
	check_not_taken("a reject of another version", &peer, &pair, -EPROTONOSUPPORT);

	answer = peer_answer(VERBS_VERSION);
	answer.private_size = FABRIC_PRIVATE_MAX + 1;
	pair_open(&pair, NULL);
	peer_open(&peer);
	ok(peer_listen(&peer, &pair) && rdma_reject(peer.id, &answer, sizeof answer) == 0,
	   "a peer rejects with more private data than there is");
	check_not_taken("a reject with too much private data", &peer, &pair, -ECONNREFUSED);

	pair_open(&pair, &config);
	peer_open(&peer);
	ok(peer_listen(&peer, &pair), "a peer that never answers gets a connect request");
	check_not_taken("a peer that never answers", &peer, &pair, -ETIMEDOUT);
}

/* Checks that cookies 0 .. @count - 1 are answered once each, in order, and that the end with @status comes last. */
static void check_answers(const char *name, struct pair *pair, unsigned count, int status)
{
	unsigned done = 0;
	bool good = pump_until(pair, side_ended(&pair->client));

	for (unsigned i = 0; i < pair->client.count; i++) {
		const struct seen *seen = &pair->client.seen[i];

		if (seen->kind == FABRIC_DONE)
			good &= seen->cookie == done++;
		if (seen->kind == FABRIC_DISCONNECTED)
			good &= i == pair->client.count - 1;
	}
	ok(good && done == count, "%s: each of %u operations is answered once before the end (%u)", name, count, done);
	ok(side_ended(&pair->client) == status, "%s ends the connection: %s", name,
	   strerror(-side_ended(&pair->client)));
}

static bool accepted(struct peer *peer, struct pair *pair)
{
	struct verbs_answer answer = peer_answer(VERBS_VERSION);

	pair_open(pair, NULL);
	peer_open(peer);
	return peer_listen(peer, pair) && peer_accept(peer, pair, &answer, sizeof answer) &&
	       pump_until(pair, side_count(&pair->client, FABRIC_ESTABLISHED));
}

static void reads_post(struct peer *peer, struct pair *pair, unsigned count, uint32_t rkey)
{
	for (unsigned i = 0; i < count; i++) {
		struct fabric_op op = {.kind = i % 3 ? FABRIC_READ : FABRIC_WRITE,
				       .length = 4096,
				       .local = pair->client.memory,
				       .region = pair->client.region,
				       .remote = {.address = (uintptr_t)peer->memory, .rkey = rkey},
				       .cookie = i};

		if (fabric_post(pair->client.conn, &op, 1) != 1)
			abort();
	}
}

/* The peer's queue pair is in error, so the peer answers nothing any more. */
static void a_failed_queue_pair_of_the_peer_ends_the_connection(void)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct peer peer;
	struct pair pair;
	bool iwarp;

	ok(accepted(&peer, &pair), "a peer whose queue pair will fail is established");
	iwarp = peer_is_iwarp(pair.client.conn);
	ibv_modify_qp(peer.id->qp, &error, IBV_QP_STATE);
	reads_post(&peer, &pair, 100, peer.mr->rkey);
	/* iWARP cuts the stream. */
	check_answers("a failed queue pair of the peer", &pair, 100, iwarp ? -ECONNRESET : -ETIMEDOUT);
	closed(&peer, &pair);
}

static void a_failed_own_queue_pair_ends_the_connection(void)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct peer peer;
	struct pair pair;

	ok(accepted(&peer, &pair), "a connection whose own queue pair will fail is established");
	reads_post(&peer, &pair, 100, peer.mr->rkey);
	ibv_modify_qp(verbs_conn_of(pair.client.conn)->qp, &error, IBV_QP_STATE);
	check_answers("a failed queue pair of one's own", &pair, 100, -ECONNRESET);
	closed(&peer, &pair);
}

/* A request is refused while many are in flight. */
static void a_refused_operation_ends_the_connection(void)
{
	struct peer peer;
	struct pair pair;
	bool iwarp;

	ok(accepted(&peer, &pair), "a peer that will refuse is established");
	iwarp = peer_is_iwarp(pair.client.conn);
	reads_post(&peer, &pair, 100, peer.mr->rkey + 1);
	check_answers("a refused operation", &pair, 100, iwarp ? -ECONNRESET : -EACCES);
	closed(&peer, &pair);
}

/*
 * Many peers vanished silently 200 ms ago. A disconnect waits for last messages only until the peer has been silent
 * for 100 ms. So these disconnects must not wait, because the thread serves other connections, too.
 */
static void silent_peers_are_disconnected_at_once(void)
{
	enum { PEERS = 10 };
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	const struct timespec pause = {.tv_nsec = 200000000};
	struct peer peers[PEERS];
	struct pair pairs[PEERS];
	bool good = true;
	uint64_t begin;

	for (unsigned i = 0; i < PEERS; i++) {
		good &= established(&peers[i], &pairs[i]);
		ibv_modify_qp(peers[i].id->qp, &error, IBV_QP_STATE);
		fabric_send(pairs[i].donor.conn, "gone", 4);
	}
	/* Polls as a donor does, so that the fabric knows of all that was done until now. */
	for (unsigned i = 0; i < PEERS; i++)
		pump_for(&pairs[i], 5);
	nanosleep(&pause, NULL);
	begin = clock_now();
	for (unsigned i = 0; i < PEERS; i++) {
		fabric_disconnect(pairs[i].donor.conn);
		pairs[i].donor.conn = NULL;
	}
	ok(good && clock_now() - begin < PEERS * UINT64_C(90000000),
	   "%u silent peers are disconnected at once (%.1f ms)", PEERS, (double)(clock_now() - begin) / 1e6);
	for (unsigned i = 0; i < PEERS; i++)
		closed(&peers[i], &pairs[i]);
}

int main(void)
{
	if (pair_is_tcp())
		return tap_skip_all("FARPAGE_TEST_FABRIC names no RDMA address");
	if (!getenv("TAP_LOG"))
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	a_peer_that_says_nothing_is_dropped();
	bad_openings_end_the_connection();
	malformed_messages_end_the_connection();
	a_write_with_immediate_data_is_no_message();
	a_flood_of_messages_is_held_back();
	bad_answers_end_the_connect();
	a_failed_queue_pair_of_the_peer_ends_the_connection();
	a_failed_own_queue_pair_ends_the_connection();
	a_refused_operation_ends_the_connection();
	silent_peers_are_disconnected_at_once();
	return tap_done();
}

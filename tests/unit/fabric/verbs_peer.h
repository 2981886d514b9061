/*
 * verbs_peer: a peer of the verbs backend, made of librdmacm and libibverbs alone. So it can do things that the backend
 * never does. It lives in the test's thread, and pumps the pair while it waits.
 */
#ifndef TESTS_FABRIC_VERBS_PEER_H
#define TESTS_FABRIC_VERBS_PEER_H

#include "fabric/verbs/verbs.h"
#include "tests/unit/fabric/pair.h"

#define PEER_MEMORY 65536u
#define PEER_RECEIVES 64u
#define PEER_SENDS 256u

struct peer {
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id, *listener;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *memory;
	enum ibv_wc_status status; /* status of the last completion */
	unsigned sent, received;   /* successful completions */
	bool unheard;              /* on iWARP, the peer's own driver refused peer_connect() */
};

/* Returns the address in FARPAGE_TEST_FABRIC, with @port. */
__attribute__((unused)) static struct sockaddr_in peer_address(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	char host[48];

	if (sscanf(getenv("FARPAGE_TEST_FABRIC"), "%*s %47s", host) != 1 ||
	    inet_pton(AF_INET, host, &address.sin_addr) != 1)
		abort();
	return address;
}

__attribute__((unused)) static bool peer_is_iwarp(const struct fabric_conn *conn)
{
	return verbs_conn_of(conn)->channel->device->iwarp;
}

__attribute__((unused)) static void peer_open(struct peer *peer)
{
	*peer = (struct peer){.cm = rdma_create_event_channel()};
	if (!peer->cm || fcntl(peer->cm->fd, F_SETFL, O_NONBLOCK) < 0)
		abort();
	peer->memory = mmap(NULL, PEER_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (peer->memory == MAP_FAILED)
		abort();
}

/*
 * Waits for the next event of the connection manager. *ret_id gets the event's id, which may be new. Returns false
 * if no event came, or one of another kind.
 */
__attribute__((unused)) static bool peer_event(struct peer *peer, struct pair *pair, enum rdma_cm_event_type kind,
					       struct rdma_cm_id **ret_id)
{
	struct rdma_cm_event *event = NULL;
	bool right;

	if (!pump_until(pair, event || rdma_get_cm_event(peer->cm, &event) == 0))
		return false;
	right = event->event == kind;
	if (!right)
		printf("# %s instead of %s\n", rdma_event_str(event->event), rdma_event_str(kind));
	if (ret_id)
		*ret_id = event->id;
	rdma_ack_cm_event(event);
	return right;
}

/* Makes the queue pair and posts receives. The peer must have an id with a device. */
__attribute__((unused)) static bool peer_equip(struct peer *peer)
{
	struct ibv_qp_init_attr attributes = {
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = PEER_SENDS, .max_recv_wr = PEER_RECEIVES, .max_send_sge = 1, .max_recv_sge = 1}};

	peer->pd = ibv_alloc_pd(peer->id->verbs);
	peer->cq = ibv_create_cq(peer->id->verbs, PEER_SENDS + PEER_RECEIVES, NULL, NULL, 0);
	attributes.send_cq = attributes.recv_cq = peer->cq;
	peer->mr = peer->pd ? ibv_reg_mr(peer->pd, peer->memory, PEER_MEMORY,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
			    : NULL;
	if (!peer->pd || !peer->cq || !peer->mr || rdma_create_qp(peer->id, peer->pd, &attributes) < 0)
		return false;
	for (unsigned i = 0; i < PEER_RECEIVES; i++) {
		struct ibv_sge sge = {
		    .addr = (uintptr_t)peer->memory + PEER_MEMORY / 2, .length = 512, .lkey = peer->mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;

		if (ibv_post_recv(peer->id->qp, &wr, &bad))
			return false;
	}
	return true;
}

/*
 * Calls rdma_connect(3). On iWARP it connects over TCP, which may be refused before the donor's listener hears
 * of it.
 */
__attribute__((unused)) static bool peer_call(struct peer *peer, struct rdma_conn_param *param)
{
	if (rdma_connect(peer->id, param) == 0)
		return true;
	peer->unheard = peer->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP &&
			(errno == ECONNREFUSED || errno == EADDRNOTAVAIL);
	return false;
}

/*
 * Connects to the donor, with one read at a time each way. The peer's device sends again @rnr times when the donor has
 * no buffer.
 */
__attribute__((unused)) static bool peer_connect(struct peer *peer, struct pair *pair, uint8_t rnr)
{
	struct sockaddr_in address = peer_address(fabric_listener_port(pair->donor.listener));
	struct rdma_conn_param param = {
	    .responder_resources = 1, .initiator_depth = 1, .retry_count = 6, .rnr_retry_count = rnr};

	return rdma_create_id(peer->cm, &peer->id, NULL, RDMA_PS_TCP) == 0 &&
	       rdma_resolve_addr(peer->id, NULL, (struct sockaddr *)&address, 2000) == 0 &&
	       peer_event(peer, pair, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) && peer_equip(peer) &&
	       rdma_resolve_route(peer->id, 2000) == 0 && peer_event(peer, pair, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) &&
	       peer_call(peer, &param) && peer_event(peer, pair, RDMA_CM_EVENT_ESTABLISHED, NULL);
}

/* Lets the client of @pair connect to this peer. Returns true when the connect request is here. */
__attribute__((unused)) static bool peer_listen(struct peer *peer, struct pair *pair)
{
	struct sockaddr_in address = peer_address(0);
	char host[48];

	if (rdma_create_id(peer->cm, &peer->listener, NULL, RDMA_PS_TCP) < 0 ||
	    rdma_bind_addr(peer->listener, (struct sockaddr *)&address) < 0 || rdma_listen(peer->listener, 4) < 0)
		return false;
	inet_ntop(AF_INET, &address.sin_addr, host, sizeof host);
	snprintf(pair->uri, sizeof pair->uri, "rdma://%s:%u", host, ntohs(rdma_get_src_port(peer->listener)));
	return fabric_connect(pair->client.fabric, pair->client.domain, pair->uri, NULL, 0, &pair->client,
			      &pair->client.conn) == 0 &&
	       peer_event(peer, pair, RDMA_CM_EVENT_CONNECT_REQUEST, &peer->id);
}

__attribute__((unused)) static struct verbs_answer peer_answer(uint16_t version)
{
	return (struct verbs_answer){.magic = VERBS_MAGIC, .version = version};
}

__attribute__((unused)) static bool peer_accept(struct peer *peer, struct pair *pair, const void *data, size_t size)
{
	struct rdma_conn_param param = {.private_data = data,
					.private_data_len = (uint8_t)size,
					.responder_resources = 16,
					.initiator_depth = 1,
					.rnr_retry_count = 6};

	(void)pair;
	return peer_equip(peer) && rdma_accept(peer->id, &param) == 0;
}

/* Takes all completions, and counts the successful ones. */
__attribute__((unused)) static void peer_poll(struct peer *peer)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(peer->cq, 1, &wc) == 1) {
		peer->status = wc.status;
		if (wc.status == IBV_WC_SUCCESS) {
			peer->received += wc.wr_id == 1;
			peer->sent += wc.wr_id == 0;
		}
	}
}

/* Posts one request of @size bytes from the start of the peer's memory. */
__attribute__((unused)) static bool peer_post(struct peer *peer, enum ibv_wr_opcode opcode, uint32_t size,
					      struct fabric_remote remote)
{
	struct ibv_sge sge = {.addr = (uintptr_t)peer->memory, .length = size, .lkey = peer->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = remote.address, .rkey = remote.rkey}};
	struct ibv_send_wr *bad;

	return ibv_post_send(peer->id->qp, &wr, &bad) == 0;
}

/* Sends a message in the backend's format. */
__attribute__((unused)) static bool peer_send(struct peer *peer, uint8_t kind, uint16_t credits, const void *data,
					      size_t size)
{
	struct verbs_message message = {.kind = kind, .credits = credits};

	if (size)
		memcpy(message.data, data, size);
	memcpy(peer->memory, &message, sizeof message);
	return peer_post(peer, IBV_WR_SEND, (uint32_t)(VERBS_MESSAGE_HEAD + size), (struct fabric_remote){0});
}

__attribute__((unused)) static bool peer_send_opening(struct peer *peer, uint16_t version)
{
	struct verbs_opening opening = {.magic = VERBS_MAGIC, .version = version};

	return peer_send(peer, VERBS_MESSAGE_OPEN, 0, &opening, sizeof opening);
}

__attribute__((unused)) static void peer_close(struct peer *peer)
{
	if (peer->id && peer->id->qp)
		rdma_destroy_qp(peer->id);
	if (peer->cq)
		ibv_destroy_cq(peer->cq);
	if (peer->mr)
		ibv_dereg_mr(peer->mr);
	if (peer->pd)
		ibv_dealloc_pd(peer->pd);
	if (peer->id)
		rdma_destroy_id(peer->id);
	if (peer->listener)
		rdma_destroy_id(peer->listener);
	rdma_destroy_event_channel(peer->cm);
	munmap(peer->memory, PEER_MEMORY);
}

#endif

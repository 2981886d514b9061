/*
 * verbs_path: the data path of the verbs backend, see verbs.h: posting, completions, messages.
 *
 * Theory of operation. Each request or message that is posted to the send queue has an entry in the ring `sent`. Its
 * wr_id is the index of this entry. A reliable connection completes requests in order (InfiniBand 1.4, 9.4.1), so one
 * completion also covers all requests posted before it. Therefore only these ask for a completion: every read (a
 * thread waits for its page), the last write of a batch, every VERBS_SIGNAL_EVERY-th write, and every message.
 *
 * Errors. The first completion in error names the request that failed. Requests before it have succeeded. Later
 * requests and receives are flushed: they complete with IBV_WC_WR_FLUSH_ERR. Receives may be flushed before the failed
 * request completes. So while requests are in flight, a flushed receive is no reason to end the connection: the reason
 * is in a later completion.
 *
 * iWARP. A device completes a write when it has passed the data to TCP, not when the peer has the data (RFC 5040, 5.5).
 * A read over another connection could then return the old page. Therefore, if a batch ends with a write, a *flush* is
 * posted after it: a read of the first bytes of this write. The peer answers the flush after all earlier writes are in
 * memory, so the flush's completion covers these writes, too. By the standard, a read of 0 bytes would suffice, and
 * would need no right to read. But siw does not handle such a read.
 *
 * Messages and credits. Each side posts VERBS_RECEIVES receive buffers. If a message found no buffer, InfiniBand would
 * retry for a while, and iWARP would end the connection. To prevent this, a side counts the free buffers of the other
 * side as its credits. A message takes one credit, and waits if there is none. Each message also returns credits: it
 * says how many buffers its sender has posted again since its last message. The last credit is reserved for a message
 * that returns credits. Otherwise, both sides could wait for each other.
 */
#include "common/clock.h"
#include "common/format.h"
#include "common/log.h"
#include "fabric/verbs/verbs.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Set in the wr_id of a receive. The low bits are the index of its buffer. */
#define WR_RECEIVE (1ull << 32)

/* --- Memory ------------------------------------------------------------------------------------------------ */

int verbs_path_open(struct verbs_conn *conn)
{
	uint32_t entries = 1;
	size_t sends = VERBS_SENDS * sizeof *conn->sends, receives = VERBS_RECEIVES * sizeof *conn->receives;
	size_t sent, size;
	uint8_t *memory;

	if (conn->memory) /* allocated when an earlier address was tried */
		munmap(conn->memory, conn->memory_size);
	conn->memory = NULL;
	while (entries < verbs_send_entries(conn->channel->device, conn->depth))
		entries *= 2;
	sent = entries * sizeof *conn->sent;
	size = sends + receives + VERBS_FLUSH_SINK + sent + VERBS_RECEIVES * sizeof *conn->received +
	       VERBS_SENDS * sizeof *conn->send_sizes;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	conn->memory = memory;
	conn->memory_size = size;
	conn->sends = (struct verbs_message *)memory;
	conn->receives = (struct verbs_message *)(memory += sends);
	conn->flush_sink = memory += receives;
	conn->sent = (struct verbs_sent *)(memory += VERBS_FLUSH_SINK);
	conn->sent_mask = entries - 1;
	conn->received = (struct verbs_received *)(memory += sent);
	conn->send_sizes = (uint16_t *)(memory + VERBS_RECEIVES * sizeof *conn->received);
	return 0;
}

static int receives_post(struct verbs_conn *conn, const uint16_t *slots, unsigned count)
{
	struct ibv_recv_wr wrs[VERBS_BATCH], *bad;
	struct ibv_sge sges[VERBS_BATCH];

	assert(count <= VERBS_BATCH);
	for (unsigned i = 0; i < count; i++) {
		sges[i] = (struct ibv_sge){.addr = (uintptr_t)&conn->receives[slots[i]],
					   .length = sizeof *conn->receives,
					   .lkey = conn->mr->lkey};
		wrs[i] = (struct ibv_recv_wr){.wr_id = WR_RECEIVE | slots[i],
					      .next = i + 1 < count ? &wrs[i + 1] : NULL,
					      .sg_list = &sges[i],
					      .num_sge = 1};
	}
	return count ? -ibv_post_recv(conn->qp, wrs, &bad) : 0;
}

int verbs_path_start(struct verbs_conn *conn)
{
	uint16_t slots[VERBS_BATCH];
	int status = 0;

	for (unsigned i = 0; i < VERBS_RECEIVES && status == 0; i += VERBS_BATCH) {
		for (unsigned j = 0; j < VERBS_BATCH; j++)
			slots[j] = (uint16_t)(i + j);
		status = receives_post(conn, slots, VERBS_BATCH);
	}
	conn->credits = VERBS_RECEIVES;
	return status;
}

/* --- Failing ----------------------------------------------------------------------------------------------- */

static void fail(struct verbs_conn *conn, int status, int flush)
{
	if (conn->failed)
		return;
	conn->failed = true;
	conn->fail_status = status;
	conn->fail_flush = flush;
}

static int failure_status(const struct verbs_conn *conn, enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_REM_ACCESS_ERR: /* the peer's device has refused address, rkey, length or right */
		return -EACCES;
	case IBV_WC_REM_INV_REQ_ERR:
		return -EPROTO;
	case IBV_WC_RETRY_EXC_ERR:     /* the peer's device does not answer */
	case IBV_WC_RNR_RETRY_EXC_ERR: /* the peer's program posts no buffers */
	case IBV_WC_RESP_TIMEOUT_ERR:
		return -ETIMEDOUT;
	case IBV_WC_WR_FLUSH_ERR:
		return -ECONNRESET;
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_GENERAL_ERR:
		/* With iWARP, a peer that refuses a request or ends the connection just closes the TCP connection. */
		return conn->channel->device->iwarp ? -ECONNRESET : -EIO;
	default: /* IBV_WC_LOC_*: an error of this side; IBV_WC_FATAL_ERR and others: a broken device */
		return -EIO;
	}
}

/* Records that the queue pair is in error for another reason than a request of this side. */
static void fail_flushed(struct verbs_conn *conn)
{
	if (conn->failed)
		return;
	/* If the peer made a forbidden request, an asynchronous event says so. */
	verbs_device_events(conn->channel->device);
	fail(conn, 0, conn->noted.event == IBV_EVENT_QP_ACCESS_ERR + 1 ? -EPROTO : -ECONNRESET);
}

/* Returns the status of the requests posted after the request that failed with @status. */
static int failure_flush(int status)
{
	return status == -ETIMEDOUT ? -ETIMEDOUT : -ECONNRESET;
}

/* Handles a completion in error. IBV_WC_WR_FLUSH_ERR means that something else has failed before. */
static void completion_failed(struct verbs_conn *conn, const struct ibv_wc *wc)
{
	bool receive = wc->wr_id & WR_RECEIVE;
	int status = failure_status(conn, wc->status);

	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		conn->flushed = true;
		if (!receive)
			fail_flushed(conn);
		return;
	}
	if (conn->failed)
		return;
	/* A receive gets these errors after a bad request of the peer to this device. */
	if (receive)
		status = wc->status == IBV_WC_REM_OP_ERR || wc->status == IBV_WC_REM_ACCESS_ERR ? -EPROTO : status;
	if (fabric_may_tell(conn->base.fabric))
		log_warning("%s: %s failed: %s (status %d, vendor's %#x): the connection ends", conn->base.peer,
			    receive ? "a receive" : "a request", ibv_wc_status_str(wc->status), wc->status,
			    wc->vendor_err);
	if (receive) {
		fail(conn, 0, status);
		return;
	}
	/* With iWARP, the requests before the failed one were sent, but may not have arrived. So they fail, too. */
	if (!conn->channel->device->iwarp)
		conn->sent_done = (uint32_t)wc->wr_id;
	if (conn->sent_done != (uint32_t)wc->wr_id)
		status = failure_flush(status);
	fail(conn, status, failure_flush(status));
}

/* --- Completions ------------------------------------------------------------------------------------------- */

static void message_sent(struct verbs_conn *conn)
{
	if (conn->sends[conn->send_head++ % VERBS_SENDS].kind == VERBS_MESSAGE_USER)
		conn->user_messages--;
}

static void sent_advance(struct verbs_conn *conn)
{
	if (conn->sent[conn->sent_done++ & conn->sent_mask].kind == VERBS_SENT_MESSAGE)
		message_sent(conn);
}

/* Handles the completion of the entry @index of `sent`. It also completes all entries before it, with one exception:
   siw completes a message when it is sent, even if earlier reads still wait for their answers. So with iWARP, the
   completion of a message covers no earlier entries. */
static void completion_sent(struct verbs_conn *conn, uint32_t index)
{
	struct verbs_sent *sent = &conn->sent[index & conn->sent_mask];

	if (index - conn->sent_done >= conn->sent_tail - conn->sent_done)
		return;
	sent->completed = true;
	if (sent->kind != VERBS_SENT_MESSAGE || !conn->channel->device->iwarp)
		while (conn->sent_done != index)
			sent_advance(conn);
	while (conn->sent_done != conn->sent_tail && conn->sent[conn->sent_done & conn->sent_mask].completed)
		sent_advance(conn);
}

static void completion_received(struct verbs_conn *conn, const struct ibv_wc *wc)
{
	uint16_t slot = (uint16_t)wc->wr_id;
	const struct verbs_message *message = &conn->receives[slot];

	if (conn->failed)
		return;
	/* Checks the opcode, because an RDMA Write with Immediate also completes a receive, but puts no bytes into
	   its buffer. */
	if (wc->opcode != IBV_WC_RECV || wc->byte_len < VERBS_MESSAGE_HEAD || wc->byte_len > sizeof *message ||
	    message->padding >= VERBS_ALIGN || message->padding > wc->byte_len - VERBS_MESSAGE_HEAD ||
	    le16toh(message->credits) > VERBS_RECEIVES - conn->credits) {
		if (fabric_may_tell(conn->base.fabric))
			log_warning("%s: the connection ends: its message makes no sense", conn->base.peer);
		fail(conn, 0, -EPROTO);
		return;
	}
	conn->nudge_at = 0;
	conn->credits += le16toh(message->credits);
	conn->received[conn->received_tail++ % VERBS_RECEIVES] = (struct verbs_received){
	    .slot = slot, .size = (uint16_t)(wc->byte_len - VERBS_MESSAGE_HEAD - message->padding)};
}

bool verbs_drain(struct verbs_conn *conn)
{
	struct ibv_wc wcs[VERBS_BATCH];
	bool some = false;
	int count;

	do {
		count = ibv_poll_cq(conn->cq, VERBS_BATCH, wcs);
		for (int i = 0; i < count; i++) {
			some = true;
			if (wcs[i].status != IBV_WC_SUCCESS)
				completion_failed(conn, &wcs[i]);
			else if (wcs[i].wr_id & WR_RECEIVE)
				completion_received(conn, &wcs[i]);
			else if (!conn->failed)
				completion_sent(conn, (uint32_t)wcs[i].wr_id);
		}
	} while (count == (int)VERBS_BATCH);
	if (some)
		conn->progress_at = clock_now();
	if (conn->flushed && conn->sent_done == conn->sent_tail)
		fail_flushed(conn);
	if (count < 0 && !conn->failed) {
		log_error("%s: the connection ends: its completions cannot be read", conn->base.peer);
		fail(conn, 0, -EIO);
	}
	return some || count < 0;
}

uint64_t verbs_silent_since(const struct verbs_conn *conn)
{
	uint64_t posted_at = conn->sent[conn->sent_done & conn->sent_mask].posted_at;

	return posted_at > conn->progress_at ? posted_at : conn->progress_at;
}

/* --- Giving ------------------------------------------------------------------------------------------------ */

static void sent_answer(struct verbs_conn *conn, int status, struct backend_events *out)
{
	const struct verbs_sent *sent = &conn->sent[conn->sent_head++ & conn->sent_mask];
	struct fabric_event *event;

	if (sent->kind != VERBS_SENT_OP)
		return;
	conn->ops--;
	event = backend_event(out, FABRIC_DONE, &conn->base);
	event->cookie = sent->cookie;
	event->status = status;
}

static bool messages_deliver(struct verbs_conn *conn, struct backend_events *out)
{
	bool some = false;

	for (; conn->received_head != conn->received_tail && !backend_events_full(out); conn->received_head++) {
		const struct verbs_received *received = &conn->received[conn->received_head % VERBS_RECEIVES];
		const struct verbs_message *message = &conn->receives[received->slot];
		struct fabric_event *event;

		some = true;
		if (message->kind == VERBS_MESSAGE_CREDIT && received->size == 0)
			continue;
		if (message->kind != VERBS_MESSAGE_USER || !received->size) {
			if (!conn->failed && fabric_may_tell(conn->base.fabric))
				log_warning("%s: the connection ends: a message of kind %u has no place here",
					    conn->base.peer, message->kind);
			fail(conn, 0, -EPROTO);
			continue;
		}
		event = backend_event(out, FABRIC_MESSAGE, &conn->base);
		event->data = message->data;
		event->size = received->size;
	}
	return some;
}

bool verbs_deliver(struct verbs_conn *conn, struct backend_events *out)
{
	bool some = false;

	/* The difference is negative after the end, because verbs_deliver_failed() moves sent_head past sent_done. */
	for (; (int32_t)(conn->sent_done - conn->sent_head) > 0 && !backend_events_full(out); some = true)
		sent_answer(conn, 0, out);
	return messages_deliver(conn, out) || some;
}

bool verbs_deliver_failed(struct verbs_conn *conn, struct backend_events *out)
{
	while (conn->sent_head != conn->sent_tail && !backend_events_full(out)) {
		bool first = conn->sent_head == conn->sent_done && conn->fail_status;

		sent_answer(conn, first ? conn->fail_status : conn->flush, out);
	}
	return conn->sent_head == conn->sent_tail;
}

bool verbs_pending(const struct verbs_conn *conn)
{
	return conn->failed || conn->sent_head != conn->sent_done || conn->received_free != conn->received_tail;
}

const char *verbs_take_opening(struct verbs_conn *conn)
{
	const struct verbs_received *received = &conn->received[conn->received_head % VERBS_RECEIVES];
	const struct verbs_message *message = &conn->receives[received->slot];
	struct verbs_opening opening;

	conn->received_head++;
	if (message->kind != VERBS_MESSAGE_OPEN || received->size != sizeof opening)
		return "it is not a farpage donor or client";
	memcpy(&opening, message->data, sizeof opening);
	if (le32toh(opening.magic) != VERBS_MAGIC)
		return "it is not a farpage donor or client";
	return le16toh(opening.version) == VERBS_VERSION ? NULL : "it speaks another version of the fabric's protocol";
}

/* --- Posting ----------------------------------------------------------------------------------------------- */

static struct verbs_sent *sent_take(struct verbs_conn *conn, uint64_t *ret_wr_id)
{
	*ret_wr_id = conn->sent_tail;
	return &conn->sent[conn->sent_tail++ & conn->sent_mask];
}

/* Posts @wrs. The send queue has space for all of them. So a device that refuses a request is broken, and the
   connection fails. */
static void sends_post(struct verbs_conn *conn, struct ibv_send_wr *wrs)
{
	struct ibv_send_wr *bad = NULL;
	int error = ibv_post_send(conn->qp, wrs, &bad);

	if (!error)
		return;
	log_warning("%s: the connection ends: %s takes no request: %s", conn->base.peer, conn->channel->device->name,
		    format_errno(error));
	fail(conn, 0, -EIO);
}

static int op_prepare(struct verbs_conn *conn, const struct fabric_op *op, uint64_t now, struct ibv_sge *sge,
		      struct ibv_send_wr *wr)
{
	struct verbs_sent *sent;
	struct ibv_mr *mr;
	int status = domain_mr((struct fabric_region *)op->region, conn->channel->device, &mr);

	assert(op->length >= 1 && op->length <= FABRIC_OP_MAX && domain_covers(op->region, op->local, op->length));
	if (status < 0)
		return status;
	*sge = (struct ibv_sge){.addr = (uintptr_t)op->local, .length = op->length, .lkey = mr->lkey};
	wr->next = NULL;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->opcode = op->kind == FABRIC_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	wr->wr.rdma.remote_addr = op->remote.address;
	wr->wr.rdma.rkey = op->remote.rkey;
	sent = sent_take(conn, &wr->wr_id);
	*sent = (struct verbs_sent){.cookie = op->cookie, .posted_at = now, .kind = VERBS_SENT_OP};
	wr->send_flags =
	    op->kind == FABRIC_READ || (wr->wr_id % VERBS_SIGNAL_EVERY == 0 && !conn->channel->device->iwarp)
		? (unsigned)IBV_SEND_SIGNALED
		: 0;
	return 0;
}

/* iWARP: prepares a flush, which reads the first bytes of the write @op. */
static void flush_prepare(struct verbs_conn *conn, const struct fabric_op *op, uint64_t now, struct ibv_sge *sge,
			  struct ibv_send_wr *wr)
{
	*sge = (struct ibv_sge){.addr = (uintptr_t)conn->flush_sink,
				.length = op->length < VERBS_ALIGN ? op->length : VERBS_ALIGN,
				.lkey = conn->mr->lkey};
	*wr = (struct ibv_send_wr){.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};
	wr->wr.rdma.remote_addr = op->remote.address;
	wr->wr.rdma.rkey = op->remote.rkey;
	*sent_take(conn, &wr->wr_id) = (struct verbs_sent){.posted_at = now, .kind = VERBS_SENT_FLUSH};
}

/* Posts up to VERBS_BATCH operations. Returns how many were posted. Fewer than @count means that the connection has
   failed. */
static unsigned batch_post(struct verbs_conn *conn, const struct fabric_op *ops, unsigned count, uint64_t now)
{
	struct ibv_send_wr wrs[VERBS_BATCH + 1];
	struct ibv_sge sges[VERBS_BATCH + 1];
	unsigned i, last;

	for (i = 0; i < count; i++) {
		int status = op_prepare(conn, &ops[i], now, &sges[i], &wrs[i]);

		if (status < 0) {
			log_warning("%s: the connection ends: %s does not register memory: %s", conn->base.peer,
				    conn->channel->device->name, format_errno(status));
			fail(conn, 0, -EIO);
			break;
		}
		if (i)
			wrs[i - 1].next = &wrs[i];
	}
	if (!i)
		return 0;
	last = i - 1;
	if (ops[last].kind == FABRIC_WRITE && conn->channel->device->iwarp) {
		flush_prepare(conn, &ops[last], now, &sges[i], &wrs[i]);
		wrs[last++].next = &wrs[i];
	}
	wrs[last].send_flags = IBV_SEND_SIGNALED;
	conn->ops += i;
	sends_post(conn, wrs);
	return i;
}

unsigned verbs_room(const struct fabric_conn *base)
{
	const struct verbs_conn *conn = verbs_conn_of(base);

	return conn->state == VERBS_STATE_ESTABLISHED ? conn->depth - conn->ops : 0;
}

int verbs_post(struct fabric_conn *base, const struct fabric_op *ops, unsigned count)
{
	struct verbs_conn *conn = verbs_conn_of(base);
	unsigned room = verbs_room(base), posted = 0;
	uint64_t now;

	if (conn->state != VERBS_STATE_ESTABLISHED)
		return -ENOTCONN;
	if (count > room)
		count = room;
	if (!count)
		return 0;
	now = clock_now();
	while (posted < count && !conn->failed) {
		unsigned batch = count - posted < VERBS_BATCH ? count - posted : VERBS_BATCH;

		posted += batch_post(conn, ops + posted, batch, now);
	}
	verbs_activate(conn);
	fabric_touch(base->fabric);
	return posted ? (int)posted : -ENOTCONN;
}

/* --- Messages ---------------------------------------------------------------------------------------------- */

static void message_queue(struct verbs_conn *conn, enum verbs_message_kind kind, const void *data, size_t size)
{
	uint32_t slot = conn->send_tail++ % VERBS_SENDS;
	struct verbs_message *message = &conn->sends[slot];

	message->kind = (uint8_t)kind;
	message->padding = (uint8_t)(-size % VERBS_ALIGN);
	if (size)
		memcpy(message->data, data, size);
	memset(message->data + size, 0, message->padding);
	conn->send_sizes[slot] = (uint16_t)(VERBS_MESSAGE_HEAD + size + message->padding);
}

static void message_post(struct verbs_conn *conn, uint64_t now)
{
	uint32_t slot = conn->send_posted++ % VERBS_SENDS;
	struct ibv_sge sge = {
	    .addr = (uintptr_t)&conn->sends[slot], .length = conn->send_sizes[slot], .lkey = conn->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	if (sge.length <= conn->inline_size)
		wr.send_flags |= IBV_SEND_INLINE;
	conn->sends[slot].credits = htole16((uint16_t)conn->owed);
	conn->owed = 0;
	conn->credits--;
	*sent_take(conn, &wr.wr_id) = (struct verbs_sent){.posted_at = now, .kind = VERBS_SENT_MESSAGE};
	sends_post(conn, &wr);
}

/* Returns true if the next message may be sent. A message takes a credit. The last credit is reserved for a message
   that returns at least VERBS_RECEIVES / 2 credits, so that the peer can continue. */
static bool message_may_go(const struct verbs_conn *conn)
{
	return !conn->failed && (conn->credits > 1 || (conn->credits && conn->owed >= VERBS_RECEIVES / 2));
}

static void messages_post(struct verbs_conn *conn)
{
	uint64_t now = clock_now();

	while (conn->send_posted != conn->send_tail && message_may_go(conn))
		message_post(conn, now);
	/* Sends a message that only returns credits, if many are owed. Such messages may occupy at most VERBS_SENDS -
	   VERBS_MESSAGES_MAX buffers, so that enough remain for messages of the user. */
	if (conn->owed < VERBS_RECEIVES / 2 || !message_may_go(conn) || conn->send_posted != conn->send_tail ||
	    conn->send_tail - conn->send_head - conn->user_messages == VERBS_SENDS - VERBS_MESSAGES_MAX)
		return;
	message_queue(conn, VERBS_MESSAGE_CREDIT, NULL, 0);
	message_post(conn, now);
}

int verbs_send(struct fabric_conn *base, const void *message, size_t size)
{
	struct verbs_conn *conn = verbs_conn_of(base);

	if (conn->state != VERBS_STATE_ESTABLISHED)
		return -ENOTCONN;
	if (size < 1 || size > FABRIC_MESSAGE_MAX)
		return -EINVAL;
	if (conn->user_messages == VERBS_MESSAGES_MAX)
		return -ENOBUFS;
	conn->user_messages++;
	message_queue(conn, VERBS_MESSAGE_USER, message, size);
	messages_post(conn);
	verbs_activate(conn);
	fabric_touch(base->fabric);
	return 0;
}

void verbs_send_opening(struct verbs_conn *conn)
{
	const struct verbs_opening opening = {.magic = htole32(VERBS_MAGIC), .version = htole16(VERBS_VERSION)};

	message_queue(conn, VERBS_MESSAGE_OPEN, &opening, sizeof opening);
	messages_post(conn);
}

/* A bug of siw makes nudges necessary. If bytes arrive while the accepting side makes its queue pair ready to receive,
   siw leaves them in the socket until more bytes arrive. If these bytes are the opening message, both sides wait for
   each other. A further message lets siw continue. The first message of the peer stops the nudges. */
void verbs_nudge(struct verbs_conn *conn, uint64_t now)
{
	conn->nudges++;
	conn->nudge_at = conn->nudges < VERBS_NUDGES ? now + (VERBS_NUDGE_NS << conn->nudges) : 0;
	message_queue(conn, VERBS_MESSAGE_CREDIT, NULL, 0);
	messages_post(conn);
	verbs_activate(conn);
}

void verbs_refresh(struct verbs_conn *conn)
{
	while (conn->received_free != conn->received_head) {
		uint16_t slots[VERBS_BATCH];
		unsigned count = 0;
		int status;

		do
			slots[count++] = conn->received[conn->received_free++ % VERBS_RECEIVES].slot;
		while (conn->received_free != conn->received_head && count < VERBS_BATCH);
		status = receives_post(conn, slots, count);
		if (status < 0) {
			fail(conn, 0, status);
			return;
		}
		conn->owed += count;
	}
	if (conn->send_posted != conn->send_tail || conn->owed >= VERBS_RECEIVES / 2)
		messages_post(conn);
}

/*
 * tcp_input: receives and handles frames, see tcp.h.
 *
 * Theory of operation. Each poll calls recv() once to fill the connection's receive buffer, and then handles the
 * frames in it. If the data of the last frame is incomplete, the next recvmsg() puts the rest straight to its
 * destination, and further bytes into the buffer. The data of small answers is copied out of the buffer: for 4 KiB
 * reads at depth 8 to 64, receiving it directly saved no CPU time (within 2 %).
 *
 * If a frame needs an event and the array of events is full, the next poll handles it. Requests of the peer need no
 * event, so they are always served. At most `depth` answers can be in the queue, because the peer may not have more
 * unanswered requests. So a peer that does not read its answers can neither block this side nor use up its memory.
 */
#include "common/clock.h"
#include "common/log.h"
#include "fabric/tcp/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

enum step {
	STEP_ON,    /* handled; continue with the next frame */
	STEP_BYTES, /* the rest of the frame has not arrived yet */
	STEP_ROOM,  /* the array of events is full */
	STEP_ENDED,
};

static void answer_queue(struct tcp_conn *conn, uint32_t sequence, enum tcp_status status)
{
	conn->answering++;
	tcp_queue_frame(conn, (struct tcp_frame){.type = TCP_DONE, .status = status, .sequence = sequence},
			(struct tcp_out){.body = TCP_BODY_NONE});
}

/* --- Data under way --------------------------------------------------------------------------------------- */

static enum step write_refuse(struct tcp_conn *conn, enum domain_refusal refusal)
{
	if (fabric_may_tell(conn->base.fabric))
		log_warning("%s: a write was refused, the connection ends: %s", conn->base.peer,
			    domain_refusal_name(refusal));
	answer_queue(conn, conn->incoming.sequence, TCP_REFUSED);
	tcp_output(conn);
	if (conn->state == TCP_STATE_ESTABLISHED)
		tcp_end(conn, -EPROTO, -EPROTO);
	return STEP_ENDED;
}

static enum step data_place(struct tcp_conn *conn, const void *bytes, uint32_t length)
{
	struct tcp_incoming *incoming = &conn->incoming;
	struct fabric_region *region;
	enum domain_refusal refusal;

	if (incoming->data == TCP_DATA_READ) {
		memcpy((void *)(uintptr_t)incoming->address, bytes, length);
	} else {
		refusal = domain_pin(conn->base.domain, incoming->rkey, incoming->address, length, FABRIC_REMOTE_WRITE,
				     &region);
		if (refusal != DOMAIN_GRANTED)
			return write_refuse(conn, refusal);
		memcpy((void *)(uintptr_t)incoming->address, bytes, length);
		domain_unpin(region);
	}
	incoming->address += length;
	incoming->left -= length;
	return STEP_ON;
}

static void op_answer(struct tcp_conn *conn, struct backend_events *out, int status)
{
	struct fabric_event *event = backend_event(out, FABRIC_DONE, &conn->base);

	event->cookie = conn->ops[conn->op_head++ & conn->op_mask].cookie;
	event->status = status;
}

/* Copies the arrived part of the current frame's data to its destination. Answers the frame when the data is
   complete. */
static enum step data_step(struct tcp_conn *conn, struct backend_events *out)
{
	struct tcp_incoming *incoming = &conn->incoming;
	uint32_t length = conn->receive_tail - conn->receive_head;
	enum step step;

	if (length > incoming->left)
		length = incoming->left;
	if (length) {
		step = data_place(conn, conn->receive + conn->receive_head, length);
		if (step != STEP_ON)
			return step;
		conn->receive_head += length;
	}
	if (incoming->left)
		return STEP_BYTES;
	if (incoming->data == TCP_DATA_READ) {
		if (backend_events_full(out))
			return STEP_ROOM;
		op_answer(conn, out, 0);
	} else {
		answer_queue(conn, incoming->sequence, TCP_GRANTED);
	}
	incoming->data = TCP_DATA_NONE;
	return STEP_ON;
}

/* --- Frames ----------------------------------------------------------------------------------------------- */

static enum step frame_broken(struct tcp_conn *conn, const char *why)
{
	tcp_end_broken(conn, why);
	return STEP_ENDED;
}

static enum step frame_request(struct tcp_conn *conn, const struct tcp_frame *frame)
{
	struct fabric_region *region;
	enum domain_refusal refusal;

	if (frame->sequence != conn->served)
		return frame_broken(conn, "request out of order");
	if (conn->answering == conn->peer_depth)
		return frame_broken(conn, "more requests than agreed");
	conn->served++;
	if (frame->type == TCP_READ) {
		/* batch_frame() checks rkey and range when it sends the answer. */
		conn->answering++;
		fabric_count_read(conn->base.fabric, frame->length);
		tcp_queue_frame(
		    conn, (struct tcp_frame){.type = TCP_DONE, .length = frame->length, .sequence = frame->sequence},
		    (struct tcp_out){.body = TCP_BODY_REGION,
				     .address = frame->address,
				     .length = frame->length,
				     .rkey = frame->rkey});
		return STEP_ON;
	}
	fabric_count_write(conn->base.fabric, frame->length);
	conn->incoming = (struct tcp_incoming){.data = TCP_DATA_WRITE,
					       .left = frame->length,
					       .address = frame->address,
					       .rkey = frame->rkey,
					       .sequence = frame->sequence};
	/* Checks the whole range before the first byte of it is written. */
	refusal =
	    domain_pin(conn->base.domain, frame->rkey, frame->address, frame->length, FABRIC_REMOTE_WRITE, &region);
	if (refusal != DOMAIN_GRANTED)
		return write_refuse(conn, refusal);
	domain_unpin(region);
	return STEP_ON;
}

static enum step frame_done(struct tcp_conn *conn, const struct tcp_frame *frame, struct backend_events *out)
{
	const struct tcp_op *op = &conn->ops[conn->op_head & conn->op_mask];

	if (conn->op_head == conn->op_tail || frame->sequence != conn->op_head)
		return frame_broken(conn, "answer without a request");
	/* After an answer, the caller may reuse the memory. So an answer must not arrive before the request was
	   sent. */
	if (frame->status == TCP_GRANTED && conn->op_head == conn->op_sent)
		return frame_broken(conn, "answer to a request that was not sent yet");
	if (frame->status == TCP_REFUSED) {
		if (backend_events_full(out))
			return STEP_ROOM;
		op_answer(conn, out, -EACCES);
		tcp_end(conn, -EACCES, -ECONNRESET);
		return STEP_ENDED;
	}
	if (frame->length != (op->kind == FABRIC_READ ? op->length : 0))
		return frame_broken(conn, "answer of another length than requested");
	if (op->kind == FABRIC_READ) {
		conn->incoming =
		    (struct tcp_incoming){.data = TCP_DATA_READ, .left = op->length, .address = (uintptr_t)op->local};
		return STEP_ON;
	}
	if (backend_events_full(out))
		return STEP_ROOM;
	op_answer(conn, out, 0);
	return STEP_ON;
}

/* Handles the next frame in the buffer. If data follows its header, handles only the header. */
static enum step frame_step(struct tcp_conn *conn, struct backend_events *out)
{
	uint32_t held = conn->receive_tail - conn->receive_head;
	struct fabric_event *event;
	struct tcp_frame frame;
	const char *why;
	enum step step;

	if (conn->incoming.data != TCP_DATA_NONE)
		return data_step(conn, out);
	if (held < sizeof frame)
		return STEP_BYTES;
	memcpy(&frame, conn->receive + conn->receive_head, sizeof frame);
	frame = tcp_frame_swap(frame);
	why = tcp_frame_check(&frame);
	if (why)
		return frame_broken(conn, why);
	if (frame.type == TCP_MESSAGE) {
		if (held < sizeof frame + frame.length)
			return STEP_BYTES;
		if (backend_events_full(out))
			return STEP_ROOM;
		event = backend_event(out, FABRIC_MESSAGE, &conn->base);
		event->data = conn->receive + conn->receive_head + sizeof frame;
		event->size = frame.length;
		conn->receive_head += (uint32_t)sizeof frame + frame.length;
		return STEP_ON;
	}
	step = frame.type == TCP_DONE ? frame_done(conn, &frame, out) : frame_request(conn, &frame);
	if (step == STEP_ON)
		conn->receive_head += sizeof frame;
	return step;
}

/* --- The socket ------------------------------------------------------------------------------------------- */

/* Returns true if the next bytes are probably the header of a large answer. The caller then receives only this header,
   so that the answer's data is not copied through the buffer. */
static bool large_is_next(const struct tcp_conn *conn)
{
	const struct tcp_op *op = &conn->ops[conn->op_head & conn->op_mask];

	return conn->op_head != conn->op_sent && conn->receive_head == conn->receive_tail && op->kind == FABRIC_READ &&
	       op->length >= TCP_LARGE;
}

/* Calls recv() or recvmsg() once: first fills the destination of the current frame's data, then the buffer. Writes the
   total size of both to *ret_wanted. Returns the number of bytes, 0 at the end of the stream, or -errno. */
static ssize_t receive_bytes(struct tcp_conn *conn, size_t *ret_wanted)
{
	struct tcp_incoming *incoming = &conn->incoming;
	struct fabric_region *region = NULL;
	struct iovec iovecs[2];
	struct msghdr message = {.msg_iov = iovecs, .msg_iovlen = 2};
	ssize_t received;

	iovecs[1].iov_base = conn->receive + conn->receive_tail;
	iovecs[1].iov_len = TCP_RECEIVE_SIZE - conn->receive_tail;
	if (incoming->data == TCP_DATA_NONE) {
		if (large_is_next(conn) && iovecs[1].iov_len > sizeof(struct tcp_frame))
			iovecs[1].iov_len = sizeof(struct tcp_frame);
		*ret_wanted = iovecs[1].iov_len;
		received = recv(conn->source.fd, iovecs[1].iov_base, iovecs[1].iov_len, MSG_DONTWAIT);
		return received < 0 ? -errno : received;
	}
	if (incoming->data == TCP_DATA_WRITE) {
		enum domain_refusal refusal = domain_pin(conn->base.domain, incoming->rkey, incoming->address,
							 incoming->left, FABRIC_REMOTE_WRITE, &region);

		if (refusal != DOMAIN_GRANTED) {
			write_refuse(conn, refusal);
			return -EACCES;
		}
	}
	iovecs[0].iov_base = (void *)(uintptr_t)incoming->address;
	iovecs[0].iov_len = incoming->left;
	*ret_wanted = iovecs[0].iov_len + iovecs[1].iov_len;
	received = recvmsg(conn->source.fd, &message, MSG_DONTWAIT);
	if (received < 0)
		received = -errno;
	if (region)
		domain_unpin(region);
	return received;
}

static void receive_count(struct tcp_conn *conn, size_t received)
{
	struct tcp_incoming *incoming = &conn->incoming;
	uint32_t direct = 0;

	if (incoming->data != TCP_DATA_NONE) {
		direct = received < incoming->left ? (uint32_t)received : incoming->left;
		incoming->address += direct;
		incoming->left -= direct;
	}
	conn->receive_tail += (uint32_t)received - direct;
}

/* Moves the unread bytes to the beginning of the buffer, if the space after them is short. This invalidates the
   messages in the last poll's events. */
static void receive_compact(struct tcp_conn *conn)
{
	uint32_t held = conn->receive_tail - conn->receive_head;

	if (held && TCP_RECEIVE_SIZE - conn->receive_tail >= TCP_RECEIVE_SIZE / 2)
		return;
	memmove(conn->receive, conn->receive + conn->receive_head, held);
	conn->receive_head = 0;
	conn->receive_tail = held;
}

static enum step frames_handle(struct tcp_conn *conn, struct backend_events *out)
{
	enum step step;

	do {
		step = frame_step(conn, out);
	} while (step == STEP_ON);
	return step;
}

/* Returns false if no bytes have arrived or the connection has ended. */
static bool receive(struct tcp_conn *conn)
{
	size_t wanted = 0;
	ssize_t received = receive_bytes(conn, &wanted);

	if (conn->state != TCP_STATE_ESTABLISHED)
		return false;
	if (received > 0) {
		conn->more = (size_t)received == wanted;
		receive_count(conn, (size_t)received);
		return true;
	}
	if (received == -EINTR)
		return false;
	conn->more = false;
	if (received == -EAGAIN && !conn->send_error)
		return false;
	if (received == -EAGAIN)
		received = conn->send_error;
	if (received == 0 || received == -EPIPE)
		received = -ECONNRESET;
	tcp_end(conn, (int)received, (int)received);
	return false;
}

static bool input_handle(struct tcp_conn *conn, struct backend_events *out)
{
	uint32_t before = out->count;
	enum step step;

	receive_compact(conn);
	step = conn->receive_head == conn->receive_tail && conn->incoming.left ? STEP_BYTES : frames_handle(conn, out);
	if (step == STEP_BYTES && conn->incoming.data == TCP_DATA_NONE && conn->receive_tail == TCP_RECEIVE_SIZE) {
		conn->more = true; /* the buffer has no space until the next poll moves its bytes */
	} else if (step == STEP_BYTES) {
		if (!receive(conn))
			return out->count != before || conn->state != TCP_STATE_ESTABLISHED;
		step = frames_handle(conn, out);
	}
	if (step == STEP_ROOM)
		conn->more = true;
	return true;
}

bool tcp_input(struct tcp_conn *conn, struct backend_events *out)
{
	uint32_t head = conn->op_head;
	bool something = input_handle(conn, out);

	if (conn->op_head != head && conn->op_head != conn->op_tail)
		conn->progress_at = clock_now();
	return something;
}

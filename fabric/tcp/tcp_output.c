/*
 * tcp_output: sends the queue of frames, see tcp.h.
 *
 * Theory of operation. One sendmsg() sends as many frames as the socket accepts. The backend copies no data: the data
 * that the peer reads is sent straight from the registered memory, and the data that this side writes straight from the
 * caller's memory. Each region is pinned only during this call. If the socket does not accept all frames, the next call
 * pins the regions of the unsent frames again. If a region has been deregistered in the meantime, the connection ends,
 * as if the peer had used an unknown rkey.
 */
#include "common/log.h"
#include "fabric/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <sys/uio.h>

#define IOVECS_MAX 128

struct batch {
	struct iovec iovecs[IOVECS_MAX];
	struct fabric_region *pinned[IOVECS_MAX];
	unsigned iovec_count, pinned_count;
	size_t bytes;
	/* An answer was replaced by a refusal, and all later frames were dropped. The connection ends after this
	   call. */
	bool cut;
};

void tcp_queue_frame(struct tcp_conn *conn, struct tcp_frame frame, struct tcp_out out)
{
	struct tcp_queue *queue = &conn->queue;
	uint32_t slot = queue->tail & queue->mask;

	assert(queue->tail - queue->head <= queue->mask);
	queue->frames[slot] = tcp_frame_swap(frame);
	queue->outs[slot] = out;
	queue->tail++;
}

static void batch_add(struct batch *batch, const void *base, size_t length)
{
	struct iovec *last = batch->iovec_count ? &batch->iovecs[batch->iovec_count - 1] : NULL;

	if (last && (const char *)last->iov_base + last->iov_len == base)
		last->iov_len += length;
	else
		batch->iovecs[batch->iovec_count++] = (struct iovec){.iov_base = (void *)base, .iov_len = length};
	batch->bytes += length;
}

/* Replaces the answer at @index by a refusal, because its data cannot be accessed. Drops all later frames. */
static void answer_refuse(struct tcp_conn *conn, uint32_t index, const char *why)
{
	struct tcp_queue *queue = &conn->queue;
	struct tcp_frame *frame = &queue->frames[index & queue->mask];

	if (fabric_may_tell(conn->base.fabric))
		log_warning("%s: a read was refused, the connection ends: %s", conn->base.peer, why);
	*frame = tcp_frame_swap(
	    (struct tcp_frame){.type = TCP_DONE, .status = TCP_REFUSED, .sequence = tcp_frame_swap(*frame).sequence});
	queue->outs[index & queue->mask] = (struct tcp_out){.body = TCP_BODY_NONE};
	queue->tail = index + 1;
}

/* Adds the frame at @index to the batch, without its first @skip bytes, which were sent already. Returns false if the
   rest of its data can no longer be accessed. */
static bool batch_frame(struct batch *batch, struct tcp_conn *conn, uint32_t index, uint32_t skip)
{
	struct tcp_queue *queue = &conn->queue;
	const struct tcp_frame *frame = &queue->frames[index & queue->mask];
	const struct tcp_out *out = &queue->outs[index & queue->mask];
	uint32_t header = skip < sizeof *frame ? (uint32_t)sizeof *frame - skip : 0;
	uint32_t offset = header ? 0 : skip - (uint32_t)sizeof *frame;
	enum domain_refusal refusal;

	if (out->body == TCP_BODY_REGION) {
		refusal = domain_pin(conn->base.domain, out->rkey, out->address + offset, out->length - offset,
				     FABRIC_REMOTE_READ, &batch->pinned[batch->pinned_count]);
		if (refusal != DOMAIN_GRANTED) {
			batch->cut = true;
			if (skip)
				return false;
			answer_refuse(conn, index, domain_refusal_name(refusal));
		} else {
			batch->pinned_count++;
		}
	}
	if (header)
		batch_add(batch, (const char *)frame + skip, header);
	if (out->body != TCP_BODY_NONE)
		batch_add(batch, (const void *)(uintptr_t)(out->address + offset), out->length - offset);
	return true;
}

static bool batch_fill(struct batch *batch, struct tcp_conn *conn)
{
	struct tcp_queue *queue = &conn->queue;
	uint32_t skip = queue->sent;

	batch->iovec_count = batch->pinned_count = 0;
	batch->bytes = 0;
	batch->cut = false;
	for (uint32_t index = queue->head; index != queue->tail && batch->iovec_count + 2 <= IOVECS_MAX; index++) {
		if (!batch_frame(batch, conn, index, skip))
			return false;
		skip = 0;
	}
	return true;
}

static ssize_t batch_send(struct batch *batch, int fd)
{
	struct msghdr message = {.msg_iov = batch->iovecs, .msg_iovlen = batch->iovec_count};
	ssize_t sent;

	do {
		if (batch->iovec_count == 1)
			sent =
			    send(fd, batch->iovecs[0].iov_base, batch->iovecs[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0)
		sent = -errno;
	for (unsigned i = 0; i < batch->pinned_count; i++)
		domain_unpin(batch->pinned[i]);
	return sent;
}

static void queue_advance(struct tcp_conn *conn, size_t sent)
{
	struct tcp_queue *queue = &conn->queue;

	sent += queue->sent;
	while (queue->head != queue->tail) {
		uint32_t slot = queue->head & queue->mask;
		size_t size = sizeof *queue->frames + queue->outs[slot].length;

		if (sent < size)
			break;
		sent -= size;
		switch (queue->frames[slot].type) {
		case TCP_MESSAGE:
			conn->message_head++;
			break;
		case TCP_DONE:
			conn->answering--;
			break;
		default:
			conn->op_sent++;
		}
		queue->head++;
	}
	queue->sent = (uint32_t)sent;
}

void tcp_output(struct tcp_conn *conn)
{
	struct batch batch;
	ssize_t sent;

	while (conn->queue.head != conn->queue.tail && !conn->send_error) {
		if (!batch_fill(&batch, conn)) {
			for (unsigned i = 0; i < batch.pinned_count; i++)
				domain_unpin(batch.pinned[i]);
			tcp_end_broken(conn, "a region was deregistered while it was read");
			return;
		}
		sent = batch_send(&batch, conn->source.fd);
		if (batch.cut) {
			tcp_end(conn, -EPROTO, -EPROTO);
			return;
		}
		if (sent == -EAGAIN) {
			conn->blocked = true;
			return;
		}
		if (sent < 0) {
			/* Does not end the connection yet, because input that the peer sent earlier may contain the
			   reason. */
			conn->send_error = (int)sent;
			conn->more = true;
			tcp_activate(conn);
			return;
		}
		queue_advance(conn, (size_t)sent);
		if ((size_t)sent < batch.bytes) {
			conn->blocked = true;
			return;
		}
	}
}

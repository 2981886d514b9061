/*
 * verbs: the structs and functions that the files of the verbs backend share. The theory of operation is in verbs.c.
 * Each file calls only files below it in this list:
 *
 *     verbs.c            the table of operations, polling, arming, deadlines
 *     verbs_setup.c      connecting and accepting through the RDMA connection manager (CM)
 *     verbs_listen.c     listening
 *     verbs_end.c        ending connections
 *     verbs_resources.c  a connection's resources on its device: queue pair, completion queue, message buffers
 *     verbs_channel.c    a fabric's use of one device: the descriptors that report its events
 *     verbs_path.c       the data path: posting, completions, messages
 *     verbs_conn.c       a connection's state and lists
 *     domain.c           protection domains and registrations
 *     verbs_device.c     the devices of this process
 */
#ifndef FABRIC_VERBS_H
#define FABRIC_VERBS_H

#include "fabric/address.h"
#include "fabric/backend.h"
#include "fabric/domain.h"
#include "fabric/verbs/verbs_device.h"

#include <rdma/rdma_cma.h>
#include <sys/queue.h>

/* Receive buffers of a connection. The peer may send this many messages before this side returns credits to it. */
#define VERBS_RECEIVES 64u
/* The most messages of fabric_send() that are not completed yet, per connection. */
#define VERBS_MESSAGES_MAX 32u
/* Buffers for outgoing messages of a connection: messages of fabric_send(), and the backend's own messages. */
#define VERBS_SENDS 64u
/* The most connections per fabric that the user has not accepted or rejected yet. Further ones are rejected at
   once. */
#define VERBS_ARRIVING_MAX 256u
/* A connection with no operation in flight stops being active after this many polls without a completion. */
#define VERBS_IDLE_POLLS 256u
/* Most writes ask for no completion, because a later completion covers them. Only two kinds of writes ask: the last
   write of a batch, and a write whose index in the send queue is a multiple of this. */
#define VERBS_SIGNAL_EVERY 16u
/* iWARP: size of the buffer that receives the data of flushes, which nobody uses (verbs_path.c). */
#define VERBS_FLUSH_SINK 64u
/* iWARP: if the peer's first message has not arrived after this delay, verbs_nudge() nudges the peer, up to
   VERBS_NUDGES times. The delay doubles each time. */
#define VERBS_NUDGE_NS (10 * 1000000ull)
#define VERBS_NUDGES 7u
/* The most completions read, and requests posted, by one call of libibverbs. */
#define VERBS_BATCH 32u

enum verbs_state {
	VERBS_STATE_RESOLVING,  /* rdma_resolve_addr() is finding the device of the address */
	VERBS_STATE_ROUTING,    /* rdma_resolve_route() is finding the route */
	VERBS_STATE_CONNECTING, /* rdma_connect() is waiting for the peer */
	VERBS_STATE_REQUESTED,  /* the user must call fabric_accept() or fabric_reject() */
	VERBS_STATE_ACCEPTING,  /* rdma_accept() was called; waits for the peer's opening message */
	VERBS_STATE_ESTABLISHED,
	VERBS_STATE_ENDING, /* the queue pair is destroyed; some events are still to be reported */
	VERBS_STATE_ENDED,  /* all events were reported; the user must call fabric_disconnect() */
	VERBS_STATE_COUNT
};

/* --- On the wire ------------------------------------------------------------------------------------------- */

#define VERBS_MAGIC 0x42525046u /* "FPRB" */
#define VERBS_VERSION 1

/* The private data of an accept or a reject. The CM pads private data with zeroes, so `private_size` says how many
   bytes the user has sent. A connect has no such struct, because the CM has space for the user's bytes only. */
struct verbs_answer {
	uint32_t magic;
	uint16_t version;
	uint16_t private_size;
	uint8_t private_data[FABRIC_PRIVATE_MAX];
};
_Static_assert(sizeof(struct verbs_answer) == 64, "no padding");

enum verbs_message_kind {
	VERBS_MESSAGE_OPEN = 1, /* the connecting side's first message: magic and version */
	VERBS_MESSAGE_USER,     /* a message of fabric_send() */
	VERBS_MESSAGE_CREDIT,   /* no data, only credits */
};
/* iWARP pads messages to a multiple of this size. siw has a bug there: if it has to pad, it sometimes misreads the
   bytes that follow. Therefore the backend pads messages itself. */
#define VERBS_ALIGN 4u
struct verbs_message {
	uint8_t kind;
	uint8_t padding;  /* bytes added after the data, so that the size is a multiple of VERBS_ALIGN */
	uint16_t credits; /* receive buffers that the sender has freed since its last message */
	uint8_t data[FABRIC_MESSAGE_MAX];
};
#define VERBS_MESSAGE_HEAD offsetof(struct verbs_message, data)
_Static_assert(offsetof(struct verbs_message, data) == 4, "no padding");

struct verbs_opening {
	uint32_t magic;
	uint16_t version;
	uint16_t zero;
};
_Static_assert(sizeof(struct verbs_opening) == 8, "no padding");

/* --- Structures -------------------------------------------------------------------------------------------- */

/* A request or message in the send queue that has not been answered yet. */
enum verbs_sent_kind { VERBS_SENT_OP, VERBS_SENT_MESSAGE, VERBS_SENT_FLUSH };
struct verbs_sent {
	uint64_t cookie;
	uint64_t posted_at; /* ns */
	enum verbs_sent_kind kind;
	bool completed;
};

struct verbs_received {
	uint16_t slot;
	uint16_t size;
};

struct verbs_channel {
	TAILQ_ENTRY(verbs_channel) link;
	struct verbs *verbs;
	struct verbs_device *device; /* the channel has called verbs_device_get() for it */
	struct ibv_comp_channel *completions;
	struct poller_source completions_source, async_source, keeper_source, lost_source;
	bool completed; /* completion events are waiting to be read */
	unsigned conns;
};

struct verbs_conn {
	struct verbs_noted noted;
	struct fabric_conn base;
	struct verbs *verbs;
	struct verbs_listener *listener; /* REQUESTED: the listener that received the request */
	enum verbs_state state;
	TAILQ_ENTRY(verbs_conn) link;        /* in `conns` or in `gone` */
	TAILQ_ENTRY(verbs_conn) active_link; /* in `active` */
	bool active;
	bool announce; /* FABRIC_CONNECT_REQUEST or FABRIC_ESTABLISHED must be reported */
	bool rejected; /* ENDING: `theirs` has the private data of a reject */
	unsigned idle; /* polls in a row without a completion */
	int status;
	int flush; /* ENDING: the status of operations that were in flight */
	/* Deadline for being established; while connecting, for the current address only. */
	uint64_t deadline;
	uint64_t connect_until; /* while connecting: deadline for all addresses */
	uint64_t nudge_at;      /* ESTABLISHED: when to nudge the peer, or 0 for never */
	unsigned nudges;
	struct rdma_cm_id *id;         /* NULL after the end */
	bool dialing;                  /* rdma_connect() was called, and the CM has not reported its result yet */
	struct verbs_channel *channel; /* NULL before the connection has a device, and after its end */

	/* Set-up: */
	struct sockaddr_storage addresses[ADDRESS_MAX];
	unsigned address_count, address_next;
	unsigned ports_tried; /* local ports that rdma_connect() found in use */
	uint8_t ours[FABRIC_PRIVATE_MAX], theirs[FABRIC_PRIVATE_MAX];
	size_t ours_size, theirs_size;
	/* REQUESTED: how many RDMA Reads at a time the peer can answer, and how many it wants to start */
	unsigned their_initiator, their_responder;

	/* The queue pair: */
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* owned by `id`; NULL if there is none */
	struct ibv_mr *mr; /* covers the message buffers and the flush sink */
	void *flush_sink;  /* iWARP: VERBS_FLUSH_SINK bytes that receive the data of flushes */
	uint32_t inline_size;
	unsigned cq_events; /* completion events that were read but not acknowledged yet */
	bool armed;         /* the device will report the next completion by an event */

	/* These are in one mapping: */
	void *memory;
	size_t memory_size;
	unsigned depth;
	struct verbs_sent *sent; /* a ring */
	uint32_t sent_mask;
	uint32_t sent_head; /* entries answered to the user; free-running, as all indexes here */
	uint32_t sent_done; /* entries that the device has completed */
	uint32_t sent_tail; /* entries posted to the device */
	unsigned ops;
	uint64_t progress_at; /* when a completion was last read, ns */
	bool flushed;         /* a request or receive was flushed, so the queue pair is in the error state */
	bool failed;          /* the queue pair is in error, and the next two fields have the reason */
	int fail_status;      /* the status of the entry at sent_done if this entry caused the error, or 0 */
	int fail_flush;       /* the status of the entries after it */

	struct verbs_message *sends; /* VERBS_SENDS slots */
	uint16_t *send_sizes;
	uint32_t send_head, send_posted, send_tail;
	unsigned user_messages; /* messages of fabric_send() in `sends` */
	unsigned credits;       /* number of messages that this side may send, because the peer has buffers for them */

	struct verbs_message *receives;  /* VERBS_RECEIVES buffers */
	struct verbs_received *received; /* a ring of VERBS_RECEIVES */
	/* The user has got the messages from received_free to received_head. The next poll posts their buffers
	   again. */
	uint32_t received_free;
	uint32_t received_head, received_tail;
	unsigned owed; /* credits not yet returned to the peer */
};

/* The resources of an iWARP connection that ended before the CM has reported the result of rdma_connect(). Destroying
   the id or the queue pair earlier would block this thread, with siw for up to 10 s. So the backend destroys them when
   the CM reports the result. */
struct verbs_parked {
	TAILQ_ENTRY(verbs_parked) link;
	struct verbs_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	void *memory;
	size_t memory_size;
};

struct verbs_listener {
	struct fabric_listener base;
	struct verbs *verbs;
	TAILQ_ENTRY(verbs_listener) link;
	struct sockaddr_storage address;
	struct rdma_cm_id *id; /* NULL if the device was removed; then again_at is when to listen again */
	uint64_t again_at;
};

struct verbs {
	struct fabric *fabric;
	struct rdma_event_channel *cm;
	struct poller_source cm_source;
	bool cm_ready;
	TAILQ_HEAD(, verbs_channel) channels;
	TAILQ_HEAD(, verbs_conn) conns;
	TAILQ_HEAD(, verbs_conn) active;
	/* Disconnected connections. The next poll frees them: until then, the user's events may point into their
	   buffers. */
	TAILQ_HEAD(, verbs_conn) gone;
	TAILQ_HEAD(, verbs_listener) listeners;
	TAILQ_HEAD(, verbs_parked) parked;
	unsigned active_count, arriving;
	bool completed; /* some channel has `completed` set */
	bool lost;      /* the device of some channel was removed */
	bool ready;     /* the next poll can make progress at once */
	/* Until this time (ns), verbs_disconnect() waits only FLUSH_SHORT_NS for last messages. */
	uint64_t flush_vain_until;
};

static inline struct verbs_conn *verbs_conn_of(const struct fabric_conn *conn)
{
	return (struct verbs_conn *)((char *)conn - offsetof(struct verbs_conn, base));
}

static inline unsigned verbs_least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Returns how many send queue entries a connection with @depth operations needs. With iWARP, each operation may be
   followed by a flush. */
static inline unsigned verbs_send_entries(const struct verbs_device *device, unsigned depth)
{
	return depth * (device->iwarp ? 2 : 1) + VERBS_SENDS;
}

/* verbs_setup.c */
/* Must be called when the deadline of a connecting connection has passed. Tries the next address. */
void verbs_connect_expire(struct verbs_conn *conn);
int verbs_connect(void *state, struct fabric_domain *domain, const struct uri *uri, const void *private_data,
		  size_t private_size, struct fabric_conn **ret_conn);
int verbs_accept(struct fabric_conn *base);
void verbs_reject(struct fabric_conn *base, const void *private_data, size_t private_size);
/* Handles events of the CM. Returns true if there were any. */
bool verbs_cm_poll(struct verbs *verbs);

/* verbs_listen.c */
int verbs_listen(void *state, const struct uri *uri, struct fabric_listener **ret_listener);
void verbs_listener_close(struct verbs_listener *listener);
/* Returns the listener of @id, or NULL if @id belongs to a connection. */
struct verbs_listener *verbs_listener_find(struct verbs *verbs, const struct rdma_cm_id *id);
void verbs_listener_event(struct verbs_listener *listener, enum rdma_cm_event_type kind);
uint64_t verbs_listeners_deadline(const struct verbs *verbs);
void verbs_listeners_expire(struct verbs *verbs, uint64_t now);

/* verbs_end.c */
/* Destroys the queue pair, so that the peer can no longer access memory through it, and enters ENDING. The next polls
   report operations that have completed with their own status, the others with @flush, and then FABRIC_DISCONNECTED
   with @status. */
void verbs_end(struct verbs_conn *conn, int status, int flush);
/* Ends the connection because the peer has closed it, or because the device was removed. */
void verbs_end_lost(struct verbs_conn *conn, int status);
/* Implements fabric_disconnect(). */
void verbs_disconnect(struct fabric_conn *base);

/* verbs_resources.c */
/* Makes all resources of a connection that the CM has bound to a device. Returns 0. On error, logs a line and returns
   -errno; verbs_shut() then frees the resources that were made. */
int verbs_equip(struct verbs_conn *conn);
/* Destroys the queue pair, the resources and the id. Each may be missing. */
void verbs_shut(struct verbs_conn *conn);
/* Frees parked resources. May block if the CM has not reported a result: see struct verbs_parked. */
void verbs_parked_free(struct verbs_parked *parked);

/* verbs_channel.c */
/* Finds or opens this fabric's channel for the device of @id, and counts one more connection. Returns 0 or -errno. */
int verbs_channel_get(struct verbs *verbs, struct rdma_cm_id *id, struct verbs_channel **ret_channel);
/* Must be called when a connection has no resources on the device any more. Counts one connection less. */
void verbs_channel_leave(struct verbs_channel *channel);
void verbs_channel_arm(struct verbs_channel *channel);
void verbs_channel_close(struct verbs_channel *channel);
/* Reads completion events and activates the connections that have completions. */
void verbs_channels_poll(struct verbs *verbs);
/* Closes the channels of removed devices. Their connections must have ended. */
void verbs_channels_sweep(struct verbs *verbs);

/* verbs_path.c */
/* Maps the rings and buffers. The connection's depth must be set. Returns 0 or -ENOMEM. */
int verbs_path_open(struct verbs_conn *conn);
/* Posts all receive buffers. Returns 0 or -errno. */
int verbs_path_start(struct verbs_conn *conn);
int verbs_post(struct fabric_conn *base, const struct fabric_op *ops, unsigned count);
unsigned verbs_room(const struct fabric_conn *base);
int verbs_send(struct fabric_conn *base, const void *message, size_t size);
void verbs_send_opening(struct verbs_conn *conn);
/* Must be called when nudge_at has passed. Sends the peer an empty message (verbs_path.c says why). */
void verbs_nudge(struct verbs_conn *conn, uint64_t now);
/* Reads completions and updates the rings. If a request has failed, sets `failed`. Returns true if there were
   completions. */
bool verbs_drain(struct verbs_conn *conn);
/* Returns the time of the last completion, or of the oldest uncompleted post, whichever is later. Each completion
   restarts the time, because a deep queue of long requests may take longer than io_ms in total. */
uint64_t verbs_silent_since(const struct verbs_conn *conn);
/* Removes the first received message. Returns NULL if it is a valid opening message, or a text for the log that says
   what is wrong. */
const char *verbs_take_opening(struct verbs_conn *conn);
/* Writes events for completed operations and received messages, until the array is full. Returns true if it wrote an
   event. */
bool verbs_deliver(struct verbs_conn *conn, struct backend_events *out);
/* Writes events for failed operations, until the array is full. Returns true if all operations have been answered. */
bool verbs_deliver_failed(struct verbs_conn *conn, struct backend_events *out);
/* Posts the receive buffers of messages that the last poll has reported. Sends messages that have waited for
   credits. */
void verbs_refresh(struct verbs_conn *conn);
/* Returns true if verbs_deliver() has something to report. */
bool verbs_pending(const struct verbs_conn *conn);

/* verbs_conn.c */
void verbs_state_set(struct verbs_conn *conn, enum verbs_state state);
void verbs_activate(struct verbs_conn *conn);
void verbs_deactivate(struct verbs_conn *conn);
/* Allocates a connection, in no list. Returns NULL if there is no memory. */
struct verbs_conn *verbs_conn_new(struct verbs *verbs, enum verbs_state state);
void verbs_conn_list(struct verbs_conn *conn);
/* The connection must have ended, and must be in no list. */
void verbs_conn_free(struct verbs_conn *conn);

#endif

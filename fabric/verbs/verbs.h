/*
 * verbs: the structs and functions that the parts of the verbs backend share. The theory of operation is in verbs.c.
 * Each file calls only files below it in this list:
 *     verbs.c            the table of operations, polling, arming, deadlines
 *     verbs_setup.c      connecting and accepting through the RDMA CM
 *     verbs_listen.c     listening
 *     verbs_end.c        ending connections
 *     verbs_resources.c  a connection's resources on its device: queue pair, completion queue, message buffers
 *     verbs_channel.c    a fabric's part on a device
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

/* Receive buffers of a connection: the most messages that a peer may send before it gets credits back. */
#define VERBS_RECEIVES 64u
/* The most messages of the user that may be accepted and not yet completed. */
#define VERBS_MESSAGES_MAX 32u
/* Slots for outgoing messages, the user's and the backend's own. */
#define VERBS_SENDS 64u
/* The most connect requests per fabric that wait for the user's decision. Further ones are rejected at once. */
#define VERBS_ARRIVING_MAX 256u
/* The number of empty polls after which a connection is no longer active. */
#define VERBS_IDLE_POLLS 256u
/* A write asks for a completion if it ends a batch, and if its number is a multiple of this. */
#define VERBS_SIGNAL_EVERY 16u
/* iWARP: size of the buffer that flushes read into. */
#define VERBS_FLUSH_SINK 64u
/* iWARP: the delay after connecting until a silent peer is nudged, and the most nudges. The delay doubles each time. */
#define VERBS_NUDGE_NS (10 * 1000000ull)
#define VERBS_NUDGES 7u
/* The most completions taken, and requests posted, at once. */
#define VERBS_BATCH 32u

enum verbs_state {
	VERBS_STATE_RESOLVING,  /* rdma_resolve_addr() looks for the device */
	VERBS_STATE_ROUTING,    /* rdma_resolve_route() is under way */
	VERBS_STATE_CONNECTING, /* rdma_connect() is under way */
	VERBS_STATE_REQUESTED,  /* the user must call fabric_accept() or fabric_reject() */
	VERBS_STATE_ACCEPTING,  /* rdma_accept() was called, the peer's opening message is awaited */
	VERBS_STATE_ESTABLISHED,
	VERBS_STATE_ENDING, /* queue pair destroyed; answers and FABRIC_DISCONNECTED are still due */
	VERBS_STATE_ENDED,  /* all events were given; waits for fabric_disconnect() */
	VERBS_STATE_COUNT
};

/* --- On the wire ------------------------------------------------------------------------------------------- */

#define VERBS_MAGIC 0x42525046u /* "FPRB" */
#define VERBS_VERSION 1

/*
 * The private data of an accept or a reject. It holds its own size, because the CM pads private data with zeroes. The
 * private data of a connect has no struct of ours, because the CM has no room for more than the user's data.
 */
struct verbs_answer {
	uint32_t magic;
	uint16_t version;
	uint16_t private_size;
	uint8_t private_data[FABRIC_PRIVATE_MAX];
};
_Static_assert(sizeof(struct verbs_answer) == 64, "no padding");

enum verbs_message_kind {
	VERBS_MESSAGE_OPEN = 1, /* the first message of the connecting side: magic and version */
	VERBS_MESSAGE_USER,     /* a message of fabric_send() */
	VERBS_MESSAGE_CREDIT,   /* only credits */
};
/* iWARP pads messages to a multiple of this. If siw has to pad, it sometimes loses its place in the stream. So the
   backend pads messages itself. */
#define VERBS_ALIGN 4u
struct verbs_message {
	uint8_t kind;
	uint8_t padding;  /* bytes behind the data, up to a multiple of VERBS_ALIGN */
	uint16_t credits; /* receive buffers freed since the last message */
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

/* An entry of the send queue that has not been answered yet. */
enum verbs_sent_kind { VERBS_SENT_OP, VERBS_SENT_MESSAGE, VERBS_SENT_FLUSH };
struct verbs_sent {
	uint64_t cookie;
	uint64_t posted_at; /* ns */
	enum verbs_sent_kind kind;
	bool completed;
};

/* A received message: its buffer and size. */
struct verbs_received {
	uint16_t slot;
	uint16_t size;
};

/* A fabric's part on a device. */
struct verbs_channel {
	TAILQ_ENTRY(verbs_channel) link;
	struct verbs *verbs;
	struct verbs_device *device; /* held */
	struct ibv_comp_channel *completions;
	struct poller_source completions_source, async_source, keeper_source, lost_source;
	bool completed; /* the poller reported completions */
	unsigned conns; /* connections that use it */
};

struct verbs_conn {
	struct verbs_noted noted;
	struct fabric_conn base;
	struct verbs *verbs;
	struct verbs_listener *listener; /* REQUESTED */
	enum verbs_state state;
	TAILQ_ENTRY(verbs_conn) link;        /* in `conns` or in `gone` */
	TAILQ_ENTRY(verbs_conn) active_link; /* in `active` */
	bool active;
	bool announce;                 /* CONNECT_REQUEST or ESTABLISHED is due */
	bool rejected;                 /* ENDING: `theirs` holds the reject's private data */
	unsigned idle;                 /* polls in a row that found nothing */
	int status;                    /* ENDING: the status of FABRIC_DISCONNECTED */
	int flush;                     /* ENDING: the status of operations in flight */
	uint64_t deadline;             /* the deadline of the set-up, or, while connecting, of this address */
	uint64_t connect_until;        /* while connecting: the deadline of all addresses */
	uint64_t nudge_at;             /* ESTABLISHED: when to nudge the peer next, or 0 for never */
	unsigned nudges;               /* number of nudges sent */
	struct rdma_cm_id *id;         /* NULL once ended */
	bool dialing;                  /* no event of the CM has come since rdma_connect() */
	struct verbs_channel *channel; /* NULL before the connection has one, and after its end */

	/* Set-up: */
	struct sockaddr_storage addresses[ADDRESS_MAX];
	unsigned address_count, address_next;
	unsigned ports_tried; /* number of local ports that were in use */
	uint8_t ours[FABRIC_PRIVATE_MAX], theirs[FABRIC_PRIVATE_MAX];
	size_t ours_size, theirs_size;
	unsigned their_initiator, their_responder; /* REQUESTED: concurrent RDMA Reads the peer asks for */

	/* The queue pair: */
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* owned by `id`; NULL: none */
	struct ibv_mr *mr; /* covers the message buffers and the flush sink */
	void *flush_sink;  /* VERBS_FLUSH_SINK bytes that flushes read into; never used */
	uint32_t inline_size;
	unsigned cq_events; /* events taken from the channel and not acknowledged yet */
	bool armed;         /* the device will report the next completion */

	/* These are in one mapping: */
	void *memory;
	size_t memory_size;
	unsigned depth;
	struct verbs_sent *sent; /* a ring */
	uint32_t sent_mask;
	uint32_t sent_head;   /* entries answered; not masked, like all indexes here */
	uint32_t sent_done;   /* entries completed */
	uint32_t sent_tail;   /* entries posted */
	unsigned ops;         /* operations in flight */
	uint64_t progress_at; /* when a request last completed, ns */
	bool flushed;         /* a flush completion showed that the queue pair is in error */
	bool failed;          /* the reason is known; the next two fields have it */
	int fail_status;      /* the status of the entry at sent_done, or 0 if no request of ours failed */
	int fail_flush;       /* the status of the entries behind that entry */

	struct verbs_message *sends; /* VERBS_SENDS slots */
	uint16_t *send_sizes;
	uint32_t send_head, send_posted, send_tail;
	unsigned user_messages; /* messages of the user in `sends` */
	unsigned credits;       /* messages that the peer has buffers for */

	struct verbs_message *receives;  /* VERBS_RECEIVES buffers */
	struct verbs_received *received; /* a ring of VERBS_RECEIVES */
	/* Messages from received_free to received_head were given to the user. The next poll posts their buffers
	   again. */
	uint32_t received_free;
	uint32_t received_head, received_tail;
	unsigned owed; /* credits not yet sent to the peer */
};

/*
 * The resources of a connection that was given up before the CM reported its result. Destroying such an id or its queue
 * pair blocks until iWARP's CM has an answer, 10 s with siw. So the resources are kept until the CM reports the result.
 */
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
	struct rdma_cm_id *id; /* NULL: its device was removed, and listening is tried again at again_at */
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
	TAILQ_HEAD(, verbs_conn) gone; /* disconnected; freed at the next poll, because events may point into them */
	TAILQ_HEAD(, verbs_listener) listeners;
	TAILQ_HEAD(, verbs_parked) parked;
	unsigned active_count, arriving;
	bool completed;            /* `completed` of some channel is set */
	bool lost;                 /* the device of some channel is gone */
	bool ready;                /* the last poll left work over */
	uint64_t flush_vain_until; /* until this time in ns, an end waits only briefly for last messages */
};

static inline struct verbs_conn *verbs_conn_of(const struct fabric_conn *conn)
{
	return (struct verbs_conn *)((char *)conn - offsetof(struct verbs_conn, base));
}

static inline unsigned verbs_least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Returns the send queue entries that @depth operations need. On iWARP a flush may follow each operation. */
static inline unsigned verbs_send_entries(const struct verbs_device *device, unsigned depth)
{
	return depth * (device->iwarp ? 2 : 1) + VERBS_SENDS;
}

/* verbs_setup.c */
/* Tries the next address of a connecting connection, because the time for this one is over. */
void verbs_connect_expire(struct verbs_conn *conn);
int verbs_connect(void *state, struct fabric_domain *domain, const struct uri *uri, const void *private_data,
		  size_t private_size, struct fabric_conn **ret_conn);
int verbs_accept(struct fabric_conn *base);
void verbs_reject(struct fabric_conn *base, const void *private_data, size_t private_size);
/* Takes events of the CM. Returns true if there were any. */
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
/* Destroys the queue pair, so that the peer reaches nothing through it, and enters ENDING. Completed operations are
   answered as they completed, the others with @flush. Then FABRIC_DISCONNECTED comes with @status. */
void verbs_end(struct verbs_conn *conn, int status, int flush);
/* Ends the connection because the peer hung up or the device was removed. */
void verbs_end_lost(struct verbs_conn *conn, int status);
/* Ends the connection and removes it from every list. The next poll frees it. */
void verbs_disconnect(struct fabric_conn *base);

/* verbs_resources.c */
/* Makes all resources of a connection whose id knows its device. Returns 0, or -errno after logging. After an error,
   verbs_shut() frees the resources made so far. */
int verbs_equip(struct verbs_conn *conn);
/* Destroys the queue pair, its resources and the id, as far as they exist. */
void verbs_shut(struct verbs_conn *conn);
/* Frees parked resources. May block, see struct verbs_parked. */
void verbs_parked_free(struct verbs_parked *parked);

/* verbs_channel.c */
/* Finds or opens this fabric's channel on the device of @id, and counts the connection. Returns 0 or -errno. */
int verbs_channel_get(struct verbs *verbs, struct rdma_cm_id *id, struct verbs_channel **ret_channel);
/* Must be called when a connection has no resources on the channel any more. */
void verbs_channel_leave(struct verbs_channel *channel);
void verbs_channel_arm(struct verbs_channel *channel);
void verbs_channel_close(struct verbs_channel *channel);
/* Takes completion events and activates their connections. */
void verbs_channels_poll(struct verbs *verbs);
/* Closes the channels on devices that are gone. Their connections must have ended. */
void verbs_channels_sweep(struct verbs *verbs);

/* verbs_path.c */
/* Maps the rings and buffers of a connection whose depth is set. Returns 0 or -ENOMEM. */
int verbs_path_open(struct verbs_conn *conn);
/* Posts all receives to the new queue pair. Returns 0 or -errno. */
int verbs_path_start(struct verbs_conn *conn);
int verbs_post(struct fabric_conn *base, const struct fabric_op *ops, unsigned count);
unsigned verbs_room(const struct fabric_conn *base);
int verbs_send(struct fabric_conn *base, const void *message, size_t size);
/* Sends the opening, the first message of the connecting side. */
void verbs_send_opening(struct verbs_conn *conn);
/* Nudges the peer. Must be called when nudge_at has passed. */
void verbs_nudge(struct verbs_conn *conn, uint64_t now);
/* Takes completions into the rings, and sets `failed` on errors. Returns true if any came. */
bool verbs_drain(struct verbs_conn *conn);
/* Returns the time of the last completion, or of the oldest uncompleted post if that is later. A deep queue of long
   requests may take longer than io_ms in total. */
uint64_t verbs_silent_since(const struct verbs_conn *conn);
/* Takes the first message received. Returns NULL if it is a good opening, else what is wrong. */
const char *verbs_take_opening(struct verbs_conn *conn);
/* Gives the user answers and messages from the rings, as far as there is room. Returns true if it gave any. */
bool verbs_deliver(struct verbs_conn *conn, struct backend_events *out);
/* Answers operations in flight with their failure, as far as there is room. Returns true if all are answered. */
bool verbs_deliver_failed(struct verbs_conn *conn, struct backend_events *out);
/* Posts the buffers of messages given in the last poll again. Sends messages that waited for credits. */
void verbs_refresh(struct verbs_conn *conn);
/* Returns true if the rings hold answers or messages that the next poll can give. */
bool verbs_pending(const struct verbs_conn *conn);

/* verbs_conn.c */
void verbs_state_set(struct verbs_conn *conn, enum verbs_state state);
void verbs_activate(struct verbs_conn *conn);
void verbs_deactivate(struct verbs_conn *conn);
/* Allocates a connection that is in no list. Returns NULL if there is no memory. */
struct verbs_conn *verbs_conn_new(struct verbs *verbs, enum verbs_state state);
void verbs_conn_list(struct verbs_conn *conn);
/* Frees a connection that has ended and is in no list. */
void verbs_conn_free(struct verbs_conn *conn);

#endif

/*
 * verbs: the parts of the verbs backend, among themselves. Theory of operation in verbs.c.
 *     verbs.c            the table of operations, polling, arming, deadlines, ending
 *     verbs_setup.c      connecting and accepting through the RDMA CM
 *     verbs_resources.c  what a connection has on its device: queue pair, completion queue, message buffers
 *     verbs_listen.c     listening
 *     verbs_channel.c    what a fabric has of a device
 *     verbs_path.c       the data path: posting, completions, messages
 *     verbs_device.c     the devices of this process
 *     domain.c           protection domains and registrations
 */
#ifndef FABRIC_VERBS_H
#define FABRIC_VERBS_H

#include "fabric/address.h"
#include "fabric/backend.h"
#include "fabric/domain.h"
#include "fabric/verbs_device.h"
#include <rdma/rdma_cma.h>
#include <sys/queue.h>

/* Receive buffers of a connection, and so the messages that a peer may send before it hears of free ones. */
#define VERBS_RECEIVES 64u
/* Messages of the user that are accepted and not answered by the peer's device yet. */
#define VERBS_MESSAGES_MAX 32u
/* Slots for outgoing messages: those and the backend's own. */
#define VERBS_SENDS 64u
/* Connections being set up from outside, per fabric; more are rejected at once. */
#define VERBS_ARRIVING_MAX 256u
/* How often a connection without anything outstanding is looked at after it last had something. */
#define VERBS_IDLE_POLLS 256u
/* A write is completed with its own completion at the end of a batch, and every so many. */
#define VERBS_SIGNAL_EVERY 16u
/* iWARP: bytes for what a flush reads. */
#define VERBS_FLUSH_SINK 64u
/* iWARP: how long after connecting a silent peer is sent something more, doubled each time, and how often. */
#define VERBS_NUDGE_NS (10 * 1000000ull)
#define VERBS_NUDGES 7u
/* Completions taken, and requests posted, at a time. */
#define VERBS_BATCH 32u

enum verbs_state {
	VERBS_STATE_RESOLVING,  /* rdma_resolve_addr: which device */
	VERBS_STATE_ROUTING,    /* rdma_resolve_route */
	VERBS_STATE_CONNECTING, /* rdma_connect */
	VERBS_STATE_REQUESTED,  /* up to the user: fabric_accept or fabric_reject */
	VERBS_STATE_ACCEPTING,  /* rdma_accept; the peer's opening message awaited */
	VERBS_STATE_ESTABLISHED,
	VERBS_STATE_ENDING, /* queue pair destroyed; answers and FABRIC_DISCONNECTED to be given */
	VERBS_STATE_ENDED,  /* all given; waits for fabric_disconnect() */
	VERBS_STATE_COUNT
};

/* --- On the wire ------------------------------------------------------------------------------------------- */

#define VERBS_MAGIC 0x42525046u /* "FPRB" */
#define VERBS_VERSION 1

/*
 * What an accept and a reject carry as private data; a connect's is the user's alone, for the CM leaves no more room.
 * The CM pads private data with zeroes, so its size is said here.
 */
struct verbs_answer {
	uint32_t magic;
	uint16_t version;
	uint16_t private_size;
	uint8_t private_data[FABRIC_PRIVATE_MAX];
};
_Static_assert(sizeof(struct verbs_answer) == 64, "no padding");

enum verbs_message_kind {
	VERBS_MESSAGE_OPEN = 1, /* the first of the side that connected: magic and version */
	VERBS_MESSAGE_USER,     /* fabric_send() */
	VERBS_MESSAGE_CREDIT,   /* nothing but credits */
};
/* iWARP fills up to this with bytes of its own; siw loses its place in the stream now and then where it has to. */
#define VERBS_ALIGN 4u
struct verbs_message {
	uint8_t kind;
	uint8_t padding;  /* bytes behind the data that make the whole a multiple of VERBS_ALIGN */
	uint16_t credits; /* receive buffers that have become free since the last message */
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

/* What was posted to the send queue and has not been given its answer. */
enum verbs_sent_kind { VERBS_SENT_OP, VERBS_SENT_MESSAGE, VERBS_SENT_FLUSH };
struct verbs_sent {
	uint64_t cookie;
	uint64_t posted_at; /* ns */
	enum verbs_sent_kind kind;
	bool completed;
};

/* A message that has come: where, and how long. */
struct verbs_received {
	uint16_t slot;
	uint16_t size;
};

/* The device's part for one fabric. */
struct verbs_channel {
	TAILQ_ENTRY(verbs_channel) link;
	struct verbs *verbs;
	struct verbs_device *device; /* held */
	struct ibv_comp_channel *completions;
	struct poller_source completions_source, async_source, keeper_source, lost_source;
	bool completed; /* the poller told of it */
	unsigned conns; /* that use it */
};

struct verbs_conn {
	struct verbs_noted noted;
	struct fabric_conn base;
	struct verbs *verbs;
	struct verbs_listener *listener; /* REQUESTED: NULL once it is closed */
	enum verbs_state state;
	TAILQ_ENTRY(verbs_conn) link;        /* all, or the gone */
	TAILQ_ENTRY(verbs_conn) active_link; /* those to be looked at */
	bool active;
	bool announce;                 /* CONNECT_REQUEST or ESTABLISHED is to be given */
	bool rejected;                 /* ENDING: theirs holds the reject's private data */
	unsigned idle;                 /* polls without anything */
	int status;                    /* ENDING: of FABRIC_DISCONNECTED */
	int flush;                     /* ENDING: of what was in flight */
	uint64_t deadline;             /* of the set-up; while it connects, at this address */
	uint64_t connect_until;        /* at all of them */
	uint64_t nudge_at;             /* ESTABLISHED: 0: no more */
	unsigned nudges;               /* sent */
	struct rdma_cm_id *id;         /* NULL once ended */
	bool dialing;                  /* rdma_connect() was called, and the CM has told nothing since */
	struct verbs_channel *channel; /* NULL: none yet, or ended */

	/* Set-up. */
	struct sockaddr_storage addresses[ADDRESS_MAX];
	unsigned address_count, address_next;
	unsigned ports_tried; /* local ones that were taken */
	uint8_t ours[FABRIC_PRIVATE_MAX], theirs[FABRIC_PRIVATE_MAX];
	size_t ours_size, theirs_size;
	unsigned their_initiator, their_responder; /* REQUESTED: RDMA Reads at a time, as they ask for */

	/* The queue pair. */
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* the id's; NULL: none */
	struct ibv_mr *mr; /* of the message buffers, and the sink behind them */
	void *flush_sink;  /* VERBS_FLUSH_SINK bytes where flushes read to; never looked at */
	uint32_t inline_size;
	unsigned cq_events; /* taken, not acknowledged */
	bool armed;         /* the device will tell of the next completion */

	/* All of it in one mapping. */
	void *memory;
	size_t memory_size;
	unsigned depth;
	struct verbs_sent *sent; /* a ring */
	uint32_t sent_mask;
	uint32_t sent_head;   /* answered; not masked, as all here */
	uint32_t sent_done;   /* completed */
	uint32_t sent_tail;   /* posted */
	unsigned ops;         /* operations in flight */
	uint64_t progress_at; /* when something last completed, ns */
	bool flushed;         /* the queue pair is in error, */
	bool failed;          /* and this is why: */
	int fail_status;      /* of the one at sent_done, unless nothing of ours failed (0) */
	int fail_flush;       /* of those behind it */

	struct verbs_message *sends; /* VERBS_SENDS */
	uint16_t *send_sizes;
	uint32_t send_head, send_posted, send_tail;
	unsigned user_messages; /* of those in there */
	unsigned credits;       /* messages the peer has room for */

	struct verbs_message *receives;  /* VERBS_RECEIVES */
	struct verbs_received *received; /* a ring of as many */
	uint32_t received_free;          /* before it: given to the user in the last poll, posted again in the next */
	uint32_t received_head, received_tail;
	unsigned owed; /* credits to tell the peer of */
};

/*
 * What is left of a connection that was given up before the CM told of it. iWARP's CM makes whoever destroys such an id
 * or its queue pair wait until it has an answer, 10 s with siw; so they are kept until it tells of one.
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
	struct rdma_cm_id *id; /* NULL: its device was removed; it tries again: */
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
	TAILQ_HEAD(, verbs_conn) gone; /* disconnected; kept until the next poll for the data of events */
	TAILQ_HEAD(, verbs_listener) listeners;
	TAILQ_HEAD(, verbs_parked) parked;
	unsigned active_count, arriving;
	bool completed;            /* some channel's is set */
	bool lost;                 /* some channel's device is gone */
	bool ready;                /* the last poll left something over */
	uint64_t flush_vain_until; /* last messages are not waited for as long, ns */
};

static inline struct verbs_conn *verbs_conn_of(const struct fabric_conn *conn)
{
	return (struct verbs_conn *)((char *)conn - offsetof(struct verbs_conn, base));
}

static inline unsigned verbs_least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Entries of a send queue that @depth operations need: on iWARP each may be followed by a flush. */
static inline unsigned verbs_send_entries(const struct verbs_device *device, unsigned depth)
{
	return depth * (device->iwarp ? 2 : 1) + VERBS_SENDS;
}

/* verbs.c */
/* Takes completions, or sleeps a little where none came: a soft device's own threads may need this processor, and to
   yield is not enough for them when this thread has real-time priority. */
void verbs_drain_or_pause(struct verbs_conn *conn);
void verbs_state_set(struct verbs_conn *conn, enum verbs_state state);
void verbs_activate(struct verbs_conn *conn);
/* Not yet listed. NULL: no memory. */
struct verbs_conn *verbs_conn_new(struct verbs *verbs, enum verbs_state state);
void verbs_conn_list(struct verbs_conn *conn);
/*
 * Destroys the queue pair (from here on the peer reaches nothing through it) and goes to ENDING: what has completed is
 * answered so, the rest with @flush, then FABRIC_DISCONNECTED comes with @status.
 */
void verbs_end(struct verbs_conn *conn, int status, int flush);
/* Ends it and takes it off every list; freed at the next poll. */
void verbs_disconnect(struct fabric_conn *base);

/* verbs_channel.c */
/* This fabric's of the device that @id is bound to; the connection is counted. -errno. */
int verbs_channel_get(struct verbs *verbs, struct rdma_cm_id *id, struct verbs_channel **ret_channel);
/* A connection has nothing there any more. */
void verbs_channel_leave(struct verbs_channel *channel);
void verbs_channel_arm(struct verbs_channel *channel);
void verbs_channel_close(struct verbs_channel *channel);
/* Takes completion events. */
void verbs_channels_poll(struct verbs *verbs);
/* Ends what is on devices that are gone. */
void verbs_channels_sweep(struct verbs *verbs);

/* verbs_listen.c */
int verbs_listen(void *state, const struct uri *uri, struct fabric_listener **ret_listener);
void verbs_listener_close(struct fabric_listener *base);
/* NULL: @id is a connection's. */
struct verbs_listener *verbs_listener_find(struct verbs *verbs, const struct rdma_cm_id *id);
void verbs_listener_event(struct verbs_listener *listener, enum rdma_cm_event_type kind);
uint64_t verbs_listeners_deadline(const struct verbs *verbs);
void verbs_listeners_expire(struct verbs *verbs, uint64_t now);

/* verbs_setup.c */
/* It connects, and the time for this address is over. */
void verbs_connect_expire(struct verbs_conn *conn);
int verbs_connect(void *state, struct fabric_domain *domain, const struct uri *uri, const void *private_data,
		  size_t private_size, struct fabric_conn **ret_conn);
int verbs_accept(struct fabric_conn *base);
void verbs_reject(struct fabric_conn *base, const void *private_data, size_t private_size);
/* Takes what the CM has to tell. True: something. */
bool verbs_cm_poll(struct verbs *verbs);
/* The peer hung up, or the device went. */
void verbs_conn_lost(struct verbs_conn *conn, int status);

/* verbs_resources.c */
/* The id knows its device: makes everything the connection needs there. -errno, logged: verbs_conn_shut() undoes what
   was made. */
int verbs_conn_equip(struct verbs_conn *conn);
/* Undoes the queue pair and all that belongs to it, and the id. Takes a conn that has only some of it. */
void verbs_conn_shut(struct verbs_conn *conn);
/* May wait, see there. */
void verbs_parked_free(struct verbs_parked *parked);

/* verbs_path.c */
/* The rings and buffers of a connection whose depth is set. -ENOMEM. */
int verbs_path_open(struct verbs_conn *conn);
/* Once the queue pair is there: posts all receives. -errno. */
int verbs_path_start(struct verbs_conn *conn);
int verbs_post(struct fabric_conn *base, const struct fabric_op *ops, unsigned count);
unsigned verbs_room(const struct fabric_conn *base);
int verbs_send(struct fabric_conn *base, const void *message, size_t size);
/* The first message of the side that connected. */
void verbs_send_opening(struct verbs_conn *conn);
/* nudge_at has come. */
void verbs_nudge(struct verbs_conn *conn, uint64_t now);
/* Takes completions into the rings; sets `failed`. True: some came. */
bool verbs_drain(struct verbs_conn *conn);
/* Whether the first message received is a good opening; takes it. Else why not. NULL: it is. */
const char *verbs_take_opening(struct verbs_conn *conn);
/* Writes the answers and messages in the rings as far as there is room. True: some. */
bool verbs_deliver(struct verbs_conn *conn, struct backend_events *out);
/* Answers what is in flight with the status it failed by, as far as there is room. True: all is answered. */
bool verbs_deliver_failed(struct verbs_conn *conn, struct backend_events *out);
/* Posts again the buffers of messages the user is done with, and sends what waits for credits. */
void verbs_refresh(struct verbs_conn *conn);
/* Whether the rings hold something that the next poll can give. */
bool verbs_pending(const struct verbs_conn *conn);

#endif

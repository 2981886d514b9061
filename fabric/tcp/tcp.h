/*
 * tcp: the structs and functions that the files of the tcp backend share. The theory of operation is in tcp.c.
 *
 *     tcp.c         the table of operations, the list of active connections, states, ending
 *     tcp_setup.c   listening, connecting, greetings
 *     tcp_output.c  the queue of frames to be sent, and sending it
 *     tcp_input.c   receiving, serving the peer's requests, answers to this side's operations
 *     tcp_frame.c   the format on the wire
 */
#ifndef FABRIC_TCP_H
#define FABRIC_TCP_H

#include "fabric/address.h"
#include "fabric/backend.h"
#include "fabric/domain.h"
#include "fabric/tcp/tcp_frame.h"

#include <sys/queue.h>
#include <sys/socket.h>

/* Size of a connection's receive buffer. The buffer's pages are allocated at once on the connecting side, and on first
   use on the accepting side (conn_memory()). */
#define TCP_RECEIVE_SIZE (64u << 10)
/* From this size on, the data of a read is received straight to its destination, after a separate system call for its
   header. This call costs less than copying the data out of the buffer. */
#define TCP_LARGE (64u << 10)
#define TCP_MESSAGES_MAX 32u
/* The most incoming connections per fabric that have sent no greeting yet. Each further connection replaces one of
   these (common/crowd.h). */
#define TCP_ARRIVING_MAX 256u
/* A connection with no operation in flight stops being active after this many polls without input. */
#define TCP_IDLE_POLLS 256u

enum tcp_state {
	TCP_STATE_CONNECTING, /* connect(2) is in progress */
	TCP_STATE_GREETING,   /* this side, the connecting one, has sent its greeting and waits for the peer's */
	TCP_STATE_ARRIVING,   /* the socket was accepted; waits for the peer's greeting */
	TCP_STATE_REQUESTED,  /* the greeting has arrived; the user must accept or reject the connection */
	TCP_STATE_ESTABLISHED,
	TCP_STATE_ENDING, /* the socket is closed; some events are still to be reported */
	TCP_STATE_ENDED,  /* all events were reported; the user must call fabric_disconnect() */
	TCP_STATE_COUNT
};

struct tcp_op {
	void *local;
	uint64_t cookie;
	uint64_t posted_at; /* ns */
	uint32_t length;
	enum fabric_op_kind kind;
};

/* The data that follows a frame's header in the output queue. */
enum tcp_body {
	TCP_BODY_NONE,
	TCP_BODY_LOCAL,  /* memory of this side that stays valid until the frame is sent: data to write, or a message */
	TCP_BODY_REGION, /* registered memory that the peer reads; it is pinned each time that some of it is sent */
};
struct tcp_out {
	uint64_t address;
	uint32_t length;
	uint32_t rkey;
	enum tcp_body body;
};

/* A ring of frames to be sent. The headers have an array of their own, so that several headers without data between
   them take one iovec. */
struct tcp_queue {
	struct tcp_frame *frames; /* in wire byte order */
	struct tcp_out *outs;
	uint32_t mask;
	uint32_t head, tail; /* free-running, like all indexes here: an entry is at index & mask */
	uint32_t sent;       /* bytes of the first frame (header and data) that were sent already */
};

enum tcp_data { TCP_DATA_NONE, TCP_DATA_READ, TCP_DATA_WRITE };
struct tcp_incoming {
	enum tcp_data data;
	uint32_t left;
	/* Destination of the next byte: in this side's memory (READ), or in the region of rkey (WRITE). */
	uint64_t address;
	uint32_t rkey;
	uint32_t sequence;
};

struct tcp_conn {
	struct fabric_conn base;
	struct poller_source source;
	struct tcp *tcp;
	struct tcp_listener *listener; /* ARRIVING, REQUESTED: the listener that has accepted the socket */
	enum tcp_state state;
	TAILQ_ENTRY(tcp_conn) link;        /* in `conns` or in `gone` */
	TAILQ_ENTRY(tcp_conn) active_link; /* in `active` */
	bool active;
	bool announce; /* FABRIC_CONNECT_REQUEST or FABRIC_ESTABLISHED must be reported */
	bool more;     /* the socket or the receive buffer may have more frames */
	bool blocked;  /* the socket's send buffer is full */
	bool unheard;  /* ARRIVING: no poll has read from the socket yet */
	bool rejected; /* ENDING: `theirs` has the private data of a reject */
	unsigned idle; /* polls in a row without input */
	/* The -errno of a failed send, or 0. Input that the peer sent before is still read, because it may contain
	   the reason. */
	int send_error;
	int status;
	int flush;              /* ENDING: the status of operations that were in flight */
	uint64_t deadline;      /* deadline for being established; while CONNECTING, for the current address only */
	uint64_t connect_until; /* deadline for all addresses */

	/* Set-up: */
	struct sockaddr_storage addresses[ADDRESS_MAX];
	unsigned address_count, address_next;
	struct tcp_greeting ours, theirs; /* in wire byte order */
	size_t theirs_size;

	/* Allocated once both greetings are known, in one mapping: */
	void *memory;
	size_t memory_size;
	unsigned peer_depth;
	struct tcp_op *ops;                 /* a ring */
	uint32_t op_mask, op_head, op_tail; /* free-running; also the sequence numbers on the wire */
	uint32_t op_sent;                   /* operations before this index were sent completely */
	uint64_t progress_at;               /* when an answer last arrived while further answers were awaited, ns */
	struct tcp_queue queue;
	uint8_t *messages; /* a ring of TCP_MESSAGES_MAX slots */
	uint32_t message_head, message_tail;
	uint32_t served;    /* the sequence number of the peer's next request */
	uint32_t answering; /* number of answers to the peer in `queue` */
	uint8_t *receive;
	uint32_t receive_head, receive_tail;
	struct tcp_incoming incoming;
};

#define TCP_RECENT 64

struct tcp_listener {
	struct fabric_listener base;
	struct poller_source source;
	struct tcp *tcp;
	TAILQ_ENTRY(tcp_listener) link;
	bool ready;
	uint64_t retry_at; /* when to accept again, after the process ran out of descriptors */
	bool crowded;
	uint64_t recent[TCP_RECENT]; /* origins of the last connections, a ring */
	unsigned recent_next;        /* free-running */
};

struct tcp {
	struct fabric *fabric;
	TAILQ_HEAD(tcp_conns, tcp_conn) conns;
	TAILQ_HEAD(, tcp_conn) active;
	/* Disconnected connections. The next poll frees them: until then, the user's events may point into their
	   buffers. */
	TAILQ_HEAD(, tcp_conn) gone;
	TAILQ_HEAD(, tcp_listener) listeners;
	unsigned active_count, arriving;
	unsigned unheard; /* ARRIVING connections from which no poll has read yet */
	bool listeners_ready;
	bool ready; /* the next poll can make progress at once */
};

static inline struct tcp_conn *tcp_conn_of(const struct fabric_conn *conn)
{
	return (struct tcp_conn *)conn;
}

/* tcp.c */
void tcp_state_set(struct tcp_conn *conn, enum tcp_state state);
void tcp_activate(struct tcp_conn *conn);
/* Arms the source for the events that the state needs. */
void tcp_conn_arm(struct tcp_conn *conn);
/* Allocates a connection without a socket, in no list. Returns NULL if there is no memory. */
struct tcp_conn *tcp_conn_new(struct tcp *tcp, enum tcp_state state);
/* Makes @fd the connection's socket. */
void tcp_conn_open(struct tcp_conn *conn, int fd);
void tcp_conn_shut(struct tcp_conn *conn);
/* Closes the socket and enters ENDING. The next polls report operations in flight with the status @flush, and then
   FABRIC_DISCONNECTED with @status. */
void tcp_end(struct tcp_conn *conn, int status, int flush);
/* Logs @why and ends the connection with -EPROTO, because the peer violated the protocol. */
void tcp_end_broken(struct tcp_conn *conn, const char *why);
void tcp_conn_free(struct tcp_conn *conn);

/* tcp_setup.c */
int tcp_listen(void *state, const struct uri *uri, struct fabric_listener **ret_listener);
void tcp_listener_close(struct tcp_listener *listener);
void tcp_listeners_poll(struct tcp *tcp, uint64_t now);
/* Must be called when the deadline of a CONNECTING connection has passed. Tries the next address. */
void tcp_connect_expire(struct tcp_conn *conn);
int tcp_connect(void *state, struct fabric_domain *domain, const struct uri *uri, const void *private_data,
		size_t private_size, struct fabric_conn **ret_conn);
int tcp_accept(struct fabric_conn *conn);
void tcp_reject(struct fabric_conn *conn, const void *private_data, size_t private_size);
/* Must be called when a poll has read from an ARRIVING connection, and when a connection ends. Clears `unheard`. */
void tcp_heard(struct tcp_conn *conn);
/* Goes on with connecting and the greetings. Returns true if anything was done. */
bool tcp_setup_step(struct tcp_conn *conn);

/*
 * tcp_crowd.c. Connections wait in a queue of the kernel until they are accepted. When this queue is full, the kernel
 * drops connections of all hosts alike, and a client tries again only after one second. So when the queue is half full
 * (crowded), connections from hosts that make many of them are closed at once, unless the fabric's user knows the peer
 * (`known` in struct fabric_config).
 */
/* Must be called before connections of @listener are accepted. Reads how full the queue is. */
void tcp_crowd_look(struct tcp_listener *listener);
/* Must be called for each accepted socket. Returns true if the caller must close @fd. */
bool tcp_crowd_refuses(struct tcp_listener *listener, int fd, uint64_t origin);

/* tcp_output.c */
/* Appends a frame. The queue has space for all frames that can be in it at a time, so this cannot fail. */
void tcp_queue_frame(struct tcp_conn *conn, struct tcp_frame frame, struct tcp_out out);
/* Sends queued frames until the queue is empty or the socket's send buffer is full. May end the connection. */
void tcp_output(struct tcp_conn *conn);

/* tcp_input.c */
/* Receives and handles frames: moves data, queues answers, and writes events. Returns true if bytes moved. May end
   the connection. */
bool tcp_input(struct tcp_conn *conn, struct backend_events *out);

#endif

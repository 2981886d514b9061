/*
 * tcp: the structs and functions that the parts of the tcp backend share. The theory of operation is in tcp.c.
 *     tcp.c         the table of operations, the list of active connections, states, ending
 *     tcp_setup.c   listening, connecting, greetings
 *     tcp_output.c  the queue of frames to be sent, and sending it
 *     tcp_input.c   receiving, serving requests, answering operations
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

/* Size of a connection's receive buffer. The connecting side maps it populated. The other side touches only the part
   that it uses. */
#define TCP_RECEIVE_SIZE (64u << 10)
/* An answer with at least this much data is received in place. One more system call, for its header, costs less than
   the copy. */
#define TCP_LARGE (64u << 10)
/* The most unsent messages per connection. */
#define TCP_MESSAGES_MAX 32u
/* The most incoming connections per fabric that have sent no greeting yet. One is closed for each further one
   (crowd.h). */
#define TCP_ARRIVING_MAX 256u
/* The number of empty polls after which a connection is no longer active. */
#define TCP_IDLE_POLLS 256u

enum tcp_state {
	TCP_STATE_CONNECTING, /* the socket is connecting */
	TCP_STATE_GREETING,   /* our greeting is sent, the peer's is awaited */
	TCP_STATE_ARRIVING,   /* accepted by the kernel, the peer's greeting is awaited */
	TCP_STATE_REQUESTED,  /* the user must call fabric_accept() or fabric_reject() */
	TCP_STATE_ESTABLISHED,
	TCP_STATE_ENDING, /* socket closed; answers and FABRIC_DISCONNECTED are still due */
	TCP_STATE_ENDED,  /* all events were given; waits for fabric_disconnect() */
	TCP_STATE_COUNT
};

/* An operation in flight. */
struct tcp_op {
	void *local;
	uint64_t cookie;
	uint64_t posted_at; /* ns */
	uint32_t length;
	enum fabric_op_kind kind;
};

/* The body behind a frame's header in the output queue. */
enum tcp_body {
	TCP_BODY_NONE,
	TCP_BODY_LOCAL,  /* our own memory, valid until the answer: data to write, or a message's slot */
	TCP_BODY_REGION, /* registered memory, pinned by its rkey each time bytes of it are sent */
};
struct tcp_out {
	uint64_t address;
	uint32_t length;
	uint32_t rkey;
	enum tcp_body body;
};

/* Frames to be sent, in order. Headers lie side by side, so adjacent frames without data share one iovec. */
struct tcp_queue {
	struct tcp_frame *frames; /* in wire order */
	struct tcp_out *outs;
	uint32_t mask;
	uint32_t head, tail; /* not masked */
	uint32_t sent;       /* bytes of the first frame, header and data, that are sent already */
};

/* The data that is being received for the current frame. */
enum tcp_data { TCP_DATA_NONE, TCP_DATA_READ, TCP_DATA_WRITE };
struct tcp_incoming {
	enum tcp_data data;
	uint32_t left;
	uint64_t address; /* the next byte's address: our own (READ), or in the region of rkey (WRITE) */
	uint32_t rkey;
	uint32_t sequence;
};

struct tcp_conn {
	struct fabric_conn base;
	struct poller_source source;
	struct tcp *tcp;
	struct tcp_listener *listener; /* ARRIVING, REQUESTED */
	enum tcp_state state;
	TAILQ_ENTRY(tcp_conn) link;        /* in `conns` or in `gone` */
	TAILQ_ENTRY(tcp_conn) active_link; /* in `active` */
	bool active;
	bool announce; /* CONNECT_REQUEST or ESTABLISHED is due */
	bool more;     /* the socket or the buffer may hold more */
	bool blocked;  /* the socket accepts no output now */
	bool unheard;  /* ARRIVING: no poll has looked at this connection yet */
	bool rejected; /* ENDING: `theirs` holds the reject's private data */
	unsigned idle; /* polls in a row that found nothing */
	/* The -errno of a failed send, or 0. Input that the peer sent before is still read. */
	int send_error;
	int status;             /* ENDING: the status of FABRIC_DISCONNECTED */
	int flush;              /* ENDING: the status of operations in flight */
	uint64_t deadline;      /* the deadline of the set-up, or, while CONNECTING, of this address */
	uint64_t connect_until; /* CONNECTING: the deadline of all addresses */

	/* Set-up: */
	struct sockaddr_storage addresses[ADDRESS_MAX];
	unsigned address_count, address_next;
	struct tcp_greeting ours, theirs; /* in wire order */
	size_t theirs_size;               /* bytes of `theirs` that have arrived */

	/* Established, all in one mapping: */
	void *memory;
	size_t memory_size;
	unsigned peer_depth;
	struct tcp_op *ops;                 /* a ring */
	uint32_t op_mask, op_head, op_tail; /* not masked; also the sequence numbers on the wire */
	uint32_t op_sent;                   /* operations before this one were sent completely */
	uint64_t progress_at;               /* when an answer last came while more were awaited, ns */
	struct tcp_queue queue;
	uint8_t *messages; /* a ring of TCP_MESSAGES_MAX slots */
	uint32_t message_head, message_tail;
	uint32_t served;    /* the sequence number of the peer's next request */
	uint32_t answering; /* answers to the peer in `queue` */
	uint8_t *receive;
	uint32_t receive_head, receive_tail;
	struct tcp_incoming incoming;
};

struct tcp_listener {
	struct fabric_listener base;
	struct poller_source source;
	struct tcp *tcp;
	TAILQ_ENTRY(tcp_listener) link;
	bool ready;
	uint64_t retry_at; /* when to accept again after descriptors ran out */
};

struct tcp {
	struct fabric *fabric;
	TAILQ_HEAD(tcp_conns, tcp_conn) conns;
	TAILQ_HEAD(, tcp_conn) active;
	TAILQ_HEAD(, tcp_conn) gone; /* disconnected; freed at the next poll, because events may point into them */
	TAILQ_HEAD(, tcp_listener) listeners;
	unsigned active_count, arriving;
	unsigned unheard; /* arriving connections not looked at yet */
	bool listeners_ready;
	bool ready; /* the last poll left work over */
};

static inline struct tcp_conn *tcp_conn_of(const struct fabric_conn *conn)
{
	return (struct tcp_conn *)conn;
}

/* tcp.c */
void tcp_state_set(struct tcp_conn *conn, enum tcp_state state);
void tcp_activate(struct tcp_conn *conn);
/* Arms the source of a connection that is about to leave the active list. */
void tcp_conn_arm(struct tcp_conn *conn);
/* Allocates a connection that has no socket and is in no list. Returns NULL if there is no memory. */
struct tcp_conn *tcp_conn_new(struct tcp *tcp, enum tcp_state state);
/* Makes @fd the connection's socket. Returns 0 or -errno. After an error, @fd still belongs to the caller. */
int tcp_conn_open(struct tcp_conn *conn, int fd);
void tcp_conn_shut(struct tcp_conn *conn);
/* Closes the socket and enters ENDING. Operations in flight are answered with @flush, then FABRIC_DISCONNECTED comes
   with @status. */
void tcp_end(struct tcp_conn *conn, int status, int flush);
/* Ends the connection with -EPROTO and logs one line. */
void tcp_end_broken(struct tcp_conn *conn, const char *why);
void tcp_conn_free(struct tcp_conn *conn);

/* tcp_setup.c */
int tcp_listen(void *state, const struct uri *uri, struct fabric_listener **ret_listener);
void tcp_listener_close(struct tcp_listener *listener);
void tcp_listeners_poll(struct tcp *tcp, uint64_t now);
/* Tries the next address of a CONNECTING connection, because the time for this one is over. */
void tcp_connect_expire(struct tcp_conn *conn);
int tcp_connect(void *state, struct fabric_domain *domain, const struct uri *uri, const void *private_data,
		size_t private_size, struct fabric_conn **ret_conn);
int tcp_accept(struct fabric_conn *conn);
void tcp_reject(struct fabric_conn *conn, const void *private_data, size_t private_size);
/* Notes that an arriving connection was looked at, or ends. */
void tcp_heard(struct tcp_conn *conn);
/* Advances a connection that is not yet established. Returns true if it made progress. */
bool tcp_setup_step(struct tcp_conn *conn);

/* tcp_output.c. There is always room for a frame, because the queue is sized for the most frames that can be in it. */
void tcp_queue_frame(struct tcp_conn *conn, struct tcp_frame frame, struct tcp_out out);
/* Sends as many bytes as the socket accepts. May end the connection. */
void tcp_output(struct tcp_conn *conn);

/* tcp_input.c */
/* Receives bytes and handles them: writes events and regions, and queues answers. Returns true if bytes moved. May end
   the connection. */
bool tcp_input(struct tcp_conn *conn, struct backend_events *out);

#endif

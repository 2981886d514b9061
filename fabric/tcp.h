/*
 * tcp: the parts of the tcp backend, among themselves. Theory of operation in tcp.c.
 *     tcp.c         the table of operations, the list of active connections, states, ending
 *     tcp_setup.c   listening, connecting, greetings
 *     tcp_output.c  the queue of frames to be sent, and sending it
 *     tcp_input.c   receiving, serving requests, answering operations
 *     tcp_frame.c   what goes over the wire
 */
#ifndef FABRIC_TCP_H
#define FABRIC_TCP_H

#include "fabric/address.h"
#include "fabric/backend.h"
#include "fabric/domain.h"
#include "fabric/tcp_frame.h"
#include <sys/queue.h>
#include <sys/socket.h>

/* Bytes received ahead of their handling, per connection; only what is used is ever touched. */
#define TCP_RECEIVE_SIZE (256u << 10)
/* An answer from this size on is not copied: a system call for its header alone costs less. */
#define TCP_LARGE (64u << 10)
/* Messages accepted and not sent yet, per connection. */
#define TCP_MESSAGES_MAX 32u
/* Connections from outside that have said nothing yet, per fabric; one of more is closed (crowd.h). */
#define TCP_ARRIVING_MAX 256u
/* How often a connection without anything outstanding is looked at after it last had something. */
#define TCP_IDLE_POLLS 256u

enum tcp_state {
	TCP_STATE_CONNECTING, /* the socket is connecting */
	TCP_STATE_GREETING,   /* our greeting is sent, theirs awaited */
	TCP_STATE_ARRIVING,   /* accepted by the kernel, its greeting awaited */
	TCP_STATE_REQUESTED,  /* up to the user: fabric_accept or fabric_reject */
	TCP_STATE_ESTABLISHED,
	TCP_STATE_ENDING, /* socket closed; answers and FABRIC_DISCONNECTED to be given */
	TCP_STATE_ENDED,  /* all given; waits for fabric_disconnect() */
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

/* What follows the header of a frame in the output queue. */
enum tcp_body {
	TCP_BODY_NONE,
	TCP_BODY_LOCAL,  /* our own memory: data to write, until answered; a message's slot */
	TCP_BODY_REGION, /* registered memory, looked up again by its rkey each time bytes of it are sent */
};
struct tcp_out {
	uint64_t address;
	uint32_t length;
	uint32_t rkey;
	enum tcp_body body;
};

/* Frames to be sent, in order; headers lie side by side so that those without data need one iovec together. */
struct tcp_queue {
	struct tcp_frame *frames; /* in wire order */
	struct tcp_out *outs;
	uint32_t mask;
	uint32_t head, tail; /* not masked */
	uint32_t sent;       /* bytes of the first frame and its data that have left */
};

/* Data on its way in, of the frame at hand. */
enum tcp_data { TCP_DATA_NONE, TCP_DATA_READ, TCP_DATA_WRITE };
struct tcp_incoming {
	enum tcp_data data;
	uint32_t left;
	uint64_t address; /* of the next byte: ours (READ), or in the region of rkey (WRITE) */
	uint32_t rkey;
	uint32_t sequence;
};

struct tcp_conn {
	struct fabric_conn base;
	struct poller_source source;
	struct tcp *tcp;
	struct tcp_listener *listener; /* ARRIVING, REQUESTED: NULL once it is closed */
	enum tcp_state state;
	TAILQ_ENTRY(tcp_conn) link;        /* all, or the gone */
	TAILQ_ENTRY(tcp_conn) active_link; /* those to be looked at */
	bool active;
	bool announce;     /* CONNECT_REQUEST or ESTABLISHED is to be given */
	bool more;         /* the socket or the buffer may hold more */
	bool blocked;      /* the socket takes no output now */
	bool unheard;      /* ARRIVING: it has not been looked at yet */
	bool rejected;     /* ENDING: the greeting holds the reject's private data */
	unsigned idle;     /* polls without anything */
	int send_error;    /* -errno: sending failed; what the peer sent before is still to be read */
	int status;        /* ENDING: of FABRIC_DISCONNECTED */
	int flush;         /* ENDING: of what was in flight */
	uint64_t deadline; /* of the set-up; CONNECTING: at this address, of all of which the time is: */
	uint64_t connect_until;

	/* Set-up. */
	struct sockaddr_storage addresses[ADDRESS_MAX];
	unsigned address_count, address_next;
	struct tcp_greeting ours, theirs; /* in wire order */
	size_t theirs_size;               /* bytes that have come */

	/* Established: all of it in one mapping. */
	void *memory;
	size_t memory_size;
	unsigned peer_depth;
	struct tcp_op *ops;                 /* a ring */
	uint32_t op_mask, op_head, op_tail; /* not masked; they are also the sequence on the wire */
	uint32_t op_sent;                   /* those before it have left whole, data and all */
	uint64_t progress_at;               /* an operation was answered while others were under way, ns */
	struct tcp_queue queue;
	uint8_t *messages; /* a ring of TCP_MESSAGES_MAX slots */
	uint32_t message_head, message_tail;
	uint32_t served;    /* sequence of the peer's next request */
	uint32_t answering; /* answers to the peer in the queue */
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
	uint64_t retry_at; /* out of descriptors: accept again then */
};

struct tcp {
	struct fabric *fabric;
	TAILQ_HEAD(tcp_conns, tcp_conn) conns;
	TAILQ_HEAD(, tcp_conn) active;
	TAILQ_HEAD(, tcp_conn) gone; /* disconnected; kept until the next poll for the data of events */
	TAILQ_HEAD(, tcp_listener) listeners;
	unsigned active_count, arriving;
	unsigned unheard; /* arriving connections that have not been looked at */
	bool listeners_ready;
	bool ready; /* the last poll left something over */
};

static inline struct tcp_conn *tcp_conn_of(const struct fabric_conn *conn)
{
	return (struct tcp_conn *)conn;
}

/* tcp.c */
void tcp_state_set(struct tcp_conn *conn, enum tcp_state state);
void tcp_activate(struct tcp_conn *conn);
void tcp_deactivate(struct tcp_conn *conn);
/* Has the poller tell of it, when it is not looked at any more. */
void tcp_conn_arm(struct tcp_conn *conn);
/* Not yet connected, and not listed. NULL: no memory. */
struct tcp_conn *tcp_conn_new(struct tcp *tcp, enum tcp_state state);
/* Takes @fd for its socket; -errno: @fd is still the caller's. */
int tcp_conn_open(struct tcp_conn *conn, int fd);
void tcp_conn_shut(struct tcp_conn *conn);
/*
 * Closes the socket and goes to ENDING: what is in flight is answered with @flush, then FABRIC_DISCONNECTED comes
 * with @status.
 */
void tcp_end(struct tcp_conn *conn, int status, int flush);
/* The same with -EPROTO, and one line in the log. */
void tcp_end_broken(struct tcp_conn *conn, const char *why);
void tcp_conn_free(struct tcp_conn *conn);

/* tcp_setup.c */
int tcp_listen(void *state, const struct uri *uri, struct fabric_listener **ret_listener);
void tcp_listener_close(struct fabric_listener *listener);
void tcp_listeners_poll(struct tcp *tcp, uint64_t now);
/* CONNECTING, and the time for this address is over. */
void tcp_connect_expire(struct tcp_conn *conn);
int tcp_connect(void *state, struct fabric_domain *domain, const struct uri *uri, const void *private_data,
		size_t private_size, struct fabric_conn **ret_conn);
int tcp_accept(struct fabric_conn *conn);
void tcp_reject(struct fabric_conn *conn, const void *private_data, size_t private_size);
/* An arriving connection has been looked at, or ends. */
void tcp_heard(struct tcp_conn *conn);
/* One step of a connection before ESTABLISHED. */
bool tcp_setup_step(struct tcp_conn *conn);

/* tcp_output.c: there is always room for a frame (tcp_conn's queue is sized for all that may be in it). */
void tcp_queue_frame(struct tcp_conn *conn, struct tcp_frame frame, struct tcp_out out);
/* Sends what the socket takes. May end the connection. */
void tcp_output(struct tcp_conn *conn);

/* tcp_input.c */
/* Takes what has come: events, writes into regions, answers into the queue. True: bytes moved. May end the connection.
 */
bool tcp_input(struct tcp_conn *conn, struct backend_events *out);

#endif

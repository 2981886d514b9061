/*
 * net: wires between simulated machines, and what can become of what is on them.
 *
 * Theory of operation. A connection is a wire with two ends (struct fabric_conn) and a pipe in each direction. What is
 * sent waits in the pipe for its time to arrive and arrives in order, as on a reliable connection; different wires know
 * nothing of each other. A pipe that is cut holds what is in it until it is whole again: late packets arrive late, also
 * when their sender has ended the connection meanwhile, as long as the other end has not.
 *
 * The pages of a write leave local memory at some time before they arrive, at the latest when the connection ends here.
 * A read takes the pages when its request arrives or a little later, and puts them into local memory before its answer.
 * A connection that breaks leaves each operation carried out or not, in order; the first that is not may be carried out
 * in part; and the memory that a read was to fill has anything in it.
 *
 * fabric.c makes include/farpage/fabric.h of it. Threads: one.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "farpage/fabric.h"
#include "tests/sim/descriptors.h"
#include "tests/sim/machines.h"

#define NET_URI_MAX 64u
#define NET_WATCHES 4u
/* Messages that have not arrived. */
#define NET_MESSAGES_MAX 32u

/* How long things take in this history, and what becomes of them. */
struct net_habits {
	uint64_t least_ns, most_ns; /* on the way */
	unsigned linger_in;         /* once in so many, what was sent is lost when its sender ends the connection */
	unsigned silent_in;         /* likewise, that the sender has ended it is never heard */
	bool takes;                 /* donors take memory back at a deadline: who comes later is refused */
};

struct operation {
	struct fabric_op op;
	uint64_t posted;
	uint8_t *pages; /* on the way; NULL: still, or again, in memory */
};

enum packet_kind {
	PACKET_CONNECT,
	PACKET_ACCEPT,
	PACKET_REJECT,
	PACKET_READY, /* of the connecting side, so that the other knows it is established */
	PACKET_MESSAGE,
	PACKET_OPERATION,
	PACKET_ANSWER,
	PACKET_REFUSAL,
	PACKET_END,
};

struct packet {
	enum packet_kind kind;
	uint64_t at;
	size_t size;
	uint8_t *data;
	struct operation *operation;
	bool torn; /* the connection breaks while it arrives */
	struct packet *next;
};

struct pipe {
	struct packet *head, **tail;
	uint64_t last_at, token;
	uint64_t cut_until;
	unsigned messages;
	bool ended; /* nothing is sent after */
};

struct wire {
	unsigned number;
	char uri[NET_URI_MAX];
	unsigned hosts[2];
	struct fabric_conn *ends[2]; /* the connecting, the accepting one */
	struct pipe pipes[2];        /* by who sends */
	struct wire *next;
};

enum conn_state { CONN_CONNECTING, CONN_REQUESTED, CONN_ACCEPTED, CONN_ESTABLISHED, CONN_BROKEN, CONN_CLOSED };

struct fabric_conn {
	struct wire *wire;
	unsigned side;
	enum conn_state state;
	struct process *process;
	struct fabric *fabric;
	struct fabric_domain *domain;
	void *user;
	struct operation *operations[FABRIC_DEPTH_MAX]; /* a ring */
	unsigned head, tail;
	uint64_t deadline; /* of the connect */
	bool timed;        /* a look at the time is in the calendar */
};

/* Something a fabric has to tell. */
struct happening {
	struct fabric_event event;
	struct happening *next;
};

struct fabric {
	struct process *process;
	struct fabric_config config;
	int fd;
	bool closed, interrupted, armed;
	uint64_t until, alarm_at; /* armed until then; when a look at the time is in the calendar */
	struct task *waiter;
	struct {
		int fd;
		void *user;
	} watches[NET_WATCHES];
	struct happening *head, **tail;
	struct fabric *next;
};

struct fabric_domain {
	struct process *process;
	unsigned regions;
	bool closed;
};

struct fabric_region {
	struct process *process;
	struct fabric_domain *domain;
	uint8_t *base;
	size_t length;
	unsigned access;
	uint32_t key;
	bool dead;
	struct fabric_region *next;
};

struct fabric_listener {
	char uri[NET_URI_MAX];
	struct fabric *fabric;
	bool closed;
	struct fabric_listener *next;
};

/* All there is in this history. */
struct net {
	struct net_habits habits;
	struct wire *wires;
	struct fabric *fabrics;
	struct fabric_listener *listeners;
	unsigned wire_count;
	uint64_t operations; /* carried out */
};
extern struct net net;

void net_open(const struct net_habits *habits);

/* --- Of fabric.c and net_faults.c
 * ------------------------------------------------------------------------------------------------ */

void net_send(struct fabric_conn *conn, enum packet_kind kind, const void *data, size_t size,
	      struct operation *operation);
/* The end is told what is left to tell. @first: of the oldest operation in flight. */
void net_break(struct fabric_conn *conn, int first, int status, const void *data, size_t size);
/* What of its operations has not left memory yet leaves now, or never. */
void net_depart(struct fabric_conn *conn);
/* Its end is on the way. */
void net_end(struct fabric_conn *conn);
void net_watch_time(struct fabric_conn *conn);
void net_tell(struct fabric_conn *conn, const struct fabric_event *event);
void net_untell(struct fabric_conn *conn);
void net_notify(struct fabric *fabric);
/* It is there and has not ended. Takes NULL. */
bool net_end_lives(const struct fabric_conn *conn);
/* What one side has sent is lost from some packet on; @torn: that one may arrive in part. */
void net_lose(struct wire *wire, unsigned side, bool torn);
/* An answer from a machine on which nobody is concerned. */
void net_answer(struct wire *wire, unsigned side, enum packet_kind kind);

/* --- Faults ----------------------------------------------------------------------------------------------------- */

/* A wire between two machines that is in use at both ends, by chance; NULL: there is none. */
struct wire *net_pick(unsigned one, unsigned other);
/* It breaks. */
void net_reset(struct wire *wire);
/* @side: whose sending. */
void net_cut(struct wire *wire, unsigned side, uint64_t duration);
/* The process is killed; its peers hear of it, or (@silent) do not. */
void net_kill(struct process *process, bool silent);
/* Some bytes of what it lends change. False: it lends nothing. */
bool net_corrupt(struct process *process);
/* Its tasks that wait in fabric_wait() are told to look (-EINTR). */
void net_interrupt(struct process *process);

#endif

/*
 * net: the simulated network between machines, and its faults.
 *
 * Theory of operation. A connection is a *wire*: two ends (struct fabric_conn), and a *pipe* in each direction. A
 * packet waits in the pipe until its time of arrival. Packets of a pipe arrive in order, as on a reliable connection.
 * Packets of different wires do not wait for each other. While a pipe is cut, its packets wait. They may arrive after
 * their sender has ended the connection, if the other end has not ended it.
 *
 * The pages of a write are copied from local memory at a random time before they arrive, or when the connection ends
 * on this side. The pages of a read are copied from the peer's memory when the request arrives or a little later, and
 * into local memory before the read completes. When a connection breaks, some operations have been carried out, in
 * the order of their posts. The next one may be carried out in part, and later ones are not carried out. The buffer
 * of an unfinished read has arbitrary contents.
 *
 * fabric.c implements fabric/fabric.h on net. Threads: one.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "fabric/fabric.h"
#include "tests/sim/descriptors.h"
#include "tests/sim/machines.h"

#define NET_URI_MAX 64u
#define NET_WATCHES 4u
/* The most messages that may be in flight in a pipe. */
#define NET_MESSAGES_MAX 32u

/* Delays and losses of this history. */
struct net_habits {
	uint64_t least_ns, most_ns; /* least and longest time of a packet on the way */
	unsigned linger_in;         /* once in so many disconnects, packets sent before are lost; 0: never */
	unsigned silent_in;         /* once in so many disconnects, the peer never hears of it; 0: never */
	bool takes;                 /* donors take memory back at a deadline, so requests may be refused */
};

struct operation {
	struct fabric_op op;
	uint64_t posted;
	uint8_t *pages; /* a copy of the pages, or NULL while they are only in local memory */
};

enum packet_kind {
	PACKET_CONNECT,
	PACKET_ACCEPT,
	PACKET_REJECT,
	PACKET_READY, /* from the connecting side: the connection is established */
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
	bool torn; /* the connection breaks while the packet arrives */
	struct packet *next;
};

struct pipe {
	struct packet *head, **tail;
	uint64_t last_at, token;
	uint64_t cut_until;
	unsigned messages;
	bool ended; /* no more packets enter the pipe */
};

struct wire {
	unsigned number;
	char uri[NET_URI_MAX];
	unsigned hosts[2];
	struct fabric_conn *ends[2]; /* the connecting end, the accepting end */
	struct pipe pipes[2];        /* indexed by the side that sends */
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
	uint64_t deadline; /* time at which connecting fails, on the clock of the world */
	bool timed;        /* a call of conn_look() is in the calendar */
};

/* An event that fabric_poll() will return. */
struct happening {
	struct fabric_event event;
	struct happening *next;
};

struct fabric {
	struct process *process;
	struct fabric_config config;
	int fd;
	bool closed, interrupted, armed;
	uint64_t until, alarm_at; /* the fabric is armed until then; time of the alarm in the calendar */
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
	uint32_t salt; /* the salt of the valid keys; see fabric.c */
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

/* The network of this history. */
struct net {
	struct net_habits habits;
	struct wire *wires;
	struct fabric *fabrics;
	struct fabric_listener *listeners;
	unsigned wire_count;
	uint64_t operations; /* operations carried out */
};
extern struct net net;

void net_open(const struct net_habits *habits);

/* --- For fabric.c and net_faults.c ------------------------------------------------------------------------------- */

void net_send(struct fabric_conn *conn, enum packet_kind kind, const void *data, size_t size,
	      struct operation *operation);
/* Breaks one end: completes its operations with errors, the oldest with @first, and then reports the end of the
   connection with @status. */
void net_break(struct fabric_conn *conn, int first, int status, const void *data, size_t size);
/* For each write whose pages are still only in local memory: copies the pages now, or drops the write. */
void net_depart(struct fabric_conn *conn);
/* Sends the end of the connection to the peer. Packets sent before may be lost. */
void net_end(struct fabric_conn *conn);
/* Enters the next timeout of this end into the calendar. */
void net_watch_time(struct fabric_conn *conn);
/* Queues an event of the connection. */
void net_tell(struct fabric_conn *conn, const struct fabric_event *event);
/* Returns the key that gives peers access to the region now. */
uint32_t net_key(const struct fabric_region *region);
/* Removes the queued events of the connection. */
void net_untell(struct fabric_conn *conn);
/* Wakes the tasks that wait for an event of the fabric. */
void net_notify(struct fabric *fabric);
/* Returns true if @conn is not NULL and has not ended. */
bool net_end_lives(const struct fabric_conn *conn);
/*
 * Drops packets that @side has sent: a random packet, and all after it. With @torn, if the first of them is a request
 * for pages, a part of its pages arrives.
 */
void net_lose(struct wire *wire, unsigned side, bool torn);
/* Sends a packet in the name of a machine on which no process has the connection. */
void net_answer(struct wire *wire, unsigned side, enum packet_kind kind);

/* --- Faults ----------------------------------------------------------------------------------------------------- */

/* Returns a random wire between the two machines, of those whose ends have both not ended, or NULL. */
struct wire *net_pick(unsigned one, unsigned other);
/* Breaks the connection of the wire. */
void net_reset(struct wire *wire);
/* Delays the packets that @side sends until @duration has passed. */
void net_cut(struct wire *wire, unsigned side, uint64_t duration);
/* Kills the process. Unless @silent, its peers get the ends of its connections. */
void net_kill(struct process *process, bool silent);
/* Flips a bit of the memory that the process lends. Returns false if it lends none. */
bool net_corrupt(struct process *process);
/* Interrupts the tasks of the process that wait in fabric_wait() (-EINTR). */
void net_interrupt(struct process *process);

#endif

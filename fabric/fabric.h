/*
 * fabric: reads and writes memory of another process, the peer, over RDMA or TCP.
 *
 * Theory of operation. The model is a reliable connected queue pair of RDMA verbs:
 *
 * - First, this process connects to the peer. The peer accepts the connection into a protection domain.
 * - Then the peer registers a range of its memory in this domain, and sends the range's address and key (rkey) to
 *   this process: fabric_register(), fabric_export(), fabric_send().
 * - From then on, this process reads and writes the range with fabric_post(). The peer's program does not notice
 *   these operations.
 * - fabric_poll() or fabric_wait() returns one FABRIC_DONE event for each operation. The events of one connection
 *   have the order in which the operations were posted.
 *
 * Refusals. The peer refuses an operation if its rkey is unknown, or if any of its bytes lie outside the registered
 * range. This ends the connection, as with a queue pair in the error state. The refused operation gets the status
 * -EACCES. Operations posted after it get -ECONNRESET.
 *
 * Order. A read sees every write that was posted before it on the same connection. But the read may also see a later
 * write, as in verbs without a fence. To prevent this, post the write only after the answer to the read.
 *
 * The scheme of an address chooses the implementation, called a backend:
 *
 *     rdma://HOST:PORT   A queue pair of an RDMA device. The peer's device serves the operations, so the peer's program
 *                        uses no CPU time. That program may not learn of refusals: soft-RoCE tells only the requester.
 *                        A write past the end of a range may still change bytes inside the range. With iWARP, a refusal
 *                        has the status -ECONNRESET, and a range must also be readable if the peer writes to it.
 *     tcp://HOST:PORT    The same over TCP, for hosts without an RDMA device. The peer's program serves the operations
 *                        inside its own fabric_poll() and fabric_wait(), and checks the range of each operation.
 *
 * Threads. One thread owns a `struct fabric`, and all listeners, connections and events of it. The fabrics of one
 * process may share a `struct fabric_domain`: any thread may register and deregister memory. For operations and
 * messages, fabric_post() and fabric_poll() allocate nothing and take no lock. The one exception: the first use of a
 * region on a further RDMA device takes the domain's lock.
 *
 * Functions return 0 or a positive count on success, and -errno on failure. Outputs are written only on success.
 */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FABRIC_DEFAULT_PORT 7470u
/* The most bytes of private data that a connect or a reject carries. The RDMA connection manager has no more space
   (rdma_connect(3), RDMA_PS_TCP). */
#define FABRIC_PRIVATE_MAX 56
/* In bytes: the largest message of fabric_send(), and the largest single read or write. */
#define FABRIC_MESSAGE_MAX 256
#define FABRIC_OP_MAX (1u << 20)
/* The upper bound of fabric_config.depth. */
#define FABRIC_DEPTH_MAX 1024

struct fabric;
struct fabric_domain;
struct fabric_region;
struct fabric_listener;
struct fabric_conn;

struct fabric_config {
	unsigned depth; /* the most operations in flight on a connection: 1 to FABRIC_DEPTH_MAX, 0 for 256 */
	/* How long fabric_wait() polls before it sleeps, in µs. With 0 it sleeps at once. If answers often arrive
	   soon after it has begun to sleep, it polls up to eight times as long. */
	unsigned spin_us;
	/* It has many connections and posts no operations. The memory of a connection becomes present only when used,
	   and a connection is not polled for long after a message. */
	bool messages_only;
	unsigned connect_ms; /* deadline in ms for connecting and for being accepted; 0 for 2000 */
	/* If operations are in flight and no answer arrives for this many ms, the connection ends with -ETIMEDOUT. 0
	   means 800. */
	unsigned io_ms;
	/* When connections arrive faster than they can be handled, a tcp:// listener closes some of them without an
	   event, but none for whose private data this function returns true. NULL: it knows no peer. */
	bool (*known)(void *user, const void *private_data, size_t size);
	void *known_user; /* @user of known() */
};

#define FABRIC_CONFIG_DEFAULT ((struct fabric_config){.depth = 256, .spin_us = 50, .connect_ms = 2000, .io_ms = 800})

/* Opens a fabric for the calling thread. NULL for @config means the defaults. Returns 0 or -errno. */
int fabric_open(const struct fabric_config *config, struct fabric **ret_fabric);
/* Ends all connections and listeners without further events, and frees them. NULL is allowed. */
void fabric_close(struct fabric *fabric);
/* Prepares a forked child to open fabrics of its own. The child never uses or closes its parent's fabrics. Must be
   called before any other function. Returns 0, or -EOPNOTSUPP if the parent has used an RDMA device: librdmacm keeps
   the device's context for the whole process, and a child cannot use it (ibv_fork_init(3)). */
int fabric_after_fork(void);

/* Operations of peers on this process's memory. Operations over RDMA are not counted, because only the device sees
   them. */
struct fabric_served {
	uint64_t reads, writes, read_bytes, write_bytes;
};
void fabric_get_served(const struct fabric *fabric, struct fabric_served *ret_served);

/* --- Protection domains and registered memory ------------------------------------------------------------ */

/* The rights of peers to a registered range. This process itself may always use the range for its own operations. */
enum fabric_access {
	FABRIC_LOCAL = 0,
	FABRIC_REMOTE_READ = 1 << 0,
	FABRIC_REMOTE_WRITE = 1 << 1,
};

/* Opens a protection domain. Peers may access a region only over connections of the same domain. So a process that
   gives each peer its own domain keeps the peers apart. */
int fabric_domain_open(struct fabric_domain **ret_domain);
/* Closes @domain. The caller has deregistered its regions and disconnected its connections. NULL is allowed. */
void fabric_domain_close(struct fabric_domain *domain);

/*
 * Registers [@base, @base + @length) in @domain with @access, a mask of enum fabric_access. The caller still owns the
 * memory, and must not unmap it before fabric_deregister() has returned.
 *
 * Errors: -EINVAL (@length is 0), -ENOMEM, -ENOSPC (too many regions in the domain), -EPERM (an RDMA device would
 * exceed the limit on locked memory).
 */
int fabric_register(struct fabric_domain *domain, void *base, size_t length, unsigned access,
		    struct fabric_region **ret_region);
/* Ends a registration. After the return, no operation of a peer reads or writes the memory. NULL is allowed. */
void fabric_deregister(struct fabric_region *region);

/* A peer names registered memory by its address in the owner's process, and by the region's key. */
struct fabric_remote {
	uint64_t address;
	uint32_t rkey;
};
/* Returns the address and key of @region, to be sent to the peer of @conn. With rdma:// the key depends on the device
   of @conn. If this device cannot register the region, logs a line and returns all zero. */
struct fabric_remote fabric_export(const struct fabric_region *region, const struct fabric_conn *conn);

/* --- Connections ----------------------------------------------------------------------------------------- */

/*
 * Listens on @uri ("tcp://127.0.0.1:7470") until fabric_close(). Port 0 chooses a free port. A peer that connects
 * causes a FABRIC_CONNECT_REQUEST event with listener = *ret_listener.
 *
 * Errors: -EINVAL (unknown scheme or malformed address), -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -ENODEV (no RDMA
 * device has this address).
 */
int fabric_listen(struct fabric *fabric, const char *uri, struct fabric_listener **ret_listener);
uint16_t fabric_listener_port(const struct fabric_listener *listener);

/*
 * Starts to connect to @uri. @private_data (@private_size bytes, at most FABRIC_PRIVATE_MAX) is sent along. With
 * rdma:// the private data arrives padded with zeroes. If the host is a name, the first lookup of this name waits up to
 * 5 s for the resolver.
 *
 * Within connect_ms, the fabric reports either FABRIC_ESTABLISHED, or FABRIC_DISCONNECTED with one of these statuses:
 *
 * - -ECONNREFUSED: nothing listens there, or the peer called fabric_reject() (the event then has its private data)
 * - -ETIMEDOUT: connect_ms have passed
 * - -EHOSTUNREACH
 * - -ECONNRESET: the peer closed the connection
 * - -EPROTO: the peer has another protocol
 * - -EPROTONOSUPPORT: the peer has another version of the fabric's protocol
 *
 * Errors of the call itself:
 *
 * - -EINVAL: malformed address
 * - -ENOENT: the name does not resolve
 * - -ETIMEDOUT: the resolver has not answered yet
 * - -ENODEV, -EACCES: no RDMA device, or no permission to use it
 * - -ENOMEM
 */
int fabric_connect(struct fabric *fabric, struct fabric_domain *domain, const char *uri, const void *private_data,
		   size_t private_size, void *user, struct fabric_conn **ret_conn);

/* Accepts a connection after its FABRIC_CONNECT_REQUEST, and lets the peer access the regions of @domain.
   FABRIC_ESTABLISHED follows, or FABRIC_DISCONNECTED if the peer has ended the connection. Returns 0 or -errno. After
   an error, the caller must disconnect @conn. */
int fabric_accept(struct fabric_conn *conn, struct fabric_domain *domain, void *user);
/* Rejects a connection after its FABRIC_CONNECT_REQUEST, and frees @conn. The peer gets -ECONNREFUSED and
   @private_data. */
void fabric_reject(struct fabric_conn *conn, const void *private_data, size_t private_size);

/*
 * Ends a connection in any state, even after its FABRIC_DISCONNECTED, and frees it. After the return, no request on
 * this connection accesses this process's memory, even if the request is on the way already (invariant 6 in
 * docs/architecture.md). No event of @conn follows, so operations in flight get no answer. NULL is allowed.
 *
 * Queued messages of fabric_send() are sent first, if the peer accepts them. With rdma:// the call waits for this, at
 * most 100 ms.
 */
void fabric_disconnect(struct fabric_conn *conn);

/* Returns the peer's address for logs, such as "tcp://127.0.0.1:40312". The string belongs to the connection. */
const char *fabric_conn_peer(const struct fabric_conn *conn);
/* Returns a number that is equal for all incoming connections from one host (see address_origin()), or 0 for an
   outgoing connection. */
uint64_t fabric_conn_origin(const struct fabric_conn *conn);
/* Returns how many bytes of memory an established connection uses in this process. */
size_t fabric_conn_memory(const struct fabric_conn *conn);

/* --- Data path ------------------------------------------------------------------------------------------- */

enum fabric_op_kind { FABRIC_READ, FABRIC_WRITE };

struct fabric_op {
	enum fabric_op_kind kind;
	uint32_t length;                    /* bytes, 1 to FABRIC_OP_MAX */
	void *local;                        /* lies in `region`; the caller must not use it before the answer */
	const struct fabric_region *region; /* a region of the connection's domain */
	struct fabric_remote remote;
	uint64_t cookie; /* copied into the FABRIC_DONE event */
};

/* Posts @count operations in order. Returns how many of them it has posted: fewer than @count if `depth` operations
   are then in flight. Returns -ENOTCONN if the connection is not established. */
int fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count);

/* Returns how many more operations fabric_post() would accept now. */
unsigned fabric_room(const struct fabric_conn *conn);

/* Copies a message of 1 to FABRIC_MESSAGE_MAX bytes and sends it. Returns 0, -ENOTCONN, or -ENOBUFS if too many
   messages are queued, because the peer reads too slowly. */
int fabric_send(struct fabric_conn *conn, const void *message, size_t size);

enum fabric_event_kind {
	FABRIC_CONNECT_REQUEST, /* the user must accept or reject conn; data and size: its private data */
	FABRIC_ESTABLISHED,
	/*
	 * A connection has ended. The events for its operations in flight come first. The status is the reason:
	 *
	 * - -ECONNRESET: the peer is gone
	 * - -EPROTO: the peer violated the protocol, or this side refused an operation of the peer
	 * - -EACCES: the peer refused an operation of this side
	 * - -ETIMEDOUT and others
	 */
	FABRIC_DISCONNECTED,
	FABRIC_MESSAGE,  /* data, size: the message */
	FABRIC_DONE,     /* an operation was answered; cookie: from its fabric_op; status: 0 or -errno */
	FABRIC_READABLE, /* a watched descriptor is readable; user: as given to fabric_watch() */
};

struct fabric_event {
	enum fabric_event_kind kind;
	int status;
	struct fabric_conn *conn;
	struct fabric_listener *listener;
	void *user; /* the user pointer of the connection or of the watch */
	uint64_t cookie;
	const void *data; /* valid until the next fabric_poll() or fabric_wait() on this fabric */
	size_t size;
};

/* Writes the events that have happened to @events. Returns their number, 0 to @max. */
int fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max);

/* Does the same as fabric_poll(), but waits up to @timeout_ms (-1: without limit) for the first event. It polls for
   about spin_us before it sleeps, because polling reacts faster. If no bytes have moved for a while, it sleeps at
   once, so that an idle process uses no CPU time. */
int fabric_wait(struct fabric *fabric, struct fabric_event *events, unsigned max, int timeout_ms);

/*
 * A thread that sleeps in its own poll(2) or epoll(7) adds the descriptor fabric_fd() to the descriptors that wake it.
 * Before it sleeps, the thread calls fabric_arm_until(). If this returns 1, fabric_poll() may have an event now. If it
 * returns 0, the descriptor becomes readable when fabric_poll() may have an event, or at @until (ns of clock_now();
 * UINT64_MAX for never).
 */
int fabric_fd(const struct fabric *fabric);
int fabric_arm_until(struct fabric *fabric, uint64_t until);

/* Watches an eventfd, signalfd or timerfd until fabric_close(). As long as @fd is readable, each fabric_wait() and
   fabric_poll() reports FABRIC_READABLE with @user. Returns 0 or -errno. */
int fabric_watch(struct fabric *fabric, int fd, void *user);

#endif

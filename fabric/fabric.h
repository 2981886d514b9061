/*
 * fabric: one-sided access to a peer's registered memory.
 *
 * Theory of operation. The model is that of RDMA verbs: a reliable, ordered, connected queue pair. A peer registers a
 * range of its memory, and hands out (address, rkey). A process with a connection into the same protection domain may
 * then read and write that range. The peer's program takes no part in this. Operations are posted in batches, and
 * answered in batches. The answers of one connection come in the order of its posts. Small two-sided messages carry
 * control.
 *
 * The peer refuses an operation if address, rkey or length lie outside the registered range. This ends the connection,
 * as a NAK moves a queue pair into the error state. The refused operation is answered with -EACCES. Each operation in
 * flight behind it is answered once, with -ECONNRESET.
 *
 * There are no fences: a read posted before a write may still return that write's data. The same holds for verbs. If
 * this matters, post the write only after the read was answered. A read sees every write posted before it.
 *
 * Backends are const tables of operations, chosen by the scheme of an address:
 *
 *     rdma://HOST:PORT   Queue pairs of an RDMA device. The device does all of the above. The peer's program takes no
 *                        part, and may not learn what its device refused (soft-RoCE tells only the requesting side). On
 *                        iWARP, a refusal looks like -ECONNRESET. A region to write to must also be readable. A write
 *                        past the end of a range may still change the part inside it.
 *     tcp://HOST:PORT    Emulates the above for hosts without an RDMA device. The peer's program checks the range of
 *                        every request.
 *
 * Threads. A `struct fabric`, and all that is created from it (listeners, connections, events), belong to one thread.
 * The fabrics of one process may share a `struct fabric_domain`. Any thread may register and deregister memory, which
 * takes the domain's lock. The data path (fabric_post, fabric_poll) never allocates, logs or locks.
 *
 * Functions return 0 or a positive count on success, and -errno on failure. Outputs are written only on success.
 */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FABRIC_DEFAULT_PORT 7470u
/* Largest private data of a connect or a reject, in bytes. The RDMA connection manager carries no more
   (rdma_connect(3), RDMA_PS_TCP). */
#define FABRIC_PRIVATE_MAX 56
/* Largest two-sided message, in bytes. */
#define FABRIC_MESSAGE_MAX 256
/* Largest single read or write, in bytes. */
#define FABRIC_OP_MAX (1u << 20)
/* The most operations in flight on one connection. The configuration cannot raise this. */
#define FABRIC_DEPTH_MAX 1024

struct fabric;
struct fabric_domain;
struct fabric_region;
struct fabric_listener;
struct fabric_conn;

struct fabric_config {
	unsigned depth; /* operations in flight on a connection, 1 to FABRIC_DEPTH_MAX, 0 for 256 */
	/* How long fabric_wait() polls before it sleeps, in µs. 0 means it sleeps at once. It polls up to eight times
	   as long if answers often come soon after the polling. */
	unsigned spin_us;
	unsigned connect_ms; /* deadline in ms to connect, or to accept a connection, 0 for 2000 */
	/* If no operation is answered for this long although some are in flight, the connection ends with -ETIMEDOUT.
	   The unit is ms. 0 means 800. */
	unsigned io_ms;
};

#define FABRIC_CONFIG_DEFAULT ((struct fabric_config){.depth = 256, .spin_us = 50, .connect_ms = 2000, .io_ms = 800})

/* Opens a fabric for one thread. @config is copied. NULL means the defaults. Returns 0 or -errno. */
int fabric_open(const struct fabric_config *config, struct fabric **ret_fabric);
/* Ends all connections and listeners, without further events, and frees everything. NULL is allowed. */
void fabric_close(struct fabric *fabric);

/* Requests that peers have made of this side's memory. Requests over RDMA never reach this process, and are not here. */
struct fabric_served {
	uint64_t reads, writes, read_bytes, write_bytes;
};
/* Writes the totals since fabric_open(). */
void fabric_get_served(const struct fabric *fabric, struct fabric_served *ret_served);

/* --- Protection domains and registered memory ------------------------------------------------------------ */

/* A peer's rights to a registered range. The range may always be used locally, as source or target of this side's own
   operations. */
enum fabric_access {
	FABRIC_LOCAL = 0,
	FABRIC_REMOTE_READ = 1 << 0,
	FABRIC_REMOTE_WRITE = 1 << 1,
};

/* Opens a protection domain. An rkey is valid only on connections of the domain in which it was made. */
int fabric_domain_open(struct fabric_domain **ret_domain);
/* Closes @domain. Its regions must be deregistered and its connections ended. NULL is allowed. */
void fabric_domain_close(struct fabric_domain *domain);

/*
 * Registers [@base, @base + @length) in @domain. The memory still belongs to the caller, and must outlive the region.
 *
 * Errors: -EINVAL (@length is 0), -ENOMEM, -ENOSPC (too many regions in the domain), -EPERM (the limit on locked
 * memory).
 */
int fabric_register(struct fabric_domain *domain, void *base, size_t length, unsigned access,
		    struct fabric_region **ret_region);
/* Ends a registration. When this returns, no later request with its rkey succeeds. NULL is allowed. */
void fabric_deregister(struct fabric_region *region);

/* The names by which a peer accesses a registered range. */
struct fabric_remote {
	uint64_t address;
	uint32_t rkey;
};
/*
 * Returns the names of @region for the peer at the other end of @conn. With rdma:// the rkey depends on the device. If
 * the device cannot register the region, this logs a line and returns all zero.
 */
struct fabric_remote fabric_export(const struct fabric_region *region, const struct fabric_conn *conn);

/* --- Connections ----------------------------------------------------------------------------------------- */

/*
 * Listens on @uri ("tcp://127.0.0.1:7470") until fabric_close(). Port 0 takes a free port. Connect requests arrive as
 * FABRIC_CONNECT_REQUEST events with listener = *ret_listener.
 *
 * Errors: -EINVAL (unknown scheme or malformed address), -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -ENODEV (no RDMA device
 * at that address).
 */
int fabric_listen(struct fabric *fabric, const char *uri, struct fabric_listener **ret_listener);
/* Returns the listener's port in host byte order. */
uint16_t fabric_listener_port(const struct fabric_listener *listener);

/*
 * Starts to connect to @uri, with @private_size bytes of private data (at most FABRIC_PRIVATE_MAX). With rdma:// the
 * private data arrives padded with zeroes. Names are resolved before this returns, which may block for seconds.
 *
 * One event follows: FABRIC_ESTABLISHED, or FABRIC_DISCONNECTED with a status that tells why. It follows within
 * connect_ms, however many addresses are tried. The status is one of:
 *
 * - -ECONNREFUSED: nothing listens there, or the peer rejected (data and size then hold the reject's private data)
 * - -ETIMEDOUT: after connect_ms
 * - -EHOSTUNREACH
 * - -ECONNRESET: the peer hung up
 * - -EPROTO: the peer has another protocol
 * - -EPROTONOSUPPORT: another version of the fabric's protocol
 *
 * Errors at once:
 *
 * - -EINVAL: malformed address
 * - -ENOENT: the name does not resolve
 * - -ETIMEDOUT: the resolver has not answered yet
 * - -ENODEV, -EACCES: no RDMA device, or no right to use it
 * - -ENOMEM
 */
int fabric_connect(struct fabric *fabric, struct fabric_domain *domain, const char *uri, const void *private_data,
		   size_t private_size, void *user, struct fabric_conn **ret_conn);

/* Answers a FABRIC_CONNECT_REQUEST. The peer may then use the regions of @domain. FABRIC_ESTABLISHED follows. */
int fabric_accept(struct fabric_conn *conn, struct fabric_domain *domain, void *user);
/* Answers a FABRIC_CONNECT_REQUEST. The peer gets -ECONNREFUSED and @private_data. @conn no longer exists. */
void fabric_reject(struct fabric_conn *conn, const void *private_data, size_t private_size);

/*
 * Ends a connection in any state, and frees it. No event of the connection follows, so operations in flight get no
 * answer. After the return, the peer cannot touch this side's memory through this connection (invariant 6 in
 * docs/architecture.md).
 *
 * Every connection must be ended with this, also after its FABRIC_DISCONNECTED. Messages that fabric_send() accepted
 * are delivered first, as far as this is possible without waiting. NULL is allowed.
 */
void fabric_disconnect(struct fabric_conn *conn);

/* Returns a name for logs, such as "tcp://127.0.0.1:40312". The connection owns it. */
const char *fabric_conn_peer(const struct fabric_conn *conn);
/* Returns the host of an incoming connection as a number: an IPv4 address, or that half of an IPv6 address that differs
   between hosts. It is 0 for an outgoing connection. */
uint64_t fabric_conn_origin(const struct fabric_conn *conn);
/* Returns the bytes of this process's memory that an established connection uses by itself. */
size_t fabric_conn_memory(const struct fabric_conn *conn);

/* --- Data path ------------------------------------------------------------------------------------------- */

enum fabric_op_kind { FABRIC_READ, FABRIC_WRITE };

struct fabric_op {
	enum fabric_op_kind kind;
	uint32_t length;                    /* bytes, 1 to FABRIC_OP_MAX */
	void *local;                        /* inside @region; the caller must not touch it until the answer */
	const struct fabric_region *region; /* the region of the local range, in the connection's domain */
	struct fabric_remote remote;
	uint64_t cookie; /* returned in the answer */
};

/*
 * Posts up to @count operations, in order, with one doorbell. Returns how many were accepted: fewer than @count if
 * `depth` operations are in flight, 0 if there is no room. Returns -ENOTCONN if the connection has ended.
 */
int fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count);

/* Returns how many more operations fabric_post() would accept now. */
unsigned fabric_room(const struct fabric_conn *conn);

/* Sends a message of 1 to FABRIC_MESSAGE_MAX bytes, which is copied. Returns 0, -ENOTCONN, or -ENOBUFS if too many
   messages are unsent. */
int fabric_send(struct fabric_conn *conn, const void *message, size_t size);

enum fabric_event_kind {
	FABRIC_CONNECT_REQUEST, /* accept or reject conn; data and size are its private data */
	FABRIC_ESTABLISHED,
	/*
	 * A connection has ended. The answers to all operations in flight have come before. The status tells why:
	 *
	 * - -ECONNRESET: the peer is gone
	 * - -EPROTO: the peer broke the rules
	 * - -EACCES: the peer refused an operation of ours
	 * - -ETIMEDOUT and others
	 */
	FABRIC_DISCONNECTED,
	FABRIC_MESSAGE,  /* data, size */
	FABRIC_DONE,     /* an operation was answered; cookie names it, status is 0 or -errno */
	FABRIC_READABLE, /* a watched descriptor is readable; user is that of fabric_watch() */
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

/* Takes the events that have happened, without waiting. Returns how many events it wrote (0 to @max). */
int fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max);

/*
 * Does the same as fabric_poll(), but waits up to @timeout_ms (-1: for ever) for the first event. It polls for
 * `spin_us`, then sleeps. Between polls it yields the CPU, unless a yield has just taken long. If nothing has moved for
 * a while, it sleeps after one look, so an idle process uses no CPU.
 */
int fabric_wait(struct fabric *fabric, struct fabric_event *events, unsigned max, int timeout_ms);

/*
 * For a thread that sleeps on several descriptors by itself. fabric_arm_until() returns 0, or 1 if fabric_poll() may
 * have an event now. After it has returned 0, fabric_fd() becomes readable when fabric_poll() may have an event, and at
 * @until (ns, by clock_now(); UINT64_MAX means never).
 */
int fabric_fd(const struct fabric *fabric);
int fabric_arm_until(struct fabric *fabric, uint64_t until);

/* Watches a descriptor for reading, until fabric_close(): an eventfd, signalfd or timerfd. It is level-triggered. While
   it is readable, fabric_wait() and fabric_poll() return FABRIC_READABLE with @user. Returns 0 or -errno. */
int fabric_watch(struct fabric *fabric, int fd, void *user);

#endif

/*
 * fabric: one-sided access to a peer's registered memory.
 *
 * Theory of operation. The model is verbs': a reliable, ordered, connected queue pair. A peer registers a
 * range of its memory and hands out (address, rkey); whoever holds a connection into the same protection
 * domain may read and write that range without the peer's program taking part. Operations are posted in
 * batches and answered in batches; the answers of one connection come in the order of its posts. An
 * operation that the far side refuses (address, rkey or length outside what was registered) ends the
 * connection, exactly as a NAK moves a queue pair into the error state: it is answered with -EACCES, every
 * operation still in flight behind it once, with -ECONNRESET. Small two-sided messages carry control.
 *
 * As in verbs without fences, the data of a read may be taken later than a write that was posted behind it is
 * carried out: post such a write when the read has been answered. A read sees every write posted before it.
 *
 * Backends are const tables of operations chosen by the scheme of an address:
 *     rdma://HOST:PORT   queue pairs of an RDMA device, which does all of the above; the peer's program takes no
 *                        part, and may not hear of what its device refused. On iWARP a refusal looks like
 *                        -ECONNRESET, a region to be written to must be readable, too, and of a write past
 *                        the end what lies inside the range may have been carried out
 *     tcp://HOST:PORT    emulates the above for hosts without an RDMA device; registered ranges are
 *                        checked on the target for every request
 *     fault+SCHEME://    the same as SCHEME, with a schedule of delays, drops, flipped bits and
 *                        disconnects (fabric_config.faults) laid over it; for tests
 *
 * Threads. A `struct fabric` and everything created from it (listeners, connections, events) belong to one
 * thread. A `struct fabric_domain` may be shared by several fabrics of one process; registering and
 * deregistering take its lock and may be done by any thread. The data path (fabric_post, fabric_poll)
 * neither allocates, logs nor locks.
 *
 * All functions return 0 or a positive count on success and -errno on failure; outputs are written only on
 * success.
 */
#ifndef FARPAGE_FABRIC_H
#define FARPAGE_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest private data of a connect or a reject, in bytes: what the RDMA CM carries (rdma_connect(3), RDMA_PS_TCP). */
#define FABRIC_PRIVATE_MAX 56
/* Largest two-sided message, in bytes. */
#define FABRIC_MESSAGE_MAX 256
/* Largest single read or write, in bytes. */
#define FABRIC_OP_MAX (1u << 20)
/* Most operations in flight on one connection, whatever the configuration asks for. */
#define FABRIC_DEPTH_MAX 1024

struct fabric;
struct fabric_domain;
struct fabric_region;
struct fabric_listener;
struct fabric_conn;
struct fabric_faults; /* fabric_faults.h: the schedule of the fault+ schemes */

struct fabric_config {
	unsigned depth;      /* operations in flight per connection, 1 .. FABRIC_DEPTH_MAX; 0: 256 */
	unsigned spin_us;    /* how long fabric_wait() polls before it sleeps, µs; 0: it sleeps at once. Up to eight
				times as long where answers come soon after */
	unsigned connect_ms; /* deadline of each step of setting up a connection, ms; 0: 2000 */
	unsigned io_ms; /* an operation that is not answered for so long, nor any before it, ends its connection with
			   -ETIMEDOUT, ms; 0: 800 */
	struct fabric_faults *faults; /* only for fault+ schemes; owned by the caller, outlives the fabric */
};

#define FABRIC_CONFIG_DEFAULT ((struct fabric_config){.depth = 256, .spin_us = 50, .connect_ms = 2000, .io_ms = 800})

/* Opens one thread's fabric. @config is copied; NULL means the defaults. */
int fabric_open(const struct fabric_config *config, struct fabric **ret_fabric);
/* Ends every connection and listener (no further events) and frees all. Takes NULL. */
void fabric_close(struct fabric *fabric);

/* --- Protection domains and registered memory ------------------------------------------------------------ */

/* What a peer may do with a registered range. Local use (as source or target of one's own posts) always may. */
enum fabric_access {
	FABRIC_LOCAL = 0,
	FABRIC_REMOTE_READ = 1 << 0,
	FABRIC_REMOTE_WRITE = 1 << 1,
};

/* A protection domain: an rkey is worth something only on a connection of the domain it was made in. */
int fabric_domain_open(struct fabric_domain **ret_domain);
/* The caller has deregistered every region and ended every connection of the domain. Takes NULL. */
void fabric_domain_close(struct fabric_domain *domain);

/*
 * Registers [@base, @base + @length) in @domain. The memory stays the caller's and must outlive the region.
 * Errors: -EINVAL (length 0), -ENOMEM, -ENOSPC (too many regions in the domain), -EPERM (the limit on locked memory).
 */
int fabric_register(struct fabric_domain *domain, void *base, size_t length, unsigned access,
		    struct fabric_region **ret_region);
/* Its rkey is dead when this returns: no later request with it succeeds. Takes NULL. */
void fabric_deregister(struct fabric_region *region);

/* How a peer names a registered range. */
struct fabric_remote {
	uint64_t address;
	uint32_t rkey;
};
/*
 * What the peer at the other end of @conn must use for @region (over rdma:// the rkey depends on the device). All zero,
 * and a line in the log: the device could not register it.
 */
struct fabric_remote fabric_export(const struct fabric_region *region, const struct fabric_conn *conn);

/* --- Connections ----------------------------------------------------------------------------------------- */

/*
 * Listens on @uri ("tcp://127.0.0.1:7470"; port 0 takes a free one). Connect requests arrive as
 * FABRIC_CONNECT_REQUEST events with listener = *ret_listener.
 * Errors: -EINVAL (no such scheme or a malformed address), -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -ENODEV (no RDMA
 * device at that address).
 */
int fabric_listen(struct fabric *fabric, const char *uri, struct fabric_listener **ret_listener);
/* The port listened on, host byte order. */
uint16_t fabric_listener_port(const struct fabric_listener *listener);
/* Stops listening; its accepted connections go on. Takes NULL. */
void fabric_listener_close(struct fabric_listener *listener);

/*
 * Starts connecting to @uri with @private_size bytes of private data (at most FABRIC_PRIVATE_MAX). Answered by
 * one FABRIC_ESTABLISHED, or one FABRIC_DISCONNECTED whose status tells why: -ECONNREFUSED (nobody listens, or
 * rejected: then data/size hold the reject's private data), -ETIMEDOUT (connect_ms), -EHOSTUNREACH,
 * -ECONNRESET (it hung up), -EPROTO (the peer speaks something else), -EPROTONOSUPPORT (another version of the
 * fabric's protocol). connect_ms covers all of it. Names are resolved before this returns.
 * Errors at once: -EINVAL (address), -ENOENT (name does not resolve), -ENODEV and -EACCES (no RDMA device, or no right
 * to it). Over rdma:// the private data arrives filled up with zeroes.
 */
int fabric_connect(struct fabric *fabric, struct fabric_domain *domain, const char *uri, const void *private_data,
		   size_t private_size, void *user, struct fabric_conn **ret_conn);

/* Answers a FABRIC_CONNECT_REQUEST: the peer may use what is registered in @domain. FABRIC_ESTABLISHED follows. */
int fabric_accept(struct fabric_conn *conn, struct fabric_domain *domain, void *user);
/* Answers a FABRIC_CONNECT_REQUEST: the peer gets -ECONNREFUSED and @private_data; @conn is gone. */
void fabric_reject(struct fabric_conn *conn, const void *private_data, size_t private_size);

/*
 * Ends a connection in any state and frees it: no event of it follows, nothing in flight is answered any more,
 * and the peer cannot touch this side's memory through it after the return (the fence of invariant 6).
 * Every connection is ended with this, also after its FABRIC_DISCONNECTED. Takes NULL.
 * Messages accepted by fabric_send before are delivered first, as far as that takes no waiting.
 */
void fabric_disconnect(struct fabric_conn *conn);

void *fabric_conn_user(const struct fabric_conn *conn);
/* "tcp://127.0.0.1:40312": for logs; owned by the connection. */
const char *fabric_conn_peer(const struct fabric_conn *conn);
/* The host that an incoming connection comes from, as a number: an IPv4 address, or the first half of an IPv6 one. */
uint64_t fabric_conn_origin(const struct fabric_conn *conn);
/* Bytes of this process's memory that an established connection has for itself. */
size_t fabric_conn_memory(const struct fabric_conn *conn);

/* --- Data path ------------------------------------------------------------------------------------------- */

enum fabric_op_kind { FABRIC_READ, FABRIC_WRITE };

struct fabric_op {
	enum fabric_op_kind kind;
	uint32_t length;                    /* bytes, 1 .. FABRIC_OP_MAX */
	void *local;                        /* inside @region; untouched by the caller until the answer */
	const struct fabric_region *region; /* the local range's registration, in the connection's domain */
	struct fabric_remote remote;
	uint64_t cookie; /* comes back in the answer */
};

/*
 * Posts up to @count operations, in order, with one doorbell. Returns how many were taken (fewer when `depth`
 * operations are in flight; 0 when none fits), or -ENOTCONN when the connection has ended.
 */
int fabric_post(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count);

/* How many more operations fabric_post() would take now. */
unsigned fabric_room(const struct fabric_conn *conn);

/* Sends a message of 1 .. FABRIC_MESSAGE_MAX bytes, copied. -ENOTCONN; -ENOBUFS when too many are unsent. */
int fabric_send(struct fabric_conn *conn, const void *message, size_t size);

enum fabric_event_kind {
	FABRIC_CONNECT_REQUEST, /* conn: to be accepted or rejected; data/size: the private data */
	FABRIC_ESTABLISHED,
	FABRIC_DISCONNECTED, /* status: -ECONNRESET the peer went, -EPROTO it broke the rules, -EACCES it refused
				an operation of ours, -ETIMEDOUT, ...;
				comes after the answers of everything that was in flight */
	FABRIC_MESSAGE,      /* data/size */
	FABRIC_DONE,         /* the answer to one operation: cookie, status 0 or -errno */
	FABRIC_READABLE,     /* a watched descriptor can be read: user is fabric_watch()'s */
};

struct fabric_event {
	enum fabric_event_kind kind;
	int status;
	struct fabric_conn *conn;
	struct fabric_listener *listener;
	void *user; /* the connection's, or the watch's */
	uint64_t cookie;
	const void *data; /* valid until the next fabric_poll or fabric_wait on this fabric */
	size_t size;
};

/* Takes what has happened, without waiting; returns how many events were written (0 .. @max). */
int fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max);

/*
 * Like fabric_poll, but waits up to @timeout_ms (-1: for ever) for the first event: polls for `spin_us`, giving
 * the CPU to whoever else wants it, then sleeps. Spinning starts anew with each call; a thread that was idle for
 * long sleeps at once after one look, so an idle process uses no CPU.
 */
int fabric_wait(struct fabric *fabric, struct fabric_event *events, unsigned max, int timeout_ms);

/*
 * For a thread that sleeps on several things by itself: fabric_fd() becomes readable when there is something to
 * poll after fabric_arm() returned 0; fabric_arm() returns 1 when there is something right now.
 */
int fabric_fd(const struct fabric *fabric);
int fabric_arm(struct fabric *fabric);
/* The same; and fabric_fd() becomes readable at @until (ns, of clock_now(); UINT64_MAX: never), too. */
int fabric_arm_until(struct fabric *fabric, uint64_t until);

/* Watches a descriptor (eventfd, signalfd, timerfd) for reading, level-triggered, in fabric_wait. */
int fabric_watch(struct fabric *fabric, int fd, void *user);
void fabric_unwatch(struct fabric *fabric, int fd);

#endif

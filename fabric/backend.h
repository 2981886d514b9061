/*
 * backend: the interface of a backend (tcp, verbs) to fabric.c and wait.c. Only inside fabric/.
 *
 * Theory of operation. A backend embeds the structs of this file in its own structs. It owns its connections and adds
 * their descriptors to the fabric's poller as sources. wait.c calls the backend's poll(), and arm() before the fabric
 * sleeps. poll() looks only at active connections, which expect input soon. When the poller reports a source, its
 * connection becomes active. So each connection that is not active must have an armed source.
 */
#ifndef FABRIC_BACKEND_H
#define FABRIC_BACKEND_H

#include "common/uri.h"
#include "fabric/fabric.h"
#include "fabric/poller.h"

#define BACKEND_NEVER UINT64_MAX
#define BACKEND_PEER_MAX URI_TEXT_MAX

struct fabric_conn {
	const struct fabric_backend *backend;
	struct fabric *fabric;
	struct fabric_domain *domain; /* NULL until accepted */
	void *user;
	uint64_t origin; /* address_origin() of the peer of an incoming connection; 0 for an outgoing one */
	char peer[BACKEND_PEER_MAX];
};

struct fabric_listener {
	struct fabric *fabric;
	uint16_t port;
};

/* The array that fabric_poll() fills for its caller. A backend's poll() appends events to it. */
struct backend_events {
	struct fabric_event *events;
	unsigned count, max;
};

static inline bool backend_events_full(const struct backend_events *out)
{
	return out->count == out->max;
}

/* The array must not be full. Appends an event with @kind, @conn and the connection's user; the other fields are
   zero. */
static inline struct fabric_event *backend_event(struct backend_events *out, enum fabric_event_kind kind,
						 struct fabric_conn *conn)
{
	struct fabric_event *event = &out->events[out->count++];

	*event = (struct fabric_event){.kind = kind, .conn = conn, .user = conn->user};
	return event;
}

/* The operations of a backend. They return the errors that fabric.h lists. open() is called first: it makes the
   backend's state for one fabric. */
struct fabric_backend {
	const char *scheme;
	int (*open)(struct fabric *fabric, void **ret_state);
	void (*close)(void *state);

	int (*listen)(void *state, const struct uri *uri, struct fabric_listener **ret_listener);
	int (*connect)(void *state, struct fabric_domain *domain, const struct uri *uri, const void *private_data,
		       size_t private_size, struct fabric_conn **ret_conn);
	int (*accept)(struct fabric_conn *conn); /* the caller has set conn->domain */
	void (*reject)(struct fabric_conn *conn, const void *private_data, size_t private_size);
	void (*disconnect)(struct fabric_conn *conn);

	struct fabric_remote (*export)(const struct fabric_region *region, const struct fabric_conn *conn);
	int (*post)(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count);
	unsigned (*room)(const struct fabric_conn *conn);
	size_t (*memory)(const struct fabric_conn *conn);
	int (*send)(struct fabric_conn *conn, const void *message, size_t size);

	/* Writes events. Returns true if bytes moved. Bytes can move without an event, for example when a peer's
	   request is served. */
	bool (*poll)(void *state, struct backend_events *out);
	/* Returns true if any connection is active. poll() may then find input before the poller reports it, so it pays
	   to poll again soon. */
	bool (*hot)(const void *state);
	/* Returns true if poll() can make progress at once, for example because the array of events was full. */
	bool (*ready)(const void *state);
	void (*arm)(void *state);
	/* Returns the time at which the fabric must call expire(), in ns of clock_now(), or BACKEND_NEVER. */
	uint64_t (*deadline)(const void *state);
	void (*expire)(void *state, uint64_t now);
};

extern const struct fabric_backend tcp_backend, verbs_backend;

/* Functions of fabric.c and wait.c for backends. */
struct poller *fabric_poller(struct fabric *fabric);
const struct fabric_config *fabric_get_config(const struct fabric *fabric);
/* Must be called after posting an operation, so that fabric_wait() spins for the answer. */
void fabric_touch(struct fabric *fabric);
/* Count one read or write of @bytes of this process's memory by a peer. */
void fabric_count_read(struct fabric *fabric, uint32_t bytes);
void fabric_count_write(struct fabric *fabric, uint32_t bytes);
/* Returns true if a line about a peer's mistake may be logged now. Counts the line (common/log_limit.h). */
bool fabric_may_tell(struct fabric *fabric);

#endif

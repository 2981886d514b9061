/*
 * backend: the operations of a kind of fabric (tcp, verbs), and the structs that all kinds share. Only inside fabric/.
 *
 * Theory of operation. wait.c owns waiting, watches and time. A backend owns its connections. Its structs begin with or
 * contain the structs of this file. It adds its descriptors to the fabric's poller. Its poll() looks at the active
 * connections, and at those whose sources the poller has reported. The sources of all other connections are armed.
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
	uint64_t origin; /* address_origin() of a peer that connected to us; else 0 */
	char peer[BACKEND_PEER_MAX];
};

struct fabric_listener {
	struct fabric *fabric;
	uint16_t port;
};

/* The caller's array, where poll() writes events. */
struct backend_events {
	struct fabric_event *events;
	unsigned count, max;
};

static inline bool backend_events_full(const struct backend_events *out)
{
	return out->count == out->max;
}

/* Appends an event. Sets its kind, connection and user; the other fields are zero. There must be room. */
static inline struct fabric_event *backend_event(struct backend_events *out, enum fabric_event_kind kind,
						 struct fabric_conn *conn)
{
	struct fabric_event *event = &out->events[out->count++];

	*event = (struct fabric_event){.kind = kind, .conn = conn, .user = conn->user};
	return event;
}

/* The operations of a backend. Errors are those of fabric.h. Until open() has made a fabric's state, no other operation
   is called. */
struct fabric_backend {
	const char *scheme;
	int (*open)(struct fabric *fabric, void **ret_state);
	void (*close)(void *state);

	int (*listen)(void *state, const struct uri *uri, struct fabric_listener **ret_listener);
	int (*connect)(void *state, struct fabric_domain *domain, const struct uri *uri, const void *private_data,
		       size_t private_size, struct fabric_conn **ret_conn);
	int (*accept)(struct fabric_conn *conn); /* conn->domain is set */
	void (*reject)(struct fabric_conn *conn, const void *private_data, size_t private_size);
	void (*disconnect)(struct fabric_conn *conn);

	struct fabric_remote (*export)(const struct fabric_region *region, const struct fabric_conn *conn);
	int (*post)(struct fabric_conn *conn, const struct fabric_op *ops, unsigned count);
	unsigned (*room)(const struct fabric_conn *conn);
	size_t (*memory)(const struct fabric_conn *conn);
	int (*send)(struct fabric_conn *conn, const void *message, size_t size);

	/* Writes events. Returns true if bytes moved, even if they made no event, as when a request was served. */
	bool (*poll)(void *state, struct backend_events *out);
	/* Returns true if poll() may find bytes or completions before the poller reports them, so that polling again
	   soon pays. */
	bool (*hot)(const void *state);
	/* Returns true if the last poll() left work over, so that the next poll makes progress. */
	bool (*ready)(const void *state);
	/* Arms every source, because the fabric is about to sleep. */
	void (*arm)(void *state);
	/* Returns when expire() must be called next, in ns of clock_now(), or BACKEND_NEVER. */
	uint64_t (*deadline)(const void *state);
	void (*expire)(void *state, uint64_t now);
};

extern const struct fabric_backend tcp_backend, verbs_backend;

/* Parts of the fabric that backends use. */
struct poller *fabric_poller(struct fabric *fabric);
const struct fabric_config *fabric_get_config(const struct fabric *fabric);
/* Notes that an operation was posted, so that fabric_wait() spins for its answer. */
void fabric_touch(struct fabric *fabric);
/* Counts a request of a peer for @bytes of this side's memory. */
void fabric_count_read(struct fabric *fabric, uint32_t bytes);
void fabric_count_write(struct fabric *fabric, uint32_t bytes);
/* Counts a log line about a peer (log_limit.h). Returns true if the line may be logged. */
bool fabric_may_tell(struct fabric *fabric);

#endif

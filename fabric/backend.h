/*
 * backend: what a kind of fabric (tcp, verbs) provides, and what all share. Only inside fabric/.
 *
 * Theory of operation. wait.c owns waiting, watches and time; a backend owns its connections. A backend begins its
 * structs with the ones here. It adds its descriptors to the fabric's poller, and is asked by poll() for what has
 * happened: it then looks at those connections that can have something, and at those whose sources the poller has
 * told of. The sources of the others are armed. The fault layer (faults.h) is a backend too, whose connections each own
 * one of another backend's.
 */
#ifndef FABRIC_BACKEND_H
#define FABRIC_BACKEND_H

#include "common/uri.h"
#include "fabric/poller.h"
#include "farpage/fabric.h"

#define BACKEND_NEVER UINT64_MAX
#define BACKEND_PEER_MAX URI_TEXT_MAX

struct fabric_conn {
	const struct fabric_backend *backend;
	struct fabric *fabric;
	struct fabric_domain *domain; /* NULL until accepted */
	void *user;
	struct fabric_conn *outer; /* the fault layer's connection around this one, or NULL */
	uint64_t origin;           /* address_origin() of who came; 0: it is ours */
	char peer[BACKEND_PEER_MAX];
};

struct fabric_listener {
	const struct fabric_backend *backend;
	struct fabric *fabric;
	uint16_t port;
	bool faults; /* opened as fault+SCHEME */
};

/* Where poll() writes. */
struct backend_events {
	struct fabric_event *events;
	unsigned count, max;
};

static inline bool backend_events_full(const struct backend_events *out)
{
	return out->count == out->max;
}

/* The next event, all zero but for kind, connection and its user. There is room. */
static inline struct fabric_event *backend_event(struct backend_events *out, enum fabric_event_kind kind,
						 struct fabric_conn *conn)
{
	struct fabric_event *event = &out->events[out->count++];

	*event = (struct fabric_event){.kind = kind, .conn = conn, .user = conn->user};
	return event;
}

/* Errors as in fabric.h. A backend without one thread's state is not yet in use: its other operations are not called.
 */
struct fabric_backend {
	const char *scheme;
	int (*open)(struct fabric *fabric, void **ret_state);
	void (*close)(void *state);

	int (*listen)(void *state, const struct uri *uri, struct fabric_listener **ret_listener);
	void (*listener_close)(struct fabric_listener *listener);
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

	/* Writes events. True: bytes moved, also where that made no event (a request was served). */
	bool (*poll)(void *state, struct backend_events *out);
	/* Something may come that poll() sees before the poller tells of it: it is worth calling again soon. */
	bool (*hot)(const void *state);
	/* Something is left over from the last poll(): calling it again will make progress. */
	bool (*ready)(const void *state);
	/* Arms every source that may be waited for: the fabric is about to sleep. */
	void (*arm)(void *state);
	/* When expire() wants to be called next, ns of clock_now(); BACKEND_NEVER. */
	uint64_t (*deadline)(const void *state);
	void (*expire)(void *state, uint64_t now);
};

extern const struct fabric_backend tcp_backend, verbs_backend;

/* The fabric's parts that backends use. */
struct poller *fabric_poller(struct fabric *fabric);
const struct fabric_config *fabric_get_config(const struct fabric *fabric);
/* Something was posted: fabric_wait() spins for its answer. */
void fabric_touch(struct fabric *fabric);
/* Before a line about what a peer did: returns false if there were too many, then it is counted (log_limit.h). */
bool fabric_may_tell(struct fabric *fabric);

#endif

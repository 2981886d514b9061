/*
 * donor: the state of a running farpage-memserver: the lease book, the memory of the slabs, and all connections.
 *
 * Theory of operation. The lease book decides (lease.h), and this module acts. After each event reported to the
 * book, donor_settle() takes the book's actions and performs them: it sends messages, ends connections, and orders
 * the slab worker to prepare and clear memory. The events come from these places:
 *
 *   connection.c           messages and connections of clients
 *   donor_slabs_ready()    answers of the slab worker
 *   donor_tick()           time
 *   shrink.c               how many slabs the machine can spare
 *
 * Isolation. Every session has a protection domain of its own. The session's data connections are accepted into that
 * domain, and its slabs are registered there. Session connections belong to the lobby, an empty domain, so they reach
 * no memory. The slab worker registers memory, and ends the registration before it releases the memory. A session's
 * domain therefore stays open until the worker is done with the session's last slab, even if the session has ended.
 *
 * Threads. One thread owns the donor. It reaches the slab worker only through the worker's queues.
 */
#ifndef MEMSERVER_DONOR_H
#define MEMSERVER_DONOR_H

#include "common/log_limit.h"
#include "common/patience.h"
#include "fabric/fabric.h"
#include "memserver/keyring.h"
#include "memserver/lease.h"
#include "memserver/slab.h"
#include "memserver/watchdog.h"

#include <stdbool.h>
#include <stdint.h>

struct connection;

struct donor_config {
	const struct keyring *keys; /* lives as long as the donor; NULL or empty if clients need no key */
	const char *failure_domain; /* lives as long as the donor; a valid name (wire.h), or NULL */
	const char *drain_file;     /* lives as long as the donor; see drain_file.h; or NULL */
	struct lease_limits limits;
	struct slab_config slabs;
	struct fabric_config fabric;
};

struct donor_session {
	struct fabric_domain *domain;  /* NULL if there is no session */
	struct connection *connection; /* the session connection, or NULL */
	struct connection *data;       /* list of data connections */
	char name[2 * 4 + 1];          /* first 4 bytes of the client id in hex, for logs */
	char from[WIRE_ADDRESS_SIZE];  /* address of the last session connection */
	struct wire_about about;       /* what the client said about itself when it last came; it may have lied */
	uint64_t since;                /* clock_now() when the client got its first slab, or 0 if it has got none */
	bool admin;                    /* the client proved an admin key */
};

/* Kinds of log lines that clients and strangers can cause. Each kind has a rate limit. */
enum donor_line {
	DONOR_REFUSALS, /* refused strangers */
	DONOR_MISTAKES, /* mistakes of clients that have proved themselves */
	DONOR_VISITS,   /* clients that come and go */
	DONOR_LEASES,   /* slabs that come and go */
	DONOR_LACKS,    /* lack of memory or another resource for a client */
	DONOR_ACTS,     /* administrative requests without the admin key */
	DONOR_LINES
};

/* Why connections and handshakes are refused: an enum wire_reason, or one of these. */
enum { DONOR_REFUSED_CROWD = WIRE_REASON_COUNT, DONOR_REFUSED_LATE, DONOR_REFUSED_COUNT };

/* Totals since the start, for metrics. The donor's thread counts. */
struct donor_totals {
	uint64_t refused[DONOR_REFUSED_COUNT];
	uint64_t granted, recalled, returned, taken; /* slabs */
	uint64_t vanished;                           /* clients */
};

struct donor {
	struct donor_config config;
	uint64_t incarnation;     /* random; shows a returning client that the donor was restarted */
	struct patience patience; /* the clock for all the donor's deadlines; see donor_now() */
	struct fabric *fabric;
	struct fabric_domain *lobby;
	struct lease_book *book;
	struct slab_worker *worker;
	struct donor_session *sessions; /* one per session of the book */
	struct fabric_region **regions; /* per slab; NULL unless leased */
	struct fabric_domain **domains; /* per slab: where its memory is, or will be, registered; or NULL */
	struct connection *handshakes;  /* list of connections that have proved nothing yet */
	unsigned handshake_count;
	bool deaf_clients; /* some connection is marked deaf */
	bool drained;      /* an operator's drain is complete, and was logged */
	bool suspended;    /* the program is about to be replaced, and no client may connect */
	struct donor_totals totals;
	struct watchdog watchdog;
	struct log_limit lines[DONOR_LINES];
};

/*
 * Opens a donor. The caller has blocked all signals (slab.h). Returns 0, or the -errno of the part that failed
 * (-ENOMEM, -EMFILE, ...) after one logged line.
 */
int donor_open(const struct donor_config *config, struct donor **ret_donor);
/* Returns the loop's clock in ns. The clock stands still while the loop gets no CPU, so that a lack of CPU ends no
   session. */
uint64_t donor_now(const struct donor *donor);
/* Ends all connections and frees all slabs. Accepts NULL and a partly opened donor. */
void donor_close(struct donor *donor);

/*
 * Gives a session of the book its protection domain and its name, unless the session has them already. Returns 0, or
 * -errno after at most one logged line.
 */
int donor_session_open(struct donor *donor, uint32_t session);
/* Performs the book's actions until none is left. Call it after every event reported to the book. */
void donor_settle(struct donor *donor);
/*
 * Ends the connections of clients that do not read their messages, or that were given up. Do not call it while an event
 * from the fabric is unhandled, because the event may belong to one of these connections.
 */
void donor_end_deaf(struct donor *donor);
/*
 * Returns for how long the session's client has held slabs, in ns: the time since it got its first slab, or 0 if it has
 * got none. This time also passes while the client is away, and while the loop gets no CPU.
 */
uint64_t donor_held_ns(const struct donor *donor, uint32_t session);
/* Takes the slab worker's answers. Call it when slab_fd() is readable. */
void donor_slabs_ready(struct donor *donor);
/* Does the work that is due at @now: handshakes that took too long, log limits, the book's deadlines. */
void donor_tick(struct donor *donor, uint64_t now);
/* Returns when to call donor_tick() next, in ns, or UINT64_MAX for never. */
uint64_t donor_deadline(const struct donor *donor);

/* Sets how many slabs may be in use; see lease_target(). */
void donor_target(struct donor *donor, uint64_t now, uint32_t target, bool pressed);
/* Starts, changes or ends a drain, see lease_drain(). Logs which @session asked for it. */
void donor_drain(struct donor *donor, uint64_t now, uint32_t session, enum wire_drain what, uint64_t within_ns);

/*
 * Converts a quota of @bytes to a number of slabs, at least 1. Returns 0 (no limit) if @bytes is 0, or as much as
 * LEASE_SLABS_MAX slabs or more.
 */
uint32_t donor_quota_slabs(const struct donor *donor, uint64_t bytes);

/* Writes the key and address of a session, for logs of administrative acts: "key admin, tcp://10.0.0.7:40312". */
#define DONOR_WHO_MAX (WIRE_ADDRESS_SIZE + LEASE_OWNER_SIZE + 8)
void donor_who(const struct donor *donor, uint32_t session, char who[DONOR_WHO_MAX]);

/*
 * Takes over the settings that may change at run time: keys, quotas, grace time, and the time to take slabs back.
 * @before has the keys that were valid before the reload.
 */
void donor_reload(struct donor *donor, const struct donor_config *config, const struct keyring *before);

/*
 * Tells all clients that the program is about to be replaced, and refuses connections from now on. A client that
 * then disconnects keeps its leases for its whole grace time. donor_resume() cancels this.
 */
void donor_suspend(struct donor *donor);
void donor_resume(struct donor *donor);
/* Returns true if some session is connected. */
bool donor_has_clients(const struct donor *donor);

/* Logs which slabs are still leased, then ends all sessions. */
void donor_leave(struct donor *donor);

/* Returns true if one more line of this kind may be logged. Otherwise counts the line for a later summary. */
bool donor_may_tell(struct donor *donor, enum donor_line kind);

/* Returns the number of refused connections and handshakes. */
uint64_t donor_refused(const struct donor *donor);
/* Writes a status line: "lending 3 of 16 slabs (192M of 1G) to 2 clients; draining; 7 refused". */
#define DONOR_STATUS_MAX 160
void donor_status(const struct donor *donor, char text[DONOR_STATUS_MAX]);

#endif

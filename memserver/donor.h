/*
 * donor: what a running farpage-memserver has: the book of leases, the memory of slabs, and everybody connected.
 *
 * Theory of operation. The lease book decides (lease.h); this module carries out: donor_settle() takes the book's
 * answers and does them (register, deregister, order memory, end connections, send). It is called after each event
 * handed to the book. peer.c hands in what clients say, donor_slabs_ready() what the slab worker did, and
 * donor_tick() the time; shrink.c says how many slabs the machine can spare.
 *
 * Isolation. Every session has a protection domain of its own, which its data connections are accepted into and its
 * slabs registered in; session connections live in the lobby, an empty domain, so that nothing can be reached
 * through them. A slab's region is deregistered before its memory is given back. Registering is the slab worker's, so
 * a session's domain stays open until the worker is done with the last slab of it, also when the session is gone.
 *
 * Threads. One thread owns all of this; the slab worker is reached through its queues only.
 */
#ifndef MEMSERVER_DONOR_H
#define MEMSERVER_DONOR_H

#include "common/log_limit.h"
#include "common/patience.h"
#include "farpage/fabric.h"
#include "memserver/keyring.h"
#include "memserver/lease.h"
#include "memserver/slab.h"

#include <stdbool.h>
#include <stdint.h>

struct peer;

struct donor_config {
	const struct keyring *keys; /* lives as long as the donor; NULL or empty: clients need none */
	const char *failure_domain; /* likewise: a good name (wire.h), or NULL */
	const char *drain_file;     /* likewise: see drain_file.h, or NULL */
	struct lease_limits limits;
	struct slab_config slabs;
	struct fabric_config fabric;
};

struct donor_session {
	struct fabric_domain *domain; /* NULL: no such session */
	struct peer *peer;            /* its session connection; NULL while it has none */
	struct peer *data;            /* its data connections, a list */
	char name[2 * 4 + 1];         /* the beginning of its id, for logs */
	char from[WIRE_PEER_SIZE];    /* where its session connection came from last */
	bool admin;                   /* it proved the admin key */
};

/* Lines that others can cause as often as they like. */
enum donor_line {
	DONOR_REFUSALS, /* of strangers */
	DONOR_MISTAKES, /* of clients that had proved themselves */
	DONOR_VISITS,   /* clients that come and go */
	DONOR_LEASES,   /* slabs that come and go */
	DONOR_LACKS,    /* what could not be had for a client */
	DONOR_ACTS,     /* of administration, without the admin key */
	DONOR_LINES
};

struct donor {
	struct donor_config config;
	uint64_t incarnation;     /* random: a client that comes back sees whether it is the same donor */
	struct patience patience; /* of all its deadlines; donor_now() */
	struct fabric *fabric;
	struct fabric_domain *lobby;
	struct lease_book *book;
	struct slab_worker *worker;
	struct donor_session *sessions; /* as many as the book's */
	struct fabric_region **regions; /* per slab; NULL unless leased */
	struct fabric_domain **domains; /* per slab: in which its memory is, or is about to be, registered; or NULL */
	struct peer *handshakes;        /* connections that have not proved anything yet, a list */
	unsigned handshake_count;
	bool deaf_clients;      /* some peer is marked deaf */
	uint64_t refused_count; /* connections and handshakes refused */
	struct log_limit lines[DONOR_LINES];
};

/* -ENOMEM, -EMFILE, ... : of the parts it opens; logged. All signals are blocked by the caller (slab.h). */
int donor_open(const struct donor_config *config, struct donor **ret_donor);
/* The loop's clock, ns: it stands still while the loop has no processor, so that no client pays for that. */
uint64_t donor_now(const struct donor *donor);
/* Ends every connection, frees every slab. Takes NULL and half-built ones. */
void donor_close(struct donor *donor);

/* Does what the book wants done, until it wants nothing more. After every event handed to the book. */
void donor_settle(struct donor *donor);
/* Ends the connections of clients that did not take what was sent to them, or were given up. Not while an event that
   the fabric has told is yet to be handled: it might be theirs. */
void donor_end_deaf(struct donor *donor);
/* slab_fd() is readable. */
void donor_slabs_ready(struct donor *donor);
/* Time has passed. */
void donor_tick(struct donor *donor, uint64_t now);
/* When donor_tick() is next worth calling, ns; UINT64_MAX: never. */
uint64_t donor_deadline(const struct donor *donor);

/*
 * How many slabs may be in use from now on, see lease_target(); and draining, see lease_drain(), in the name of a
 * session, which is logged.
 */
void donor_target(struct donor *donor, uint64_t now, uint32_t target, bool pressed);
void donor_drain(struct donor *donor, uint64_t now, uint32_t session, enum wire_drain what, uint64_t within_ns);

/* A quota in bytes as slabs, of which there is at least one; 0: no limit. */
uint32_t donor_quota_slabs(const struct donor *donor, uint64_t bytes);

/* Who a session is, for the line that an administrative act leaves: "key admin, tcp://10.0.0.7:40312". */
#define DONOR_WHO_MAX (WIRE_PEER_SIZE + LEASE_OWNER_SIZE + 8)
void donor_who(const struct donor *donor, uint32_t session, char who[DONOR_WHO_MAX]);

/* Takes over what may change while it runs: keys, grace, quotas, the time to take slabs back. */
void donor_reload(struct donor *donor, const struct donor_config *config, const struct keyring *before);

/* Says what is still leased, then ends all sessions. */
void donor_leave(struct donor *donor);

/* Returns true if one more line of this kind may be logged; otherwise it is counted, and told of later. */
bool donor_may_tell(struct donor *donor, enum donor_line kind);

/* "lending 3 of 16 slabs (192M of 1G) to 2 clients; 7 strangers refused" */
#define DONOR_STATUS_MAX 160
void donor_status(const struct donor *donor, char text[DONOR_STATUS_MAX]);

#endif

/*
 * lease: records which client leases which slab and for how long, and decides which slabs the donor takes back.
 *
 * Theory of operation. The lease book is a pure state machine of sessions and slabs. It does no I/O and reads no clock.
 * The caller reports each event with one function, and passes `now` where time matters. After each event the caller
 * takes all actions with lease_next(), and performs each action before it reports the next event. A history of events
 * therefore replays to the same actions.
 *
 *   session   free -> active (the session connection stands) -> grace (the client vanished, its leases wait) -> free
 *   slab      free -> preparing (memory is allocated) -> leased -> clearing (memory is released) -> free
 *                                                       leased -> revoking -> clearing, or leased again
 *
 * When a client vanishes, its session loses its connections at once, and its leases after the grace time. A session
 * without leases ends at once. If the client vanishes before the answer to its LEASE, the book clears the slab that is
 * being prepared.
 *
 * If a client with the same id proves itself within the grace time, the session continues with its leases. The client's
 * old connections are fenced first, in case the donor has not noticed their end. The returning client claims each slab
 * it knows of, and then sends CLAIMED. The book then clears the session's other slabs: the message that granted or
 * released such a slab was lost.
 *
 * Taking slabs back. The caller sets how many slabs may be lent (lease_target()) and whether the donor drains
 * (lease_drain()). The book first gives up slabs that are being prepared. It then recalls leased slabs (state
 * "revoking", message REVOKE) in this order:
 *
 * 1. slabs of active sessions before slabs of vanished clients, because only an active client can move its pages away
 * 2. slabs with the lowest warmth
 * 3. slabs that have been leased longest
 *
 * The client may use a recalled slab until the deadline. If a returning client claims the slab, the book tells it again
 * of the recall. The client has 8/10 of the time between recall and release (`revoke_ns`). Its last requests can end in
 * the next tenth. Then the book takes the slab, and the last tenth is for clearing it. While more slabs are in use than
 * the caller allows, or while the donor drains, the book grants nothing.
 *
 * A connection holds few unsent messages. The book therefore sends a client at most LEASE_NOTICES notices, and
 * further notices only after a message from the client. A PING after the last notice makes the client answer. When
 * a slab is taken, its memory is released at once. But the slab is not lent again before its client is told.
 *
 * Time is in ns, of any monotonic clock. One thread owns the book. lease_open() allocates everything.
 */
#ifndef MEMSERVER_LEASE_H
#define MEMSERVER_LEASE_H

#include "wire/auth.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define LEASE_SLABS_MAX (1u << 16)
#define LEASE_SESSIONS_MAX 1024u
#define LEASE_NO_SESSION UINT32_MAX
#define LEASE_OWNER_SIZE WIRE_KEY_NAME_SIZE
/* A client has vanished after this many heartbeat periods without a message from it. */
#define LEASE_HEARTBEATS_MISSED 4u
/*
 * Size of the replay window of data connection counters. Counters may arrive out of order, because a client's queues
 * connect at the same time.
 */
#define LEASE_COUNTERS 64u
/* The most notices about slabs that a client gets between two of its messages. A connection holds twice as many
   messages. */
#define LEASE_NOTICES 16u
#define LEASE_NEVER UINT64_MAX

/* The outcome of a PREPARE. */
enum lease_outcome {
	LEASE_READY,
	LEASE_NO_MEMORY, /* no memory is available, or the client's device cannot reach it */
};

struct lease_limits {
	uint32_t slabs; /* 1 .. LEASE_SLABS_MAX */
	uint64_t slab_bytes;
	uint32_t sessions;      /* 1 .. LEASE_SESSIONS_MAX */
	uint32_t session_slabs; /* maximum for one session, or 0 for no limit */
	uint32_t session_conns; /* maximum number of data connections of one session */
	uint64_t grace_ns;      /* upper bound of the grace time that a client asks for */
	uint64_t heartbeat_ns;
	uint64_t revoke_ns; /* from the recall of a slab until its memory is released */
};

enum lease_session_state { LEASE_SESSION_FREE, LEASE_SESSION_ACTIVE, LEASE_SESSION_GRACE, LEASE_SESSION_STATES };
enum lease_slab_state {
	LEASE_SLAB_FREE,
	LEASE_SLAB_PREPARING,
	LEASE_SLAB_LEASED,
	LEASE_SLAB_REVOKING,
	LEASE_SLAB_CLEARING,
	LEASE_SLAB_STATES
};

struct lease_session {
	enum lease_session_state state;
	uint8_t id[WIRE_ID_SIZE];
	uint8_t key[AUTH_KEY_SIZE];
	uint64_t counter;             /* the highest accepted data connection counter under `key` */
	uint64_t counters;            /* replay window: bit i is set if `counter` - i is used up */
	uint32_t conns;               /* data connections */
	uint32_t slabs;               /* preparing, leased and revoking */
	uint32_t unheard;             /* notices sent since the client was last heard from */
	char owner[LEASE_OWNER_SIZE]; /* name of the key that the client proved, or "" for none */
	uint32_t owner_slabs;         /* maximum for all sessions of this owner, or 0 for no limit */
	uint64_t grace_ns;            /* granted grace time */
	uint64_t closed_ns;           /* grace time if the client's side closes the connection; at most grace_ns */
	uint64_t heard_at;            /* while active: time of the last message from the client */
	uint64_t said_at;             /* while active: time of the last message to the client */
	uint64_t vanished_at;         /* while in grace */
};

struct lease_slab {
	enum lease_slab_state state;
	bool claimed;        /* the client knows that it has this slab */
	bool unwanted;       /* preparing: once ready, the slab is cleared instead of granted */
	bool drained;        /* revoking: recalled only because of lease_drain() */
	bool taken;          /* clearing: taken at the deadline, not released by the client */
	bool cleared;        /* clearing, taken: the memory is released, but the client is still to be told */
	bool untold;         /* the client is still to be told that the slab is recalled, kept or taken */
	uint32_t session;    /* owner; while clearing: the session that gets the answer; or LEASE_NO_SESSION */
	uint32_t request;    /* id of the LEASE (preparing) or RELEASE (clearing) to answer */
	uint32_t generation; /* grows with each lease, so that the name of an ended lease is invalid */
	uint32_t warmth;     /* pages per second, as last reported by the client */
	uint64_t order;      /* grows with each grant; the lowest has been leased longest */
	uint64_t until;      /* revoking: the client's deadline, or LEASE_NEVER */
	uint64_t take_at;    /* revoking: when the book takes the slab, or LEASE_NEVER */
};

enum lease_action_kind {
	LEASE_PREPARE,  /* slab, session: allocate and register memory for the session; answer with lease_prepared() */
	LEASE_ABANDON,  /* slab: the memory in preparation is not needed; still answer with lease_prepared() */
	LEASE_GRANT,    /* session, slab, name, request: tell the client */
	LEASE_CONFIRM,  /* session, slab, name, request: tell the client that its claim is good */
	LEASE_DENY,     /* session, request, reason: tell the client */
	LEASE_CLEAR,    /* slab: deregister it, then release its memory; answer with lease_cleared() */
	LEASE_RETURNED, /* session, slab, name, request: tell the client that the slab is released */
	LEASE_REVOKE,   /* session, slab, name, until: tell the client to move its pages away */
	LEASE_KEEP,     /* session, slab, name: tell the client that the recall is void */
	LEASE_TAKEN,    /* session, slab, name: tell the client that the donor takes the slab */
	LEASE_PING,     /* session: send PING: the donor was silent for a heartbeat, or needs an answer */
	LEASE_FENCE,    /* session: end its session connection and all its data connections before any other action */
	LEASE_FORGET,   /* session: it has ended; its domain may be closed once no slab needs the domain */
};

struct lease_action {
	enum lease_action_kind kind;
	uint32_t session;
	uint32_t slab; /* index */
	uint64_t name; /* the slab's name on the wire */
	uint32_t request;
	uint16_t reason; /* enum wire_reason */
	uint64_t until;  /* LEASE_REVOKE: deadline in ns, or LEASE_NEVER */
};

/* Progress of a drain. */
struct lease_draining {
	uint32_t slabs;   /* slabs that are not free */
	uint32_t holders; /* sessions with slabs */
	uint64_t until;   /* when the last slab is taken, or LEASE_NEVER if some slab has no deadline */
};

struct lease_book {
	struct lease_limits limits;
	struct lease_session *sessions;
	struct lease_slab *slabs;
	uint32_t *free_slabs; /* a stack, so that the slab freed last is used first */
	uint32_t free_count, session_count;
	bool leaving, draining;
	bool pressed;                 /* the last lease_target() said that the machine is short of memory */
	uint32_t target;              /* slabs that may be lent */
	uint32_t revoking, clearing;  /* slabs in these states */
	uint32_t untold;              /* slabs with a notice to send */
	uint64_t grants;              /* number of grants so far */
	uint64_t shares;              /* how many times a session's slabs, or the owners, have changed */
	uint32_t generation;          /* the generation that free slabs had when the book took over the leases */
	uint32_t *sorted;             /* scratch space to sort slabs for a recall */
	uint64_t deadline;            /* lease_expire() has no work before this time; UINT64_MAX for none */
	struct lease_action *actions; /* a ring with room for all actions that one event can cause */
	uint32_t action_size, action_head, action_count;
};

/* Allocates a book. Returns 0, -ENOMEM, or -EINVAL if @limits are out of range. */
int lease_open(const struct lease_limits *limits, struct lease_book **ret_book);
void lease_close(struct lease_book *book);

/* Takes the next action. Returns false when none is left. */
bool lease_next(struct lease_book *book, struct lease_action *ret_action);

/* --- Events ---------------------------------------------------------------------------------------------- */

/*
 * Begins a session for a client that proved itself. A session of the same id keeps its leases, and its old connections
 * are fenced. The caller takes all actions before it ties the new connection to *ret_session. Returns 0, or the
 * wire_reason of the refusal: WIRE_REASON_FULL or WIRE_REASON_LEAVING.
 */
unsigned lease_session_begin(struct lease_book *book, uint64_t now, const uint8_t id[WIRE_ID_SIZE],
			     const uint8_t key[AUTH_KEY_SIZE], uint64_t wished_grace_ns, uint32_t *ret_session);
/*
 * Returns true if a client with the key named @owner ("" for no key) may begin a session of this id. A session that
 * began with another key may not be taken over. A session that began without a key may be taken over by any client.
 */
bool lease_session_may_begin(const struct lease_book *book, const uint8_t id[WIRE_ID_SIZE], const char *owner);
/*
 * Sets the session's owner, which is the name of its key. All sessions of an owner together may have @owner_slabs slabs
 * (0 for no limit). Call it after lease_session_begin(), and again when the key's name or the limit changes.
 */
void lease_session_own(struct lease_book *book, uint32_t session, const char *owner, uint32_t owner_slabs);
/* Returns the number of slabs of all sessions of @owner. */
uint32_t lease_owner_slabs(const struct lease_book *book, const char *owner);
/*
 * Sets how long the leases wait if the client's side closes the session connection. The grace time is the upper
 * bound, and also the default. Call it after lease_session_begin().
 */
void lease_session_wish_closed(struct lease_book *book, uint32_t session, uint64_t wished_ns);
/*
 * Reports that the client's side closed the session connection. The leases wait as long as
 * lease_session_wish_closed() has set.
 */
void lease_session_closed(struct lease_book *book, uint64_t now, uint32_t session);
/* Reports that the session connection ended in any other way. */
void lease_session_vanished(struct lease_book *book, uint64_t now, uint32_t session);
/* Makes the leases of all active sessions wait for at least @ns if their client vanishes. */
void lease_sessions_wait(struct lease_book *book, uint64_t ns);
/* BYE: ends the session and all its leases now. */
void lease_session_bye(struct lease_book *book, uint32_t session);
/* Reports a message from the client. */
void lease_session_heard(struct lease_book *book, uint64_t now, uint32_t session);
/* Reports a message that was sent to the client. Does nothing if the session has ended meanwhile. */
void lease_session_said(struct lease_book *book, uint64_t now, uint32_t session);

/* Returns the active session of this id, or LEASE_NO_SESSION. */
uint32_t lease_session_find(const struct lease_book *book, const uint8_t id[WIRE_ID_SIZE]);

/* Returns true if a session of this id exists, even if its client has vanished. */
bool lease_session_is_known(const struct lease_book *book, const uint8_t id[WIRE_ID_SIZE]);

/*
 * Counts a data connection whose proof is good. Returns 0, or the wire_reason of the rejection (WIRE_REASON_NO_SESSION,
 * WIRE_REASON_REPLAY, WIRE_REASON_FULL, WIRE_REASON_LEAVING).
 */
unsigned lease_attach(struct lease_book *book, uint32_t session, uint64_t counter);
/* Reports that a data connection ended. Do not report fenced connections: the book no longer counts them. */
void lease_detach(struct lease_book *book, uint32_t session);

/* LEASE: causes DENY at once, or PREPARE and later GRANT or DENY. */
void lease_request(struct lease_book *book, uint32_t session, uint32_t request);
/* Reports the outcome of PREPARE. */
void lease_prepared(struct lease_book *book, uint32_t slab, enum lease_outcome outcome);
/* Reports that the client's device cannot reach the slab that was just granted. Causes CLEAR and DENY. */
void lease_refuse(struct lease_book *book, uint32_t slab);
/* RELEASE of the slab with this name, recalled or not. Causes DENY, or CLEAR and later RETURNED. */
void lease_release(struct lease_book *book, uint32_t session, uint32_t request, uint64_t name);
/* CLAIM of the slab with this name. Causes DENY, or CONFIRM and, if the slab is recalled, REVOKE. */
void lease_claim(struct lease_book *book, uint32_t session, uint32_t request, uint64_t name);
/* CLAIMED: clears the session's slabs that the client has not claimed since the session began. */
void lease_claimed(struct lease_book *book, uint32_t session);
/* Reports that CLEAR is done: the kernel has the memory back. */
void lease_cleared(struct lease_book *book, uint32_t slab);

/* Ends silent sessions and the leases of vanished clients, takes overdue slabs, and sends PINGs that are due. */
void lease_expire(struct lease_book *book, uint64_t now);
/* Returns when to call lease_expire() next, or UINT64_MAX if nothing can expire. */
uint64_t lease_deadline(const struct lease_book *book);

/* WARM: records the slab's warmth in pages per second. Ignores slabs that are not the session's. */
void lease_warm(struct lease_book *book, uint32_t session, uint64_t name, uint32_t warmth);

/*
 * Limits the number of slabs in use to @target and recalls the surplus. @pressed says that the machine is short of
 * memory, which lease_capacity() tells clients. Before the first call, only the limit given to lease_open() applies.
 */
void lease_target(struct lease_book *book, uint64_t now, uint32_t target, bool pressed);
/*
 * Starts, changes or ends a drain, by @what:
 *
 *   WIRE_DRAIN_WAIT   recalls all slabs without a deadline; lifts the deadline of an earlier forced drain
 *   WIRE_DRAIN_FORCE  recalls all slabs; their memory is released within @within_ns
 *   WIRE_DRAIN_END    lets clients keep slabs that only the drain recalled
 *   WIRE_DRAIN_ASK    changes nothing
 */
void lease_drain(struct lease_book *book, uint64_t now, enum wire_drain what, uint64_t within_ns);

/* Ends all sessions now and refuses new ones, because the donor stops. */
void lease_leave(struct lease_book *book);

/* --- Leases of the previous program ------------------------------------------------------------------------ */

/*
 * Before the first event, a new book can take over the leases of another book. Adopt first its sessions, then its
 * slabs, and then call lease_adopted(). The sessions are in grace until their clients return.
 */

/*
 * Adds a session whose client has @left_ns to return. @owner is the name of the client's key, shorter than
 * LEASE_OWNER_SIZE, or "". Returns the session, or LEASE_NO_SESSION if the book has no room for it.
 */
uint32_t lease_adopt_session(struct lease_book *book, uint64_t now, const uint8_t id[WIRE_ID_SIZE], const char *owner,
			     uint64_t left_ns);
/*
 * Takes over `generation`, `warmth` and `order` of a slab. If `session` is an adopted session of this book, that
 * session leases the slab. If `session` is LEASE_NO_SESSION, the slab is free. @slab is smaller than the book's number
 * of slabs.
 */
void lease_adopt_slab(struct lease_book *book, uint32_t slab, const struct lease_slab *before);
/* Ends the takeover. The book can then lend the slabs that nobody leases. @generation is the highest generation of all
   slabs that the donor ever had, including slabs that this book lacks. */
void lease_adopted(struct lease_book *book, uint32_t generation);

/* --- Queries --------------------------------------------------------------------------------------------- */

/* Returns true if the owner may use the slab: it is leased, or recalled and not yet taken. */
bool lease_slab_is_held(const struct lease_slab *slab);
uint64_t lease_slab_name(const struct lease_book *book, uint32_t slab);
void lease_capacity(const struct lease_book *book, struct wire_capacity *ret_capacity);
/* Returns the number of slabs that are not free. */
uint32_t lease_in_use(const struct lease_book *book);
/* Returns the number of slabs in use that will become free by a deadline or at once. */
uint32_t lease_going(const struct lease_book *book);
void lease_drain_status(const struct lease_book *book, struct lease_draining *ret_draining);

#endif

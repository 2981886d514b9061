/*
 * lease: which client holds which slab, for how long, and which are taken back.
 *
 * Theory of operation. A book of sessions and slabs, pure: it does no I/O and reads no clock. The caller tells it
 * what happened (a function per event, with `now` where time matters) and then takes the answers with lease_next()
 * until there are none, doing each one before the next event. Any history therefore replays from its events alone.
 *
 *   session   free -> active (its session connection stands) -> grace (it vanished, leases wait) -> free
 *   slab      free -> preparing (memory being had) -> leased -> clearing (memory being given back) -> free
 *                                                        leased -> revoking -> clearing, or leased again
 *
 * A session whose client vanishes loses its connections at once and its leases after the grace time; the same
 * client id proving itself again before then takes them over, also when its end had not been noticed yet: then what
 * is left of its old connections is fenced first. It claims the slabs it knows of; the others, whose grant or release
 * was lost on the way, are cleared when it says that this was all. A session without leases has nothing to wait for.
 * A slab that was asked for by a client which vanished before the answer is cleared, not granted.
 *
 * Taking back. The caller says how many slabs may be lent (lease_target), and when all are to go (lease_drain). What is
 * being prepared is given up first, then leased slabs are revoked: those of clients that are there before those of
 * clients that vanished, for only a client can move what is in them; then the least warm, as clients tell, then the
 * longest leased. A revoked slab is its client's like any other until the deadline, and a client that comes back
 * meanwhile is told of the REVOKE again. Of the time given, the client has four fifths; what it has not released after
 * nine tenths is taken, so that the memory is back when the time is over although clearing takes a while; the tenth
 * between is for a client's last request that is under way. While the caller allows fewer slabs than are in use, or
 * drains, nothing is granted and clients are told of no more room than that.
 *
 * A connection takes few unsent messages. So a client is told of so many slabs at a time, and of further ones when it
 * has been heard from; a PING makes sure that it has something to say. A slab whose client is yet to be told that it
 * was taken is not lent to anyone before, but its memory is back already.
 *
 * Time is in ns, of any monotonic clock. One owner thread. Everything is allocated when the book is opened.
 */
#ifndef MEMSERVER_LEASE_H
#define MEMSERVER_LEASE_H

#include "common/auth.h"
#include "farpage/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define LEASE_SLABS_MAX (1u << 16)
#define LEASE_SESSIONS_MAX 1024u
#define LEASE_NO_SESSION UINT32_MAX
#define LEASE_OWNER_SIZE 32u
/* Heartbeats a client may miss before it counts as vanished. */
#define LEASE_HEARTBEATS_MISSED 4u
/* How far a data connection's counter may lag behind the highest: queues connect at the same time. */
#define LEASE_COUNTERS 64u
/* Messages about revoked slabs to a client that has not been heard from since: half of what a connection takes. */
#define LEASE_NOTICES 16u
#define LEASE_NEVER UINT64_MAX

/* How a PREPARE went. */
enum lease_outcome {
	LEASE_READY,
	LEASE_NO_MEMORY, /* there is none to be had, or it cannot be put within the client's reach */
};

struct lease_limits {
	uint32_t slabs; /* 1 .. LEASE_SLABS_MAX */
	uint64_t slab_bytes;
	uint32_t sessions;      /* 1 .. LEASE_SESSIONS_MAX */
	uint32_t session_slabs; /* most slabs of one session; 0: no limit of its own */
	uint32_t session_conns; /* most data connections of one session */
	uint64_t grace_ns;      /* upper bound of what clients wish */
	uint64_t heartbeat_ns;
	uint64_t revoke_ns; /* for how long a slab is revoked until its memory is back */
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
	uint64_t counter;             /* the highest of the data connections accepted under `key` */
	uint64_t counters;            /* which are used up: a bit for each from `counter` down */
	uint32_t conns;               /* data connections */
	uint32_t slabs;               /* preparing, leased and revoking */
	uint32_t unheard;             /* notices said since it was heard last */
	char owner[LEASE_OWNER_SIZE]; /* whose key it was proved with; "": no key is needed */
	uint32_t owner_slabs;         /* most slabs of all that owner's sessions; 0: no limit */
	uint64_t grace_ns;            /* granted */
	uint64_t closed_ns;           /* the same, when the client's end closed the connection: not more */
	uint64_t heard_at;            /* last sign of life; while active */
	uint64_t said_at;             /* last message to it; while active */
	uint64_t vanished_at;         /* while in grace */
};

struct lease_slab {
	enum lease_slab_state state;
	bool claimed;        /* its client knows of it */
	bool unwanted;       /* preparing: to be cleared, not granted */
	bool drained;        /* revoking: only because of lease_drain() */
	bool taken;          /* clearing: not released but taken at its deadline */
	bool cleared;        /* clearing, taken: its memory is gone, its client is yet to be told */
	bool untold;         /* its client is to hear that it is revoked, taken, or leased as before */
	uint32_t session;    /* owner; while clearing: who waits for the answer; or LEASE_NO_SESSION */
	uint32_t request;    /* of the LEASE (preparing) or RELEASE (clearing) to be answered */
	uint32_t generation; /* grows with each lease, so that a name of an ended lease means nothing */
	uint32_t warmth;     /* pages a second, as its client said last */
	uint64_t order;      /* grows with each grant: the least is leased the longest */
	uint64_t until;      /* revoking: its client's deadline, or LEASE_NEVER */
	uint64_t take_at;    /* revoking: when it is taken, or LEASE_NEVER */
};

enum lease_action_kind {
	LEASE_PREPARE,  /* slab: get its memory, register it for session; answer with lease_prepared() */
	LEASE_ABANDON,  /* slab: nobody wants what is being prepared any more; it is answered all the same */
	LEASE_GRANT,    /* session, slab, request: tell the client */
	LEASE_CONFIRM,  /* the same: the client has claimed what it holds */
	LEASE_DENY,     /* session, request, reason: tell the client */
	LEASE_CLEAR,    /* slab: make its keys dead, then give its memory back; answer with lease_cleared() */
	LEASE_RETURNED, /* session, slab (name), request: tell the client that its slab is released */
	LEASE_REVOKE,   /* session, slab, name, until: tell the client to move it away */
	LEASE_KEEP,     /* session, slab, name: tell the client that it may stay */
	LEASE_TAKEN,    /* session, slab, name: tell the client that it is being taken */
	LEASE_PING,     /* session: the donor has been silent for a heartbeat, or wants to hear from the client */
	LEASE_FENCE,    /* session: end its session connection and all its data connections, before anything else */
	LEASE_FORGET,   /* session: it is over; none of its slabs is registered any more */
};

struct lease_action {
	enum lease_action_kind kind;
	uint32_t session;
	uint32_t slab; /* index */
	uint64_t name; /* the slab on the wire */
	uint32_t request;
	uint16_t reason; /* enum wire_reason */
	uint64_t until;  /* LEASE_REVOKE: ns, or LEASE_NEVER */
};

/* How far a drain is. */
struct lease_draining {
	uint32_t slabs;   /* that are not free */
	uint32_t holders; /* sessions that lease some */
	uint64_t until;   /* when the last of the slabs is taken; LEASE_NEVER: not all of them will be */
};

struct lease_book {
	struct lease_limits limits;
	struct lease_session *sessions;
	struct lease_slab *slabs;
	uint32_t *free_slabs; /* a stack, so that memory the kernel has just seen is used again */
	uint32_t free_count, session_count;
	bool leaving, draining;
	bool pressed;                 /* as the caller said last: the machine is short of memory */
	uint32_t target;              /* slabs that may be lent */
	uint32_t revoking;            /* slabs in that state */
	uint32_t untold;              /* slabs whose client is to hear something */
	uint64_t grants;              /* so far */
	uint32_t *sorted;             /* for lease_target() */
	uint64_t deadline;            /* not later than the next thing lease_expire() has to do; UINT64_MAX: nothing */
	struct lease_action *actions; /* a ring, large enough for the most one event can cause */
	uint32_t action_size, action_head, action_count;
};

/* -ENOMEM, -EINVAL (limits). */
int lease_open(const struct lease_limits *limits, struct lease_book **ret_book);
void lease_close(struct lease_book *book);

const char *lease_slab_state_name(enum lease_slab_state state);
const char *lease_session_state_name(enum lease_session_state state);

/* Takes the next answer; false when there is none. */
bool lease_next(struct lease_book *book, struct lease_action *ret_action);

/* --- Events ---------------------------------------------------------------------------------------------- */

/*
 * A client proved itself. A session of the same id goes on with its leases; what connections it had are fenced.
 * 0, or the wire_reason for which it is refused: WIRE_REASON_FULL, WIRE_REASON_LEAVING. Take all answers before
 * tying the new connection to *ret_session.
 */
unsigned lease_session_begin(struct lease_book *book, uint64_t now, const uint8_t id[WIRE_ID_SIZE],
			     const uint8_t key[AUTH_KEY_SIZE], uint64_t wished_grace_ns, uint32_t *ret_session);
/* Returns true unless a session of this id is there whose owner is another: nobody takes over others' leases. */
bool lease_session_may_begin(const struct lease_book *book, const uint8_t id[WIRE_ID_SIZE], const char *owner);
/* After a begin, or when that has changed: whose it is, and how many slabs all sessions of that owner may have. */
void lease_session_own(struct lease_book *book, uint32_t session, const char *owner, uint32_t owner_slabs);
/* After a begin: how long leases wait when the client's end has closed the session connection; as `grace` if not said.
 */
void lease_session_wish_closed(struct lease_book *book, uint32_t session, uint64_t wished_ns);
/* The client's end closed the session connection: perhaps its process has ended. */
void lease_session_closed(struct lease_book *book, uint64_t now, uint32_t session);
/* The session connection ended otherwise. */
void lease_session_vanished(struct lease_book *book, uint64_t now, uint32_t session);
/* BYE: the session and all its leases end now. */
void lease_session_bye(struct lease_book *book, uint32_t session);
/* The client sent something; something was sent to it, and it may have ended since that was decided. */
void lease_session_heard(struct lease_book *book, uint64_t now, uint32_t session);
void lease_session_said(struct lease_book *book, uint64_t now, uint32_t session);

/* The active session of this id, or LEASE_NO_SESSION. */
uint32_t lease_session_find(const struct lease_book *book, const uint8_t id[WIRE_ID_SIZE]);

/* Returns true if a session of this id is there, also one whose client has vanished. */
bool lease_session_is_known(const struct lease_book *book, const uint8_t id[WIRE_ID_SIZE]);

/*
 * A data connection whose proof was found good wants in. 0, or WIRE_REASON_NO_SESSION, WIRE_REASON_REPLAY,
 * WIRE_REASON_FULL, WIRE_REASON_LEAVING.
 */
unsigned lease_attach(struct lease_book *book, uint32_t session, uint64_t counter);
/* A data connection ended by itself (fenced ones are already counted out). */
void lease_detach(struct lease_book *book, uint32_t session);

/* LEASE: answered with PREPARE, later GRANT or DENY. */
void lease_request(struct lease_book *book, uint32_t session, uint32_t request);
/* PREPARE is done. */
void lease_prepared(struct lease_book *book, uint32_t slab, enum lease_outcome outcome);
/* The GRANT just taken cannot be carried out, for its client cannot reach the slab: answered with CLEAR, and DENY. */
void lease_refuse(struct lease_book *book, uint32_t slab);
/* RELEASE of the slab of this name, revoked or not: answered with CLEAR, later RETURNED, or with DENY. */
void lease_release(struct lease_book *book, uint32_t session, uint32_t request, uint64_t name);
/* CLAIM of the slab of this name: answered with CONFIRM, and REVOKE if it is revoked; or with DENY. */
void lease_claim(struct lease_book *book, uint32_t session, uint32_t request, uint64_t name);
/* CLAIMED: what the session holds and has not claimed since it began is cleared. */
void lease_claimed(struct lease_book *book, uint32_t session);
/* CLEAR is done: the memory is the kernel's again. */
void lease_cleared(struct lease_book *book, uint32_t slab);

/* Time has passed: silent clients vanish, vanished ones lose their leases, PINGs are due. */
void lease_expire(struct lease_book *book, uint64_t now);
/* When lease_expire() is next worth calling; UINT64_MAX: never, until another event. */
uint64_t lease_deadline(const struct lease_book *book);

/* WARM: how much the session uses a slab of its own; of others it has nothing to say. */
void lease_warm(struct lease_book *book, uint32_t session, uint64_t name, uint32_t warmth);

/*
 * At most so many slabs may be in use from now on; what is more is revoked. @pressed: because the machine is short of
 * memory, as clients are told. Before it is called there is no limit but that of lease_open().
 */
void lease_target(struct lease_book *book, uint64_t now, uint32_t target, bool pressed);
/*
 * WIRE_DRAIN_WAIT: revokes everything without a deadline, and takes one of before back. WIRE_DRAIN_FORCE: the memory of
 * what is in use is back after @within_ns. WIRE_DRAIN_END: what is revoked only for that may stay.
 */
void lease_drain(struct lease_book *book, uint64_t now, enum wire_drain what, uint64_t within_ns);

/* The donor stops: every session ends now, and new ones are refused. */
void lease_leave(struct lease_book *book);

/* --- What there is --------------------------------------------------------------------------------------- */

uint64_t lease_slab_name(const struct lease_book *book, uint32_t slab);
void lease_capacity(const struct lease_book *book, struct wire_capacity *ret_capacity);
/* Slabs that are not free; those of them that are on their way to be, by a deadline or at once. */
uint32_t lease_in_use(const struct lease_book *book);
uint32_t lease_going(const struct lease_book *book);
void lease_drain_status(const struct lease_book *book, struct lease_draining *ret_draining);

#endif

/* Bounds, deliberate mistakes, and the state. */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef DONORS
#define DONORS 2
#endif
#ifndef REPLICAS
#define REPLICAS 2
#endif
#ifndef FAULTS
#define FAULTS 1 /* crashes, silences and broken connections together */
#endif
#ifndef REVOKES
#define REVOKES 0 /* slabs that donors recall */
#endif
#ifndef JOINS
#define JOINS 1 /* lease requests for rebuilds */
#endif
#ifndef DISCARDS
#define DISCARDS true /* a client may discard its chunk */
#endif
#ifndef WRITES
#define WRITES 2 /* writes of each client; a write sets the page's version */
#endif

/*
 * Deliberate mistakes, each of which must be found (tests/model/test_model.py):
 *   NO_FENCE          a donor leaves a client's old data connections be
 *   NO_ZERO           a slab is leased with its old contents
 *   KEYS_LIVE_ON      a slab's memory is given away before its keys are dead
 *   BELIEVE_COMEBACK the client believes that a restarted donor still has the slab
 *   BELIEVE_STALE     a donor that is away is passed by, not detached: its slab is claimed again
 *   ACK_FIRST         a write is done with its first replica
 *   READ_JOINING      a replica that is being filled is read
 *   JOIN_UNCOPIED     a new replica counts as filled
 *   NEVER_CLEARED a slab that its client does not claim stays leased
 *   NO_GRACE_END the slab of a client that has ended stays leased
 *   MOVE_EARLY a recalled slab is released before its page is elsewhere
 */
#ifdef NO_FENCE
#define FENCES false
#else
#define FENCES true
#endif
#ifdef NO_ZERO
#define ZEROES false
#else
#define ZEROES true
#endif
#ifdef KEYS_LIVE_ON
#define KEYS_DIE false
#else
#define KEYS_DIE true
#endif
#ifdef BELIEVE_COMEBACK
#define BELIEVES_ANY true
#else
#define BELIEVES_ANY false
#endif
#ifdef BELIEVE_STALE
#define BELIEVES_STALE true
#else
#define BELIEVES_STALE false
#endif
#ifdef ACK_FIRST
#define FIRST_IS_ENOUGH true
#else
#define FIRST_IS_ENOUGH false
#endif
#ifdef READ_JOINING
#define READS_JOINING true
#else
#define READS_JOINING false
#endif
#ifdef JOIN_UNCOPIED
#define JOINS_UNCOPIED true
#else
#define JOINS_UNCOPIED false
#endif
#ifdef NEVER_CLEARED
#define CLEARS_UNCLAIMED false
#else
#define CLEARS_UNCLAIMED true
#endif
#ifdef NO_GRACE_END
#define GRACE_ENDS false
#else
#define GRACE_ENDS true
#endif
#ifdef MOVE_EARLY
#define MOVES_EARLY true
#else
#define MOVES_EARLY false
#endif

/* One event. The search for unreached lines uses atomic, because spin does not look into a d_step. */
#ifdef COVERAGE
#define STEP atomic
#else
#define STEP d_step
#endif

#define PAIRS (CLIENTS * DONORS)
#define PAIR(c, d) ((c) * DONORS + (d))
#define P(c, d) pair[(c) * DONORS + (d)]
#define NOBODY CLIENTS
#define VERSION(c, n) ((c) * 8 + (n))
#define NAMES 4 /* names of a slab, used in turn; the code never uses a name twice */

mtype:comeback = { UP, AWAY, TRYING, CLAIMING, LOST }; /* client/donor/comeback.h; TRYING until the WELCOME */
mtype:slot = { NOTHING, ASKED, ORPHAN, GRANTED, JOINING, LIVE };
mtype:chunk = { ABSENT, WANTED, READY }; /* client/page/chunks.h */
mtype:link = { DOWN, NOW, BEFORE, BROKEN }; /* of this round, of one that is over, ended in this round */
mtype:session = { NONE, ACTIVE, GRACE };    /* memserver/lease.h */
mtype:slab = { FREE, PREPARING, LEASED, CLEARING };
/* wire/wire.h; OPEN stands for connect, challenge and proof */
mtype:message = { OPEN, LEASE, RELEASE, CLAIM, CLAIMED, WELCOME, GRANT, DENY, REVOKE, REVOKED };

/* The state shared by one client and one donor. */
typedef pair_state {
	/* Known to the client. */
	mtype:comeback comeback;
	mtype:slot slot; /* the slot of the client's chunk on this donor */
	mtype:link link; /* the queue's data connection */
	byte name;       /* of the slab in `slot` */
	bool leaving;    /* the donor recalls the slab */
	bool tried;      /* the donor has denied the chunk's lease */
	bool broke;      /* the queue has reported that the connection ended */
	/* Known to the donor. */
	mtype:session session;
	bool data; /* the session has a data connection that is not fenced */
	/* Known to neither. */
	bool bound;  /* donor and client use the same connection for the session */
	bool same;   /* the donor is the incarnation that the client knows */
	byte posted; /* version of a write under way on the data connection, or 0 */
	byte late;   /* the same for a connection that should be fenced; only with NO_FENCE */
	byte landed; /* version that is on the donor, unknown to the client */
};
pair_state pair[PAIRS];
chan up[PAIRS] = [3] of { mtype:message, byte };
chan down[PAIRS] = [4] of { mtype:message, byte };

typedef client_state {
	bool running;
	mtype:chunk chunk;
	byte versions; /* versions used so far */
	byte last;     /* version of the last complete write; 0: none, or the page is lost and reads fail */
	byte write;    /* version of the write under way, or 0 */
	byte left;     /* donors that have not answered, a bit each; 0: none, or the write is not posted */
	bool again;    /* a connection ended, so the write starts anew */
	byte copying;  /* 1 + donor of the joining slot that is being filled, or 0 */
	/* A write was posted and is not complete. If the process ends or the write fails, the page is old, new or
	   neither (the checksum detects this), until it is written again. */
	bool unsure;
};
client_state client[CLIENTS];

typedef donor_state {
	mtype:slab slab;
	byte owner;
	byte name;
	bool claimed;
	bool told;    /* its owner knows of the recall */
	byte keys;    /* clients whose keys to the slab work, a bit each */
	byte content; /* the page's version, 0: zero */
};
donor_state donor[DONORS];

bool begun; /* some lease was requested */
byte faults = FAULTS, revokes = REVOKES, joins = JOINS;

inline flush(channel)
{
	do
	:: nempty(channel) -> channel?_, _
	:: empty(channel) -> break
	od;
	skip
}

/* --- What must hold after each event ------------------------------------------------------------------------------ */

/* A replica that may be read, now or when its donor is back. */
#define READABLE(c, d)                                                                                                 \
	(client[c].running && client[c].chunk == READY && !client[c].write && !client[c].unsure && client[c].last &&   \
	 (P(c, d).slot == LIVE || (READS_JOINING && P(c, d).slot == JOINING)))
#define THERE(c, d) (donor[d].slab == LEASED && donor[d].owner == c && donor[d].name == P(c, d).name)
/* Properties 1 and 3: each such replica has the last complete write, without help of a checksum. */
#define RIGHT(c, d) (!(READABLE(c, d) && THERE(c, d)) || donor[d].content == client[c].last)
/* A client has each slab that it believes to have, unless a message to the client is on its way. */
#define BELIEVED(c, d)                                                                                                 \
	(client[c].running && P(c, d).slot == LIVE && P(c, d).comeback == UP && P(c, d).bound &&                       \
	 len(down[PAIR(c, d)]) == 0)
#define SOUND(c, d) (RIGHT(c, d) && (!BELIEVED(c, d) || THERE(c, d)))
/* Property 2: the keys of at most one client work. */
#define ONE_OWNER(d) (donor[d].keys == 0 || donor[d].keys == 1 || donor[d].keys == 2)

#if CLIENTS > 1 && DONORS > 1
#define GOOD (SOUND(0, 0) && SOUND(0, 1) && SOUND(1, 0) && SOUND(1, 1) && ONE_OWNER(0) && ONE_OWNER(1))
#elif CLIENTS > 1
#define GOOD (SOUND(0, 0) && SOUND(1, 0) && ONE_OWNER(0))
#elif DONORS > 1
#define GOOD (SOUND(0, 0) && SOUND(0, 1) && ONE_OWNER(0) && ONE_OWNER(1))
#else
#define GOOD (SOUND(0, 0) && ONE_OWNER(0))
#endif

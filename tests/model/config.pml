/* Bounds, deliberate mistakes, and what there is. */
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
#define FAULTS 1 /* crashes, silences, broken connections: all together */
#endif
#ifndef REVOKES
#define REVOKES 0 /* slabs that donors want back */
#endif
#ifndef JOINS
#define JOINS 1 /* leases asked for to rebuild */
#endif
#ifndef DISCARDS
#define DISCARDS true /* a client may give its chunk back */
#endif
#ifndef WRITES
#define WRITES 2 /* of each client; the page's version */
#endif

/*
 * Deliberate mistakes, each of which must be found (tests/model/test_model.py):
 *   NO_FENCE          a donor leaves a client's old data connections be
 *   NO_ZERO           a slab is leased with what was in it
 *   KEYS_LIVE_ON      a slab's memory is given away before its keys are dead
 *   BELIEVE_COMEBACK  a donor that started anew is believed to have what it had
 *   BELIEVE_STALE     a donor that is away is passed by, not detached: its slab is claimed again
 *   ACK_FIRST         a write is done with its first replica
 *   READ_JOINING      a replica that is being filled is read
 *   JOIN_UNCOPIED     a new replica counts as filled
 *   NEVER_CLEARED     what a client does not claim stays leased
 *   NO_GRACE_END      what a client that is gone held stays leased
 *   MOVE_EARLY        a slab that is wanted back is released before what is in it is elsewhere
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

/* One event. The run that looks whether every line is reached takes it apart (spin does not look into a d_step). */
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
#define NAMES 4 /* of a slab, one after the other: the code's never come round */

mtype:comeback = { UP, AWAY, TRYING, CLAIMING, LOST }; /* client/donor/comeback.h; TRYING until the WELCOME */
mtype:slot = { NOTHING, ASKED, ORPHAN, GRANTED, JOINING, LIVE };
mtype:chunk = { ABSENT, WANTED, READY }; /* client/page/chunks.h */
mtype:link = { DOWN, NOW, BEFORE, BROKEN }; /* of this round, of one that is over, ended in this round */
mtype:session = { NONE, ACTIVE, GRACE };    /* memserver/lease.h */
mtype:slab = { FREE, PREPARING, LEASED, CLEARING };
/* wire/wire.h; OPEN stands for connect, challenge and proof */
mtype:message = { OPEN, LEASE, RELEASE, CLAIM, CLAIMED, WELCOME, GRANT, DENY, REVOKE, REVOKED };

/* What one client and one donor have to do with each other. */
typedef pair_state {
	/* The client's. */
	mtype:comeback comeback;
	mtype:slot slot; /* of the client's chunk on this donor */
	mtype:link link; /* the queue's data connection */
	byte name;       /* of the slab in `slot` */
	bool leaving;    /* the donor wants it back */
	bool tried;      /* it has denied the chunk's lease */
	bool broke;      /* the queue has reported that the connection ended */
	/* The donor's. */
	mtype:session session;
	bool data; /* a data connection of the session, not fenced */
	/* Between them. */
	bool bound;  /* the session's connection at the donor is the client's present one; nobody knows that */
	bool same;   /* the donor is the incarnation that the client knows */
	byte posted; /* version of a write under way on the data connection, or 0 */
	byte late;   /* the same, of a connection that should have been fenced; only with NO_FENCE */
	byte landed; /* one that the donor has, and the client does not know yet */
};
pair_state pair[PAIRS];
chan up[PAIRS] = [3] of { mtype:message, byte };
chan down[PAIRS] = [4] of { mtype:message, byte };

typedef client_state {
	bool running;
	mtype:chunk chunk;
	byte versions; /* given so far */
	byte last;     /* of the last complete write; 0: none, or the page is lost, which is an error to read */
	byte write;    /* of the one under way, or 0 */
	byte left;     /* donors that have not answered, a bit each; 0: it waits */
	bool again;    /* a connection ended: it is to be carried out anew */
	byte copying;  /* 1 + donor of the joining slot that is being filled, or 0 */
	/* A write was posted and is not complete: if the process ends, or it fails, the page is old, new or neither (which
	   the checksum tells) until it is written again. */
	bool unsure;
};
client_state client[CLIENTS];

typedef donor_state {
	mtype:slab slab;
	byte owner;
	byte name;
	bool claimed;
	bool told;    /* its owner has been told that it is wanted back */
	byte keys;    /* clients whose keys to it work, a bit each */
	byte content; /* the page's version, 0: zero */
};
donor_state donor[DONORS];

bool begun; /* some lease was asked for */
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

/* A replica that may be read, be it now or when its donor is back. */
#define READABLE(c, d)                                                                                                 \
	(client[c].running && client[c].chunk == READY && !client[c].write && !client[c].unsure && client[c].last &&   \
	 (P(c, d).slot == LIVE || (READS_JOINING && P(c, d).slot == JOINING)))
#define THERE(c, d) (donor[d].slab == LEASED && donor[d].owner == c && donor[d].name == P(c, d).name)
/* 1 and 3: what a read would return is the last complete write, on each of them; without the checksum's help. */
#define RIGHT(c, d) (!(READABLE(c, d) && THERE(c, d)) || donor[d].content == client[c].last)
/* What a client believes to have it has, unless a message to it is on its way. */
#define BELIEVED(c, d)                                                                                                 \
	(client[c].running && P(c, d).slot == LIVE && P(c, d).comeback == UP && P(c, d).bound &&                       \
	 len(down[PAIR(c, d)]) == 0)
#define SOUND(c, d) (RIGHT(c, d) && (!BELIEVED(c, d) || THERE(c, d)))
/* 2: one client's keys at most. */
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

/*
 * A client's control thread, modelled as one process for each donor. Each process decides alone if the chunk wants a
 * slot on its donor, so every placement is possible.
 */

/* Sends a message on the session's connection. If the connection has ended, the message is lost. */
inline say(c, d, message, value)
{
	if
	:: P(c, d).bound ->
		assert(nfull(up[PAIR(c, d)]));
		up[PAIR(c, d)]!message, value
	:: else
	fi;
	skip
}

/* Removes the slot from the chunk. */
inline slot_forget(c, d)
{
	P(c, d).slot = NOTHING;
	P(c, d).name = 0;
	P(c, d).leaving = false;
	if
	:: client[c].copying == d + 1 -> client[c].copying = 0
	:: else
	fi;
	skip
}

/* leases_release(): an away donor gets no message. It later takes back each slab that is not claimed. */
inline slot_release(c, d)
{
	if
	:: P(c, d).comeback == UP -> say(c, d, RELEASE, P(c, d).name)
	:: else
	fi;
	slot_forget(c, d)
}

/* Releases the chunk's slabs and requests, except live slots: in want_end(), and when the chunk is lost. */
inline rest_release(c)
{
	e = 0;
	do
	:: e < DONORS ->
		if
		:: P(c, e).slot == ASKED -> P(c, e).slot = ORPHAN
		:: P(c, e).slot == GRANTED || P(c, e).slot == JOINING -> slot_release(c, e)
		:: else
		fi;
		e++
	:: else -> break
	od;
	e = 0
}

#if DONORS > 1
#define LIVE_SLOTS(c) ((P(c, 0).slot == LIVE) + (P(c, 1).slot == LIVE))
#define STAYING(c) ((P(c, 0).slot == LIVE && !P(c, 0).leaving) + (P(c, 1).slot == LIVE && !P(c, 1).leaving))
#define WITH(c, s) ((P(c, 0).slot == s) + (P(c, 1).slot == s))
#define CAN_ASK(c) (ASKABLE(c, 0) || ASKABLE(c, 1))
#define SOME_AWAY(c) (IS_AWAY(c, 0) || IS_AWAY(c, 1))
#define ALL_UP(c) (CAN_HEAR(c, 0) && CAN_HEAR(c, 1))
#define CAN_POST(c) (REACHED(c, 0) && REACHED(c, 1))
#else
#define LIVE_SLOTS(c) (P(c, 0).slot == LIVE)
#define STAYING(c) (P(c, 0).slot == LIVE && !P(c, 0).leaving)
#define WITH(c, s) (P(c, 0).slot == s)
#define CAN_ASK(c) ASKABLE(c, 0)
#define SOME_AWAY(c) IS_AWAY(c, 0)
#define ALL_UP(c) CAN_HEAR(c, 0)
#define CAN_POST(c) REACHED(c, 0)
#endif
#define OTHER(d) (DONORS - 1 - d)
#define CAN_READ(c, d) (P(c, d).slot == LIVE && USABLE(c, d) && P(c, d).data && (donor[d].keys >> c & 1))
#define ASKABLE(c, d) (P(c, d).comeback == UP && P(c, d).slot == NOTHING && !P(c, d).tried)
#define IS_AWAY(c, d) (P(c, d).comeback != UP && P(c, d).comeback != LOST)
#define CAN_HEAR(c, d) (P(c, d).comeback == UP || P(c, d).comeback == LOST)
#define IN_USE(c, d) (P(c, d).slot == LIVE || P(c, d).slot == JOINING)
#define USABLE(c, d) (P(c, d).comeback == UP && P(c, d).link == NOW)
#define REACHED(c, d)                                                                                                  \
	(!IN_USE(c, d) || (USABLE(c, d) && !P(c, d).posted && !P(c, d).landed) ||                                      \
	 (BELIEVES_STALE && IS_AWAY(c, d) && LIVE_SLOTS(c) > 1))

/* A slab is lost. With its last slab the chunk is lost, too, and operations in progress start anew: chunk_lose(),
   integrity_lose(). */
inline slot_lost(c, d)
{
	slot_forget(c, d);
	if
	:: client[c].chunk == READY && !LIVE_SLOTS(c) ->
		rest_release(c);
		client[c].chunk = ABSENT;
		client[c].last = 0;
		client[c].unsure = false;
		client[c].left = 0;
		client[c].again = false
	:: else
	fi;
	skip
}

/* --- Comebacks: donors.c, comeback.c --------------------------------------------------------------------------- */

/* donor_leave(): the round ends. Requests are void, and a slot that was being filled is given up. */
inline donor_leave(c, d)
{
	P(c, d).comeback = AWAY;
	P(c, d).bound = false;
	P(c, d).broke = false;
	flush(down[PAIR(c, d)]);
	if
	:: P(c, d).slot == LIVE
	:: else -> slot_forget(c, d)
	fi;
	if
	:: P(c, d).link == NOW -> P(c, d).link = BEFORE
	:: P(c, d).link == BROKEN -> P(c, d).link = DOWN
	:: else
	fi;
	skip
}

/* A try has failed: COMEBACK_PAUSE. */
inline donor_pause(c, d)
{
	P(c, d).comeback = AWAY;
	P(c, d).bound = false;
	flush(down[PAIR(c, d)])
}

/* donor_try(). Messages of older connections are read before, or never. */
inline donor_try(c, d)
{
	P(c, d).comeback = TRYING;
	P(c, d).bound = false;
	flush(up[PAIR(c, d)]);
	up[PAIR(c, d)]!OPEN, 0
}

/* donor_bury() */
inline donor_bury(c, d)
{
	P(c, d).comeback = LOST;
	P(c, d).bound = false;
	flush(down[PAIR(c, d)]);
	if
	:: P(c, d).slot == LIVE -> slot_lost(c, d)
	:: else -> slot_forget(c, d)
	fi;
	skip
}

/* donor_return(): a new round */
inline donor_return(c, d)
{
	P(c, d).comeback = UP;
	P(c, d).tried = false
}

/* donor_welcomed(), comeback_welcomed(); then claims.c, with at most one claim. */
inline donor_welcomed(c, d)
{
	down[PAIR(c, d)]?WELCOME, n;
	if
	:: P(c, d).slot == LIVE && !P(c, d).same && !BELIEVES_ANY -> donor_bury(c, d)
	:: P(c, d).slot == LIVE && !P(c, d).same && BELIEVES_ANY -> donor_return(c, d)
	:: else ->
		P(c, d).same = true;
		if
		:: P(c, d).slot == LIVE && n ->
			P(c, d).comeback = CLAIMING;
			say(c, d, CLAIM, P(c, d).name)
		:: else ->
			if
			:: P(c, d).slot == LIVE -> slot_lost(c, d)
			:: else
			fi;
			if
			:: n -> say(c, d, CLAIMED, 0)
			:: else
			fi;
			donor_return(c, d)
		fi
	fi;
	n = 0
}

/* claim_answered() */
inline claim_confirmed(c, d)
{
	down[PAIR(c, d)]?GRANT, n;
	assert(P(c, d).slot == LIVE && P(c, d).name == n);
	n = 0;
	say(c, d, CLAIMED, 0);
	donor_return(c, d)
}

inline claim_denied(c, d)
{
	down[PAIR(c, d)]?DENY, _;
	if
	:: P(c, d).slot == LIVE -> slot_lost(c, d)
	:: else
	fi;
	say(c, d, CLAIMED, 0);
	donor_return(c, d)
}

/* --- Leases: leases.c ------------------------------------------------------------------------------------------ */

/* want_ask() */
inline lease_ask(c, d)
{
	P(c, d).slot = ASKED;
	say(c, d, LEASE, 0)
}

/* leases_granted() */
inline lease_granted(c, d)
{
	down[PAIR(c, d)]?GRANT, n;
	P(c, d).name = n;
	n = 0;
	if
	:: P(c, d).slot == ASKED && client[c].chunk == WANTED -> P(c, d).slot = GRANTED
	:: P(c, d).slot == ASKED && client[c].chunk == READY && !JOINS_UNCOPIED -> P(c, d).slot = JOINING
	:: P(c, d).slot == ASKED && client[c].chunk == READY && JOINS_UNCOPIED -> P(c, d).slot = LIVE
	:: else ->
		assert(P(c, d).slot == ORPHAN);
		slot_release(c, d)
	fi;
	skip
}

/* leases_denied() */
inline lease_denied(c, d)
{
	down[PAIR(c, d)]?DENY, _;
	assert(P(c, d).slot == ASKED || P(c, d).slot == ORPHAN);
	P(c, d).slot = NOTHING;
	P(c, d).tried = client[c].chunk == WANTED
}

/* The donor recalls the slab. A live slot is moved, any other slot is released at once. */
inline slot_revoked(c, d)
{
	down[PAIR(c, d)]?REVOKE, n;
	if
	:: P(c, d).slot == LIVE && P(c, d).name == n -> P(c, d).leaving = true
	:: (P(c, d).slot == JOINING || P(c, d).slot == GRANTED) && P(c, d).name == n -> slot_release(c, d)
	:: else
	fi;
	n = 0
}

/* The donor has taken the slab. */
inline slot_taken(c, d)
{
	down[PAIR(c, d)]?REVOKED, n;
	if
	:: P(c, d).slot == LIVE && P(c, d).name == n -> slot_lost(c, d)
	:: (P(c, d).slot == JOINING || P(c, d).slot == GRANTED) && P(c, d).name == n -> slot_forget(c, d)
	:: else
	fi;
	n = 0
}

/* The donor is away, and another replica is live. Writes continue without the away donor, and its slab is never read
   again. */
inline slot_detach(c, d)
{
	slot_forget(c, d)
}

#define HEARD(message) down[PAIR(c, d)]?[message, _]
#define STANDS(c, d) (P(c, d).bound || up[PAIR(c, d)]?[OPEN, _])

proctype control(byte c, d)
{
	byte n, e;
end:
	do
	/* comeback_broke(): the connection ended, a queue reported its end, or the donor is or seems silent */
	:: STEP {
		client[c].running && P(c, d).comeback == UP && (!P(c, d).bound || P(c, d).broke) ->
		donor_leave(c, d)
	}
	:: STEP {
		client[c].running && P(c, d).comeback == UP && P(c, d).bound && faults ->
		faults--;
		donor_leave(c, d)
	}
	:: STEP {
		client[c].running && (P(c, d).comeback == TRYING || P(c, d).comeback == CLAIMING) && !STANDS(c, d) ->
		donor_pause(c, d)
	}
	:: STEP {
		client[c].running && (P(c, d).comeback == TRYING || P(c, d).comeback == CLAIMING) && STANDS(c, d) && faults ->
		faults--;
		donor_pause(c, d)
	}
	/* comeback_tick() */
	:: STEP { client[c].running && P(c, d).comeback == AWAY -> donor_try(c, d) }
	:: STEP { client[c].running && IS_AWAY(c, d) -> donor_bury(c, d) }
	:: STEP { P(c, d).comeback == TRYING && HEARD(WELCOME) -> donor_welcomed(c, d) }
	:: STEP { P(c, d).comeback == CLAIMING && HEARD(GRANT) -> claim_confirmed(c, d) }
	:: STEP { P(c, d).comeback == CLAIMING && HEARD(DENY) -> claim_denied(c, d) }
	:: STEP { P(c, d).comeback == UP && HEARD(GRANT) -> lease_granted(c, d) }
	:: STEP { P(c, d).comeback == UP && HEARD(DENY) -> lease_denied(c, d) }
	:: STEP { HEARD(REVOKE) -> slot_revoked(c, d) }
	:: STEP { HEARD(REVOKED) -> slot_taken(c, d) }
	/* want_step() */
	:: STEP {
		client[c].running && client[c].chunk == WANTED && ASKABLE(c, d) &&
		    WITH(c, ASKED) + WITH(c, GRANTED) < REPLICAS && (d == 0 || begun || !ASKABLE(c, 0)) ->
		begun = true;
		lease_ask(c, d)
	}
	/* a chunk that lacks replicas gets another: a rebuild, or the first half of a move */
	:: STEP {
		client[c].running && client[c].chunk == READY && P(c, d).comeback == UP && P(c, d).slot == NOTHING &&
		    joins && STAYING(c) + WITH(c, JOINING) + WITH(c, ASKED) < REPLICAS ->
		joins--;
		lease_ask(c, d)
	}
	:: STEP {
		client[c].running && client[c].chunk == READY && client[c].write && P(c, d).slot == LIVE &&
		    (P(c, d).comeback == AWAY || P(c, d).comeback == TRYING) && LIVE_SLOTS(c) > 1 && !BELIEVES_STALE ->
		slot_detach(c, d)
	}
	/* the second half of a move */
	:: STEP {
		client[c].running && P(c, d).comeback == UP && P(c, d).slot == LIVE && P(c, d).leaving &&
		    LIVE_SLOTS(c) + (MOVES_EARLY * WITH(c, JOINING)) > REPLICAS ->
		slot_release(c, d)
	}
	od
}

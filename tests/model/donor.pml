/*
 * A donor: the lease book (lease.c), and the actions of memserver/donor.c. Each kind of event has its own process.
 * worker() is the donor's slab worker thread, and all other processes together are its main thread.
 */

/* session_fence(), do_fence(): ends the session's connections, before anything else. */
inline fence(c, d)
{
	P(c, d).bound = false;
	if
	:: FENCES ->
		P(c, d).data = false;
		P(c, d).posted = 0
	:: else ->
		if
		:: P(c, d).posted -> P(c, d).late = P(c, d).posted
		:: else
		fi;
		P(c, d).posted = 0
	fi;
	/* Its unread messages are lost; the OPEN of a new connection stays. */
	if
	:: up[PAIR(c, d)]?[OPEN, _]
	:: else -> flush(up[PAIR(c, d)])
	fi;
	/* requests_abandon() */
	if
	:: donor[d].slab == PREPARING && donor[d].owner == c -> donor[d].owner = NOBODY
	:: else
	fi;
	skip
}

inline tell(c, d, message, value)
{
	if
	:: P(c, d).bound ->
		assert(nfull(down[PAIR(c, d)]));
		down[PAIR(c, d)]!message, value
	:: else
	fi;
	skip
}

/* slab_disown(), slab_clear() */
inline slab_clear(d)
{
	donor[d].owner = NOBODY;
	donor[d].claimed = false;
	donor[d].told = false;
	donor[d].slab = CLEARING
}

/* lease_session_begin(), handshake_succeed() */
inline session_begin(c, d)
{
	up[PAIR(c, d)]?OPEN, _;
	if
	:: P(c, d).session == ACTIVE -> fence(c, d)
	:: else
	fi;
	P(c, d).session = ACTIVE;
	if
	:: donor[d].owner == c -> donor[d].claimed = false
	:: else
	fi;
	/* If the client has given up meanwhile, it ends, or tries again. */
	P(c, d).bound = client[c].running && P(c, d).comeback == TRYING;
	tell(c, d, WELCOME, (donor[d].owner == c && donor[d].slab == LEASED))
}

/* lease_request() */
inline session_lease(c, d)
{
	up[PAIR(c, d)]?LEASE, _;
	if
	:: donor[d].slab == FREE ->
		donor[d].slab = PREPARING;
		donor[d].owner = c;
		donor[d].claimed = true;
		donor[d].name = (donor[d].name + 1) % NAMES
	:: else -> tell(c, d, DENY, 0)
	fi;
	skip
}

/* lease_release(); the answer is left out */
inline session_release(c, d)
{
	up[PAIR(c, d)]?RELEASE, n;
	if
	:: donor[d].slab == LEASED && donor[d].owner == c && donor[d].name == n -> slab_clear(d)
	:: else
	fi;
	n = 0
}

/* lease_claim() */
inline session_claim(c, d)
{
	up[PAIR(c, d)]?CLAIM, n;
	if
	:: donor[d].slab == LEASED && donor[d].owner == c && donor[d].name == n ->
		donor[d].claimed = true;
		tell(c, d, GRANT, n)
	:: else -> tell(c, d, DENY, 0)
	fi;
	n = 0
}

/* lease_claimed() */
inline session_claimed(c, d)
{
	up[PAIR(c, d)]?CLAIMED, _;
	if
	:: donor[d].slab == LEASED && donor[d].owner == c && !donor[d].claimed && CLEARS_UNCLAIMED -> slab_clear(d)
	:: else
	fi;
	skip
}

#define CALLED(message) (P(c, d).session == ACTIVE && up[PAIR(c, d)]?[message, _])

/* connection.c: a client's messages, in order. */
proctype connection(byte c, d)
{
	byte n;
end:
	do
	:: STEP { up[PAIR(c, d)]?[OPEN, _] -> session_begin(c, d) }
	:: STEP { CALLED(LEASE) -> session_lease(c, d) }
	:: STEP { CALLED(RELEASE) -> session_release(c, d) }
	:: STEP { CALLED(CLAIM) -> session_claim(c, d) }
	:: STEP { CALLED(CLAIMED) -> session_claimed(c, d) }
	od
}

/* lease_session_vanished(), lease_session_closed() */
inline session_vanish(c, d)
{
	fence(c, d);
	if
	:: donor[d].owner == c -> P(c, d).session = GRACE
	:: else -> P(c, d).session = NONE
	fi;
	skip
}

/* lease_expire(), session_end() */
inline session_expire(c, d)
{
	P(c, d).session = NONE;
	if
	:: donor[d].owner == c && GRACE_ENDS -> slab_clear(d)
	:: else
	fi;
	skip
}

/* The effects of a session's end, of silence, and of time. */
proctype book(byte c, d)
{
end:
	do
	/* the connection has ended */
	:: STEP { P(c, d).session == ACTIVE && !P(c, d).bound -> session_vanish(c, d) }
	/* the client is silent for four heartbeats, or seems to be */
	:: STEP { P(c, d).session == ACTIVE && P(c, d).bound && faults -> faults--; session_vanish(c, d) }
	:: STEP { P(c, d).session == GRACE -> session_expire(c, d) }
	od
}

/* slab.c, lease_prepared(): the worker registers fresh memory in the owner's domain. Then the slab is granted, or
   cleared again at once. */
inline slab_prepared(d)
{
	if
	:: ZEROES -> donor[d].content = 0
	:: else
	fi;
	if
	:: donor[d].owner == NOBODY -> donor[d].slab = CLEARING
	:: else ->
		donor[d].keys = donor[d].keys | (1 << donor[d].owner);
		donor[d].slab = LEASED;
		assert(donor[d].content == 0);
		tell(donor[d].owner, d, GRANT, donor[d].name)
	fi;
	skip
}

/* memory_put(), lease_cleared(): the slab's keys are dead before its memory returns to the kernel. */
inline slab_cleared(d)
{
	if
	:: KEYS_DIE -> donor[d].keys = 0
	:: else
	fi;
	donor[d].slab = FREE
}

inline slab_revoke(d)
{
	donor[d].told = true;
	tell(donor[d].owner, d, REVOKE, donor[d].name)
}

/* After the deadline: the owner's keys die, as for every slab that is cleared. */
inline slab_take(d)
{
	tell(donor[d].owner, d, REVOKED, donor[d].name);
	slab_clear(d)
}

/* The slab's worker, and memory pressure. */
proctype worker(byte d)
{
end:
	do
	:: STEP { donor[d].slab == PREPARING -> slab_prepared(d) }
	:: STEP { donor[d].slab == CLEARING -> slab_cleared(d) }
	:: STEP { donor[d].slab == LEASED && !donor[d].told && revokes -> revokes--; slab_revoke(d) }
	:: STEP { donor[d].slab == LEASED && donor[d].told -> slab_take(d) }
	od
}

/* A write reaches memory if its connection is up and its key works. Otherwise it is refused, which ends the
   connection. */
inline write_lands(c, d)
{
	if
	:: P(c, d).data && (donor[d].keys >> c & 1) ->
		donor[d].content = P(c, d).posted;
		if
		:: P(c, d).link == NOW || P(c, d).link == BEFORE -> P(c, d).landed = P(c, d).posted
		:: else /* nobody waits for the answer any more */
		fi
	:: else -> P(c, d).data = false
	fi;
	P(c, d).posted = 0
}

/* The fabric: the donor's device carries out posted writes. */
proctype network(byte c, d)
{
end:
	do
	:: STEP { P(c, d).posted -> write_lands(c, d) }
	:: STEP {
		P(c, d).late ->
		if
		:: donor[d].keys >> c & 1 -> donor[d].content = P(c, d).late
		:: else
		fi;
		P(c, d).late = 0
	}
	/* a read of a slab that was taken is refused, too */
	:: STEP {
		P(c, d).data && P(c, d).link == NOW && P(c, d).slot == LIVE && !(donor[d].keys >> c & 1) ->
		P(c, d).data = false
	}
	od
}

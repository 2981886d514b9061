/* A client's queue: its connections (queue), and who writes to the page through it (writer). */

/* --- The queue: client/io/ ---------------------------------------------------------------------------------------- */

/* link_drop(): writes in progress start anew, and a slot that was being filled is given up. */
inline link_drop(c, d)
{
	P(c, d).landed = 0;
	if
	:: client[c].copying == d + 1 -> slot_release(c, d)
	:: else
	fi;
	if
	:: client[c].left >> d & 1 ->
		client[c].left = client[c].left & ~(1 << d);
		client[c].again = client[c].left != 0 /* when the other donors have answered, or now */
	:: else
	fi;
	skip
}

/* far_answer_take(), write_commit() */
inline write_answered(c, d)
{
	client[c].left = client[c].left & ~(1 << d);
	if
	:: client[c].left && !FIRST_IS_ENOUGH
	:: else ->
		if
		:: client[c].again -> client[c].again = false
		:: else ->
			client[c].last = client[c].write;
			client[c].write = 0;
			client[c].left = 0;
			client[c].unsure = false
		fi
	fi;
	skip
}

inline link_answers(c, d)
{
	P(c, d).landed = 0;
	if
	:: client[c].copying == d + 1 ->
		client[c].copying = 0;
		P(c, d).slot = LIVE
	:: client[c].left >> d & 1 -> write_answered(c, d)
	:: else
	fi;
	skip
}

proctype queue(byte c, d)
{
end:
	do
	/* link_follow(): an old round's connection is ended; each round gets one */
	:: STEP { P(c, d).link == BEFORE -> P(c, d).link = DOWN; link_drop(c, d) }
	:: STEP {
		client[c].running && P(c, d).link == DOWN && P(c, d).comeback == UP && P(c, d).bound ->
		P(c, d).link = NOW;
		P(c, d).data = true
	}
	/* link_broke(): the donor has ended the connection, or is or seems silent */
	:: STEP {
		P(c, d).link == NOW && !P(c, d).data ->
		P(c, d).link = BROKEN;
		P(c, d).broke = true;
		link_drop(c, d)
	}
	:: STEP {
		P(c, d).link == NOW && P(c, d).data && faults ->
		faults--;
		P(c, d).link = BROKEN;
		P(c, d).broke = true;
		link_drop(c, d)
	}
	:: STEP {
		P(c, d).landed && (P(c, d).link == NOW || P(c, d).link == BEFORE) -> link_answers(c, d)
	}
	/* the rebuild thread; writers of the page wait meanwhile */
	:: STEP {
		client[c].running && P(c, d).slot == JOINING && !client[c].left && !client[c].copying && REACHED(c, d) &&
		    (!client[c].last || CAN_READ(c, OTHER(d))) ->
		if
		:: client[c].last ->
			client[c].copying = d + 1;
			P(c, d).posted = donor[OTHER(d)].content
		:: else -> P(c, d).slot = LIVE
		fi;
		skip
	}
	od
}

/* --- Who writes ------------------------------------------------------------------------------------------------- */

/* write_post(): to every replica, also those being filled */
inline write_post(c)
{
	client[c].unsure = true;
	d = 0;
	do
	:: d < DONORS ->
		if
		:: IN_USE(c, d) && USABLE(c, d) ->
			P(c, d).posted = client[c].write;
			client[c].left = client[c].left | (1 << d)
		:: else
		fi;
		d++
	:: else -> break
	od;
	d = 0
}

/* want_publish(): the chunk begins with the granted slabs */
inline chunk_publish(c)
{
	d = 0;
	do
	:: d < DONORS ->
		if
		:: P(c, d).slot == GRANTED -> P(c, d).slot = LIVE
		:: else
		fi;
		P(c, d).tried = false;
		d++
	:: else -> break
	od;
	d = 0;
	client[c].chunk = READY
}

/* leases_want_deny(): the write fails, and the page keeps its contents */
inline chunk_deny(c)
{
	rest_release(c);
	client[c].chunk = ABSENT;
	client[c].write = 0
}

/* chunk_hold() */
inline chunk_want(c)
{
	client[c].chunk = WANTED;
	d = 0;
	do
	:: d < DONORS ->
		P(c, d).tried = false;
		d++
	:: else -> break
	od;
	d = 0
}

/* far_forget(), idle_release(): the chunk has no live page */
inline chunk_discard(c)
{
	d = 0;
	do
	:: d < DONORS ->
		if
		:: P(c, d).slot == LIVE -> slot_release(c, d)
		:: else
		fi;
		d++
	:: else -> break
	od;
	d = 0;
	rest_release(c);
	client[c].chunk = ABSENT;
	client[c].last = 0;
	client[c].unsure = false
}

proctype writer(byte c)
{
	byte d, e;
end:
	do
	:: STEP {
		client[c].running && !client[c].write && client[c].versions < WRITES &&
		    (c == 0 || client[0].versions || !client[0].running) ->
		client[c].versions++;
		client[c].write = VERSION(c, client[c].versions)
	}
	:: STEP { client[c].running && client[c].write && client[c].chunk == ABSENT -> chunk_want(c) }
	:: STEP { client[c].running && client[c].chunk == WANTED && WITH(c, GRANTED) == REPLICAS -> chunk_publish(c) }
	/* too few donors have room, or the timeout is over: the chunk begins with at least one slab, or is denied */
	:: STEP {
		client[c].running && client[c].chunk == WANTED && !CAN_ASK(c) && !WITH(c, ASKED) && !SOME_AWAY(c) &&
		    WITH(c, GRANTED) && WITH(c, GRANTED) < REPLICAS ->
		chunk_publish(c)
	}
	:: STEP {
		client[c].running && client[c].chunk == WANTED && !CAN_ASK(c) && !WITH(c, ASKED) && !SOME_AWAY(c) &&
		    WITH(c, GRANTED) < REPLICAS ->
		chunk_deny(c)
	}
	:: STEP { client[c].running && client[c].chunk == WANTED && faults -> faults--; chunk_deny(c) }
	:: STEP {
		client[c].running && client[c].chunk == READY && client[c].write && !client[c].left && !client[c].copying &&
		    CAN_POST(c) ->
		write_post(c)
	}
	:: STEP {
		client[c].running && client[c].chunk == READY && !client[c].write && ALL_UP(c) && DISCARDS ->
		chunk_discard(c)
	}
	od
}

/*
 * protocol: leases, revocation, fencing, comebacks and rebuilding between clients and donors.
 *
 * Theory of operation. Every step is one event of a state machine of the code, with the whole response of the code.
 * The code also runs one event at a time. Between events anything may happen in any order: messages of a connection
 * arrive in order or, when it ends, not at all; a write on a data connection reaches memory at any time until the
 * donor has fenced that connection; time is not modelled, so a timer may expire at any time. The number of faults is
 * limited. Each client has one chunk of one page, each donor memory for one slab, so both clients want the same
 * memory. docs/model.md says which line stands for which code, and what the model leaves out.
 *
 *   config.pml   bounds, deliberate mistakes (-D...), the state
 *   donor.pml    a donor: its book, its connections, its slab
 *   client.pml   a client's control thread
 *   queue.pml    its queue, and who writes
 *
 * spin checks observer() after every event, the assertions in the events, and at_rest().
 */
#include "config.pml"
#include "donor.pml"
#include "client.pml"
#include "queue.pml"

/* The donor's program restarts, without its memory and its records. */
inline donor_crashes(d)
{
	donor[d].slab = FREE;
	donor[d].owner = NOBODY;
	donor[d].claimed = false;
	donor[d].told = false;
	donor[d].keys = 0;
	donor[d].content = 0;
	donor[d].name = 0;
	c = 0;
	do
	:: c < CLIENTS ->
		P(c, d).session = NONE;
		P(c, d).bound = false;
		P(c, d).data = false;
		P(c, d).posted = 0;
		P(c, d).late = 0;
		P(c, d).same = false;
		flush(up[PAIR(c, d)]);
		c++
	:: else -> break
	od;
	c = 0
}

/* The client's process ends without a message. Its posted writes may still reach memory. */
inline client_ends(c)
{
	d = 0;
	do
	:: d < DONORS ->
		P(c, d).bound = false;
		P(c, d).link = DOWN;
		P(c, d).broke = false;
		P(c, d).landed = 0;
		flush(down[PAIR(c, d)]);
		d++
	:: else -> break
	od;
	d = 0
}

/* chunk_recover(), donors_adopt(): the next process finds the chunk unchanged, if it had slabs. */
inline client_adopts(c)
{
	d = 0;
	do
	:: d < DONORS ->
		P(c, d).comeback = AWAY;
		P(c, d).tried = false;
		if
		:: P(c, d).slot == LIVE
		:: else -> slot_forget(c, d)
		fi;
		d++
	:: else -> break
	od;
	d = 0;
	if
	:: client[c].chunk == WANTED -> client[c].chunk = ABSENT
	:: else
	fi;
	client[c].write = 0;
	client[c].left = 0;
	client[c].again = false;
	client[c].copying = 0
}

proctype world()
{
	byte c, d;
end:
	do
	:: STEP { faults -> faults--; donor_crashes(0) }
#if DONORS > 1
	:: STEP { faults -> faults--; donor_crashes(1) }
#endif
	:: STEP { faults && client[0].running -> faults--; client_ends(0); client[0].running = false }
	:: STEP { faults && client[0].running -> faults--; client_ends(0); client_adopts(0) }
#if CLIENTS > 1
	:: STEP { faults && client[1].running -> faults--; client_ends(1); client[1].running = false }
	:: STEP { faults && client[1].running -> faults--; client_ends(1); client_adopts(1) }
#endif
	od
}

/* --- When no event can happen any more, all work is done
   -------------------------------------------------------- */

#define SETTLED(c, d)                                                                                                  \
	(empty(up[PAIR(c, d)]) && empty(down[PAIR(c, d)]) &&                                                           \
	 (client[c].running || P(c, d).session == NONE) &&                                                             \
	 (!client[c].running || (P(c, d).comeback == UP && P(c, d).link == NOW) ||                                     \
	  (P(c, d).comeback == LOST && P(c, d).session == NONE)) &&                                                    \
	 (!client[c].running || P(c, d).slot == NOTHING || (P(c, d).slot == LIVE && THERE(c, d))))
/* No page waits for ever, and no slab is wasted: each slab is free, or its owner knows it. */
#define ANSWERED(c) (!client[c].running || (!client[c].write && client[c].chunk != WANTED && !client[c].copying))
#define ACCOUNTED(d)                                                                                                   \
	((donor[d].slab == FREE && !donor[d].keys) || (donor[d].slab == LEASED && donor[d].claimed && HELD(0, d)) ||   \
	 HELD_BY_OTHER(d))
#define HELD(c, d)                                                                                                     \
	(donor[d].owner == c && client[c].running && client[c].chunk == READY && P(c, d).slot == LIVE &&               \
	 P(c, d).name == donor[d].name)
#if CLIENTS > 1
#define HELD_BY_OTHER(d) (donor[d].slab == LEASED && donor[d].claimed && HELD(1, d))
#else
#define HELD_BY_OTHER(d) false
#endif

proctype observer()
{
end:
	STEP { !GOOD -> assert(false) }
}

proctype at_rest()
{
	timeout;
	assert(SETTLED(0, 0) && ANSWERED(0) && ACCOUNTED(0));
#if CLIENTS > 1
	assert(SETTLED(1, 0) && ANSWERED(1));
#endif
#if DONORS > 1
	assert(SETTLED(0, 1) && ACCOUNTED(1));
#endif
#if CLIENTS > 1 && DONORS > 1
	assert(SETTLED(1, 1))
#endif
}

/* --- All are up, nothing is leased ------------------------------------------------------------------------------ */

inline start(c, d)
{
	P(c, d).comeback = UP;
	P(c, d).slot = NOTHING;
	P(c, d).link = NOW;
	P(c, d).session = ACTIVE;
	P(c, d).bound = true;
	P(c, d).same = true;
	P(c, d).data = true;
	run control(c, d);
	run queue(c, d);
	run connection(c, d);
	run book(c, d);
	run network(c, d)
}

init
{
	atomic {
		client[0].running = true;
		client[0].chunk = ABSENT;
		donor[0].slab = FREE;
		donor[0].owner = NOBODY;
		start(0, 0);
		run writer(0);
		run worker(0);
#if DONORS > 1
		donor[1].slab = FREE;
		donor[1].owner = NOBODY;
		start(0, 1);
		run worker(1);
#endif
#if CLIENTS > 1
		client[1].running = true;
		client[1].chunk = ABSENT;
		start(1, 0);
		run writer(1);
#if DONORS > 1
		start(1, 1);
#endif
#endif
		run world();
		run observer();
		run at_rest()
	}
}

#ifdef LIVENESS
/* A client that has ended does not keep its slab for ever. */
ltl leases_end { [] ((!client[0].running) -> <> (donor[0].owner != 0)) }
#endif

/*
 * window: filling a new replica inside one client, while others write: threads, not machines.
 *
 * Theory of operation. One chunk has a full slot on donor A and gets a slot on donor B, which is joining until the
 * rebuild thread has copied every page to it. Each writer owns one page and has its own data connection to B, as has
 * the rebuild thread. Each access to memory that several threads use is a step, in the order of the lines. The code
 * has full fences where the order matters (docs/model.md). A writer publishes its piece, looks at the window, and
 * only then at the slots; the copier sets its window and then waits for the pieces in it. B's connections may break
 * at any time; a write on a broken connection may reach memory at any time until the donor is back and fences it.
 *
 * Deliberate mistakes, each of which must be found (tests/model/test_model.py):
 *   PASS_WINDOW    a writer does not look at the window
 *   PASS_PIECES    the copier does not wait for the pieces in its window
 *   VIEW_FIRST     a writer looks at the slots before it has published its piece
 *   FULL_EARLY     a slot counts as full before all is copied
 *   COPY_AGAIN     a copy whose connection broke is repeated on a new connection without a fence
 *   SKIP_AWAY      a writer leaves out a slot whose donor is away, which stays the chunk's
 *   LATE_AFTER a donor comes back without a fence of writes in flight
 */
#ifndef PAGES
#define PAGES 2
#endif
#ifndef WRITES
#define WRITES 2 /* of each page */
#endif
#ifndef FAULTS
#define FAULTS 1 /* connections that break */
#endif
#ifndef JOINS
#define JOINS 2 /* slabs had from B */
#endif
#define QUEUES (PAGES + 1) /* one for each writer, and one for the copier */
#define COPIER PAGES

#ifdef COVERAGE
#define STEP atomic
#else
#define STEP d_step
#endif

mtype:slot = { NOTHING, JOINING, FULL };
mtype:slot slot = NOTHING; /* on B */
byte slab;                 /* the name of the slab in `slot` */
byte piece[PAGES];         /* 1 + the page that a writer has under way, or 0 */
byte window;               /* 1 + the page that is being copied, or 0 */
byte copied;               /* the `slab` that is copied completely */
byte begun[PAGES];         /* version of the last write */
byte last[PAGES];          /* version of the last complete write */
byte on_a[PAGES], on_b[PAGES];

/* One write on a queue's connections to A, which never fails here, and to B. */
typedef operation {
	byte a, b;   /* version to write; 0: none, or done */
	byte page;
	byte slab;
	byte late;   /* as b, on an ended connection: nobody waits for it */
	bool broken; /* and its queue has not noticed the end yet */
	bool up;     /* the connection to B belongs to the present round and is up */
};
operation queue[QUEUES];

bool away;   /* B */
bool wanted; /* a write waits for B, so B's slot must be detached */
byte faults = FAULTS, joins = JOINS;

#if PAGES > 1
#define ALL_UP (queue[0].up && queue[1].up && queue[2].up)
#else
#define ALL_UP (queue[0].up && queue[1].up)
#endif
#define OVER(q) (queue[q].b == 0)

inline link_break(q)
{
	queue[q].up = false;
	if
	:: queue[q].b ->
		queue[q].late = queue[q].b;
		queue[q].b = 0;
		queue[q].broken = true
	:: else
	fi
}

inline lands(q, what)
{
	if
	:: queue[q].slab == slab -> on_b[queue[q].page] = what
	:: else /* the slab's key is dead */
	fi;
	what = 0
}

/* The fabric, and the donors' devices. */
proctype network(byte q)
{
end:
	do
	:: STEP { queue[q].a -> on_a[queue[q].page] = queue[q].a; queue[q].a = 0 }
	:: STEP { queue[q].b -> lands(q, queue[q].b) }
	:: STEP { queue[q].late -> lands(q, queue[q].late) }
	:: STEP { queue[q].up && faults -> faults--; link_break(q) }
	od
}

/* far_write.c and far_answer.c: write_send() to write_commit(). */
proctype writer(byte q)
{
	byte view_slab;
	mtype:slot view = NOTHING;
end:
	do
	:: begun[q] < WRITES ->
		begun[q]++;
again:
		skip;
#ifdef VIEW_FIRST
		STEP { view = slot; view_slab = slab };
#endif
		piece[q] = q + 1;
#ifndef PASS_WINDOW
		if
		:: window == q + 1 ->
			piece[q] = 0;
			window != q + 1;
			goto again
		:: else
		fi;
#endif
#ifndef VIEW_FIRST
		STEP { view = slot; view_slab = slab };
#endif
#ifndef SKIP_AWAY
		if
		:: view != NOTHING && !queue[q].up ->
			/* the control thread detaches it, or brings it back */
			piece[q] = 0;
			wanted = true;
			queue[q].up || slot != view || slab != view_slab;
			goto again
		:: else
		fi;
#endif
		STEP {
			queue[q].page = q;
			queue[q].a = begun[q];
			queue[q].slab = view_slab;
			if
			:: view != NOTHING && queue[q].up -> queue[q].b = begun[q]
#ifndef SKIP_AWAY
			:: view != NOTHING && !queue[q].up -> queue[q].broken = true
#endif
			:: else
			fi
		};
		queue[q].a == 0;
		OVER(q);
		if
		:: queue[q].broken ->
			/* unknown if B has the write */
			queue[q].broken = false;
			piece[q] = 0;
			goto again
		:: else
		fi;
		last[q] = begun[q];
		piece[q] = 0;
		view = NOTHING;
		view_slab = 0
	od
}

/* A read from B, now or when B is back, would not return the last complete write. */
proctype reader(byte q)
{
end:
	STEP { slot == FULL && begun[q] == last[q] && on_b[q] != last[q] -> assert(false) }
}

/* The rebuild thread. */
proctype copier()
{
	byte page, filled;
end:
	do
	:: STEP { slot == JOINING && copied != slab && queue[COPIER].up -> filled = slab; page = 0 };
		do
		:: page < PAGES ->
			window = page + 1;
#ifndef PASS_PIECES
			piece[page] != page + 1;
#endif
			STEP {
				queue[COPIER].page = page;
				queue[COPIER].slab = filled;
				if
				:: queue[COPIER].up -> queue[COPIER].b = on_a[page]
				:: else -> queue[COPIER].broken = true
				fi
			};
			OVER(COPIER);
			if
			:: queue[COPIER].broken ->
				queue[COPIER].broken = false;
#ifdef COPY_AGAIN
				queue[COPIER].up = true;
				window = 0
#else
				break /* the slot is given up: control() */
#endif
			:: else ->
				window = 0;
				page++
			fi
		:: else ->
			copied = filled;
			break
		od;
		window = 0
	od
}

proctype control()
{
	byte q;
end:
	do
	/* leases.c: a chunk has fewer slots than it should */
	:: STEP {
		slot == NOTHING && !away && joins && ALL_UP ->
		joins--;
		slab++;
		q = 0;
		do
		:: q < PAGES -> on_b[q] = 0; q++
		:: else -> break
		od;
		q = 0;
		slot = JOINING
	}
#ifdef FULL_EARLY
	:: STEP { slot == JOINING && window -> slot = FULL }
#endif
	:: STEP { slot == JOINING && copied == slab && !away -> slot = FULL }
	/* donor_leave(): a queue has reported the end, and the round ends for all */
	:: STEP {
		!away && !ALL_UP ->
		away = true;
		q = 0;
		do
		:: q < QUEUES -> link_break(q); q++
		:: else -> break
		od;
		q = 0;
		if
		:: slot == JOINING -> slot = NOTHING
		:: else
		fi
	}
	:: STEP { away && slot == FULL && wanted -> slot = NOTHING }
	/* donor_return(): the donor has fenced the old session, a new round begins */
	:: STEP {
		away ->
		away = false;
		wanted = false;
		q = 0;
		do
		:: q < QUEUES ->
#ifndef LATE_AFTER
			queue[q].late = 0;
#endif
			queue[q].up = true;
			q++
		:: else -> break
		od;
		q = 0
	}
	od
}

/* When no event can happen any more, every write is complete, and the chunk has its replicas again, if possible. */
proctype at_rest()
{
	timeout;
	assert(last[0] == WRITES && on_a[0] == WRITES && (slot == NOTHING || on_b[0] == WRITES));
#if PAGES > 1
	assert(last[1] == WRITES && on_a[1] == WRITES && (slot == NOTHING || on_b[1] == WRITES));
#endif
	assert(!window && !away && slot != JOINING && (slot == FULL || !joins))
}

init
{
	byte q;
	atomic {
		do
		:: q < QUEUES ->
			queue[q].up = true;
			run network(q);
			if
			:: q < PAGES -> run writer(q); run reader(q)
			:: else
			fi;
			q++
		:: else -> break
		od;
		q = 0;
		run copier();
		run control();
		run at_rest()
	}
}

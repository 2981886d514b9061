/*
 * lease: thousands of seeded histories. Clients come, lease, release, lie, vanish and return, and the machine needs its
 * memory. A model of which client may hold which slab, and for how long, checks the book. A failing history prints its
 * seed.
 * `test_lease_random SEED` replays it.
 */
#include "common/random.h"
#include "memserver/lease.h"
#include "tests/lib/tap.h"

#define CLIENTS 5
#define SESSIONS (CLIENTS - 1)
#define SLABS 6
#define STEPS 400
#define HISTORIES 3000
#define HEARTBEAT 1000
#define GRACE 4000
#define REVOKE 3000

/* The model: what the world outside the book knows. */
struct world {
	struct random_state random;
	struct lease_book *book;
	uint64_t now;
	uint32_t session[CLIENTS];      /* by client; LEASE_NO_SESSION while not connected */
	uint32_t client[SESSIONS];      /* by session: its client */
	bool exists[SESSIONS];          /* by session */
	unsigned conns[SESSIONS];       /* by session: data connections that really exist */
	uint64_t vanished_at[SESSIONS]; /* by session */
	int owner[SLABS];               /* client that the slab's memory is registered for, or -1 for none */
	bool ordered[SLABS];            /* the worker has an order for the slab */
	bool clearing[SLABS];
	bool abandoned[SLABS];      /* the memory in preparation is not needed any more */
	bool memory[SLABS];         /* the slab has memory */
	bool revoked[SLABS];        /* what the slab's client was last told */
	uint64_t until[SLABS];      /* revoked: the client's deadline */
	unsigned notices[SESSIONS]; /* by session: notices since the client was last heard */
	uint32_t target;            /* slabs that may be in use */
	uint64_t target_at;         /* when the target last fell */
	bool draining;
	uint64_t empty_at; /* forced drain: nothing may be leased from then on */
	unsigned taken, kept;
	int releasing;               /* client whose RELEASE is being handled, or -1 for none */
	uint64_t names[CLIENTS][64]; /* granted names, valid or not */
	unsigned name_count[CLIENTS];
	unsigned answered;
	bool confirmed;
	bool used[SESSIONS][100]; /* by session: counters of data connections that were let in */
	const char *wrong;
};

static void expect(struct world *w, bool good, const char *what)
{
	if (!good && !w->wrong)
		w->wrong = what;
}

static int client_of(struct world *w, uint32_t session)
{
	expect(w, w->exists[session], "an action names a session that has ended");
	return (int)w->client[session];
}

static void prepare_take(struct world *w, const struct lease_action *a)
{
	expect(w, !w->ordered[a->slab] && w->owner[a->slab] == -1, "a slab in use is prepared");
	expect(w, !w->memory[a->slab], "a slab whose memory was not cleared is prepared");
	w->ordered[a->slab] = true;
	w->abandoned[a->slab] = false;
}

static void abandon_take(struct world *w, const struct lease_action *a)
{
	expect(w, w->ordered[a->slab] && !w->clearing[a->slab], "a slab that is not in preparation is abandoned");
	expect(w, !w->abandoned[a->slab], "a slab is abandoned twice");
	w->abandoned[a->slab] = true;
}

static void grant_take(struct world *w, const struct lease_action *a)
{
	int client = client_of(w, a->session);

	expect(w, w->session[client] == a->session, "a client that is not connected gets a grant");
	expect(w, w->owner[a->slab] == client, "a client gets a grant of a slab registered for another one");
	expect(w, !w->abandoned[a->slab], "a client gets a grant of an abandoned slab");
	w->confirmed |= a->kind == LEASE_CONFIRM;
	w->revoked[a->slab] = false;
	if (a->kind == LEASE_CONFIRM)
		return;
	unsigned stay = 0;

	for (int i = 0; i < SLABS; i++)
		stay += w->book->slabs[i].state == LEASE_SLAB_LEASED ||
			(w->book->slabs[i].state == LEASE_SLAB_PREPARING && !w->book->slabs[i].unwanted);
	expect(w, stay <= w->target && !w->draining, "a client gets a grant of a slab that the donor recalls");
	if (!random_below(&w->random, 20)) {
		lease_refuse(w->book, a->slab); /* the slab is out of its client's reach */
		return;
	}
	w->names[client][w->name_count[client]++ % 64] = a->name;
	w->answered++;
}

static void clear_take(struct world *w, const struct lease_action *a)
{
	expect(w, !w->ordered[a->slab], "a slab is cleared while the worker has an order for it");
	expect(w, w->memory[a->slab], "a slab without memory is cleared");
	expect(w, w->releasing < 0 || w->owner[a->slab] == w->releasing,
	       "a client's slab is released by another client");
	w->ordered[a->slab] = w->clearing[a->slab] = true;
	w->owner[a->slab] = -1;
}

static void fence_take(struct world *w, const struct lease_action *a)
{
	w->session[client_of(w, a->session)] = LEASE_NO_SESSION;
	w->conns[a->session] = 0;
	w->vanished_at[a->session] = w->now;
}

static void notice_take(struct world *w, const struct lease_action *a)
{
	int client = client_of(w, a->session);
	bool taken = a->kind == LEASE_TAKEN;

	expect(w, w->session[client] == a->session, "a client that is not connected gets a notice");
	expect(w, ++w->notices[a->session] <= LEASE_NOTICES, "a client gets more notices than a connection may take");
	expect(w, taken || w->owner[a->slab] == client, "a client gets a notice about another client's slab");
	expect(w, !taken || w->until[a->slab] < w->now, "a slab is taken before its client's deadline");
	expect(w, !taken || w->clearing[a->slab] || !w->memory[a->slab] || w->owner[a->slab] == client,
	       "a slab is taken from a client that does not have it");
	w->revoked[a->slab] = a->kind == LEASE_REVOKE;
	w->until[a->slab] = a->until;
	w->taken += taken;
	w->kept += a->kind == LEASE_KEEP;
}

static void forget_take(struct world *w, const struct lease_action *a)
{
	int client = client_of(w, a->session);

	for (int i = 0; i < SLABS; i++)
		expect(w, w->owner[i] != client, "a session is forgotten while a slab is registered for it");
	expect(w, !w->conns[a->session], "a session is forgotten while it has data connections");
	w->exists[a->session] = false;
}

static void settle(struct world *w)
{
	struct lease_action a;

	while (lease_next(w->book, &a)) {
		switch (a.kind) {
		case LEASE_PREPARE:
			prepare_take(w, &a);
			break;
		case LEASE_ABANDON:
			abandon_take(w, &a);
			break;
		case LEASE_GRANT:
		case LEASE_CONFIRM:
			grant_take(w, &a);
			break;
		case LEASE_DENY:
		case LEASE_RETURNED:
			expect(w, w->session[client_of(w, a.session)] == a.session,
			       "a client that is not connected gets an answer");
			w->answered++;
			break;
		case LEASE_CLEAR:
			clear_take(w, &a);
			break;
		case LEASE_PING:
			expect(w, w->session[client_of(w, a.session)] == a.session,
			       "a client that is not connected gets a PING");
			break;
		case LEASE_REVOKE:
		case LEASE_KEEP:
		case LEASE_TAKEN:
			notice_take(w, &a);
			break;
		case LEASE_FENCE:
			fence_take(w, &a);
			break;
		case LEASE_FORGET:
			forget_take(w, &a);
			break;
		}
	}
}

static void worker_step(struct world *w, uint32_t slab)
{
	uint64_t chance = random_below(&w->random, 10);
	uint32_t session = w->book->slabs[slab].session;

	if (!w->ordered[slab])
		return;
	w->ordered[slab] = false;
	if (w->clearing[slab]) {
		w->clearing[slab] = w->memory[slab] = false;
		lease_cleared(w->book, slab);
		return;
	}
	w->memory[slab] = chance > 0;
	if (chance > 0 && session != LEASE_NO_SESSION)
		w->owner[slab] = client_of(w, session);
	lease_prepared(w->book, slab, chance == 0 ? LEASE_NO_MEMORY : LEASE_READY);
}

/*
 * A client that came claims each slab it was ever granted, or forgets some. Afterwards only the confirmed slabs are its
 * own.
 */
static void client_claim(struct world *w, unsigned client)
{
	uint32_t session = w->session[client];
	unsigned count = w->name_count[client] < 64 ? w->name_count[client] : 64;
	uint64_t forgets = random_below(&w->random, 3) ? 0 : random_next(&w->random);
	bool kept[SLABS] = {false};

	for (unsigned i = 0; i < count; i++) {
		uint32_t slab = (uint32_t)w->names[client][i];

		if (forgets >> i & 1)
			continue;
		w->confirmed = false;
		lease_claim(w->book, session, i, w->names[client][i]);
		settle(w);
		kept[slab] |= w->confirmed;
	}
	lease_claimed(w->book, session);
	settle(w);
	for (uint32_t i = 0; i < SLABS; i++)
		expect(w, kept[i] == (w->owner[i] == (int)client),
		       "a returned client keeps other slabs than those confirmed");
}

static void client_come(struct world *w, unsigned client)
{
	uint8_t id[WIRE_ID_SIZE] = {(uint8_t)client}, key[AUTH_KEY_SIZE] = {1};
	uint32_t session;

	if (lease_session_begin(w->book, w->now, id, key, random_below(&w->random, 2 * GRACE), &session))
		return;
	settle(w);
	if (w->exists[session])
		expect(w, w->client[session] == client, "a client gets the session of another one");
	w->exists[session] = true;
	w->client[session] = client;
	w->session[client] = session;
	w->notices[session] = 0;
	memset(w->used[session], 0, sizeof w->used[session]);
	client_claim(w, client);
}

static void client_release(struct world *w, unsigned client)
{
	/* one of its own names, valid or not, or another client's */
	unsigned of = random_below(&w->random, 4) ? client : (unsigned)random_below(&w->random, CLIENTS);
	unsigned count = w->name_count[of] < 64 ? w->name_count[of] : 64;
	uint64_t name = count ? w->names[of][random_below(&w->random, count)] : random_next(&w->random);

	w->releasing = (int)client;
	lease_release(w->book, w->session[client], (uint32_t)random_next(&w->random), name);
	settle(w);
	w->releasing = -1;
}

static void client_step(struct world *w, unsigned client)
{
	uint32_t session = w->session[client];
	uint64_t dice = random_below(&w->random, 20);

	if (session == LEASE_NO_SESSION || dice == 0) {
		client_come(w, client);
	} else if (dice == 1) {
		lease_session_vanished(w->book, w->now, session);
	} else if (dice == 2) {
		lease_session_bye(w->book, session);
	} else if (dice < 9) {
		lease_request(w->book, session, (uint32_t)random_next(&w->random));
	} else if (dice < 14) {
		client_release(w, client);
	} else if (dice < 16) {
		uint64_t counter = random_below(&w->random, 100);

		if (!lease_attach(w->book, session, counter)) {
			expect(w, counter && !w->used[session][counter],
			       "a counter of a data connection is let in twice");
			w->used[session][counter] = true;
			w->conns[session]++;
		}
	} else if (dice == 16 && w->conns[session]) {
		w->conns[session]--;
		lease_detach(w->book, session);
	} else {
		w->notices[session] = 0;
		lease_session_heard(w->book, w->now, session);
	}
	settle(w);
}

/* Changes how many slabs the machine can spare, or starts or ends a drain. */
static void machine_step(struct world *w)
{
	uint64_t dice = random_below(&w->random, 8), within = random_below(&w->random, 2 * REVOKE);
	uint32_t target = (uint32_t)random_below(&w->random, SLABS + 1);

	if (dice < 4) {
		w->target_at = target < w->target ? w->now : w->target_at;
		w->target = target;
		lease_target(w->book, w->now, target, dice & 1);
	} else if (dice == 4) {
		w->draining = true;
		w->empty_at = UINT64_MAX;
		lease_drain(w->book, w->now, WIRE_DRAIN_WAIT, 0);
	} else if (dice == 5) {
		w->draining = true;
		if (w->now + within < w->empty_at)
			w->empty_at = w->now + within;
		lease_drain(w->book, w->now, WIRE_DRAIN_FORCE, within);
	} else {
		w->draining = false;
		w->empty_at = UINT64_MAX;
		lease_drain(w->book, w->now, WIRE_DRAIN_END, 0);
	}
	settle(w);
}

/* Checks what must hold between any two events. */
static void check(struct world *w)
{
	struct wire_capacity capacity;
	unsigned busy = 0, held = 0, sessions = 0;

	lease_capacity(w->book, &capacity);
	for (int i = 0; i < SLABS; i++) {
		const struct lease_slab *slab = &w->book->slabs[i];

		busy += slab->state != LEASE_SLAB_FREE;
		const bool leased = slab->state == LEASE_SLAB_LEASED || slab->state == LEASE_SLAB_REVOKING;

		held += w->owner[i] >= 0;
		expect(w, leased == (w->owner[i] >= 0),
		       "a slab is leased but not registered, or registered but not leased");
		if (leased)
			expect(w, w->owner[i] == client_of(w, slab->session),
			       "a slab is leased to another client than it is registered for");
		if (leased && w->book->sessions[slab->session].state == LEASE_SESSION_ACTIVE && !slab->untold)
			expect(w, w->revoked[i] == (slab->state == LEASE_SLAB_REVOKING),
			       "a client does not know whether its slab is recalled");
		expect(w,
		       w->ordered[i] == (slab->state == LEASE_SLAB_PREPARING ||
					 (slab->state == LEASE_SLAB_CLEARING && !slab->cleared)),
		       "a slab is with the worker in the book but not in the model, or the reverse");
	}
	for (int i = 0; i < SESSIONS; i++) {
		const struct lease_session *session = &w->book->sessions[i];

		sessions += w->exists[i];
		expect(w, w->exists[i] == (session->state != LEASE_SESSION_FREE),
		       "a session exists in the book but not in the model, or the reverse");
		if (session->state == LEASE_SESSION_ACTIVE) {
			expect(w, session->conns == w->conns[i], "the data connections of a session are miscounted");
			expect(w, w->session[w->client[i]] == (uint32_t)i, "an active session has lost its client");
		}
		if (session->state == LEASE_SESSION_GRACE)
			expect(w, w->now <= w->vanished_at[i] + GRACE + HEARTBEAT, "a session outlives its grace time");
	}
	expect(w, held <= w->target || w->now < w->target_at + REVOKE,
	       "more slabs than the target are in use past the deadline");
	expect(w, !held || w->now < w->empty_at, "a slab is in use past the deadline of a forced drain");
	expect(w, capacity.donated >= capacity.leased, "more memory is leased than donated");
	expect(w, capacity.donated == capacity.leased || (!w->draining && capacity.donated == w->target),
	       "clients are told of room that would be denied");
	expect(w, capacity.leased == busy && capacity.clients == sessions, "the capacity is miscounted");
	expect(w, !sessions || lease_deadline(w->book) != UINT64_MAX, "a book with sessions has no deadline");
}

static const char *history(uint64_t seed, unsigned *taken, unsigned *kept)
{
	const struct lease_limits limits = {.slabs = SLABS,
					    .slab_bytes = 1,
					    .sessions = SESSIONS,
					    .session_slabs = seed % 2 ? 3 : 0,
					    .session_conns = 3,
					    .grace_ns = GRACE,
					    .heartbeat_ns = HEARTBEAT,
					    .revoke_ns = REVOKE};
	struct world w = {.releasing = -1, .target = SLABS, .empty_at = UINT64_MAX};

	random_seed(&w.random, seed);
	if (lease_open(&limits, &w.book) < 0)
		return "the book cannot be opened";
	for (int i = 0; i < CLIENTS; i++)
		w.session[i] = LEASE_NO_SESSION;
	for (int i = 0; i < SLABS; i++)
		w.owner[i] = -1;
	for (int step = 0; step < STEPS && !w.wrong; step++) {
		if (random_below(&w.random, 30) == 0) {
			machine_step(&w);
		} else if (random_below(&w.random, 3) == 0) {
			worker_step(&w, (uint32_t)random_below(&w.random, SLABS));
			settle(&w);
		} else {
			client_step(&w, (unsigned)random_below(&w.random, CLIENTS));
		}
		w.now += random_below(&w.random, HEARTBEAT / 2);
		if (w.now >= lease_deadline(w.book))
			lease_expire(w.book, w.now);
		settle(&w);
		check(&w);
	}
	lease_leave(w.book);
	settle(&w);
	for (int turn = 0; turn < 2; turn++)
		for (uint32_t i = 0; i < SLABS; i++) {
			worker_step(&w, i);
			settle(&w);
		}
	expect(&w, w.book->free_count == SLABS && !w.book->session_count, "a slab or a session is left at the end");
	lease_close(w.book);
	*taken += w.taken;
	*kept += w.kept;
	return w.wrong;
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, last = argc > 1 ? first : HISTORIES;
	unsigned taken = 0, kept = 0;
	const char *wrong = NULL;
	uint64_t seed;

	for (seed = first; seed <= last; seed++) {
		wrong = history(seed, &taken, &kept);
		if (wrong)
			break;
	}
	ok(!wrong, "%llu random histories of %d steps agree with the model", (unsigned long long)(last - first + 1),
	   STEPS);
	ok(argc > 1 || (taken > 500 && kept > 100),
	   "random histories take many slabs (%u) and let many recalled ones stay (%u)", taken, kept);
	if (wrong)
		printf("# seed %llu: %s\n", (unsigned long long)seed, wrong);
	return tap_done();
}

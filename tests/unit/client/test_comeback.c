/*
 * comeback: single events, then seeded histories of a donor that comes and goes, stalls, dies and starts anew, with
 * requests that want to be answered. `test_client_comeback SEED` replays one.
 */
#include "client/donor/comeback.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)
#define PATIENCE (5000 * MS)
#define HISTORIES 3000
#define REQUESTS 200u

/* --- Single events ---------------------------------------------------------------------------------------------- */

static struct comeback up(void)
{
	struct comeback comeback;

	comeback_init(&comeback, PATIENCE, 1, 77);
	return comeback;
}

static struct comeback away(int status)
{
	struct comeback comeback = up();

	comeback_broke(&comeback, status, false, 0);
	return comeback;
}

static struct comeback trying(int status)
{
	struct comeback comeback = away(status);

	comeback_tick(&comeback, comeback_due(&comeback));
	return comeback;
}

static void test_return(void)
{
	struct comeback comeback = up();

	ok(comeback.state == COMEBACK_UP && comeback_due(&comeback) == UINT64_MAX &&
	       comeback_tick(&comeback, 1000 * PATIENCE) == COMEBACK_NOTHING,
	   "up, it wants nothing");
	ok(comeback_broke(&comeback, -ETIMEDOUT, false, 10) == COMEBACK_LEAVE && comeback.state == COMEBACK_AWAY,
	   "silent: away");
	ok(comeback_broke(&comeback, -ECONNRESET, false, 11) == COMEBACK_NOTHING, "which it is but once");
	ok(comeback_due(&comeback) > 10 && comeback_due(&comeback) <= 10 + COMEBACK_PAUSE_MIN_NS, "for a moment");
	ok(comeback_tick(&comeback, comeback_due(&comeback) - 1) == COMEBACK_NOTHING &&
	       comeback_tick(&comeback, comeback_due(&comeback)) == COMEBACK_TRY,
	   "then it is tried");
	ok(comeback_welcomed(&comeback, 77, 3, 2) == COMEBACK_CLAIM, "welcomed: its slabs are claimed");
	ok(comeback_claimed(&comeback) == COMEBACK_RETURN && comeback.state == COMEBACK_UP, "and it is back");
	comeback = trying(-ETIMEDOUT);
	ok(comeback_welcomed(&comeback, 77, 0, 0) == COMEBACK_RETURN, "with nothing to claim, at once");
	comeback = trying(-ETIMEDOUT);
	ok(comeback_welcomed(&comeback, 78, 0, 0) == COMEBACK_RETURN && comeback.incarnation == 78,
	   "so also another start of its program: nothing was there to lose");
}

static bool lost(const struct comeback *comeback, enum comeback_step step, enum comeback_end end)
{
	return step == COMEBACK_BURY && comeback->state == COMEBACK_LOST && comeback->end == end &&
	       comeback->status < 0 && comeback_due(comeback) == UINT64_MAX;
}

static void test_losses(void)
{
	static const int final[] = {-EACCES, -EPROTO, -EPROTONOSUPPORT, -EKEYREJECTED, -EINVAL};
	static const int passing[] = {-ETIMEDOUT, -ECONNRESET, -EPIPE,  -EHOSTUNREACH, -ENETUNREACH, -ECONNREFUSED,
				      -ENODEV,    -ENOMEM,     -EMFILE, -ENOENT,       -EBUSY,       -EIO};
	struct comeback comeback;

	for (unsigned i = 0; i < sizeof final / sizeof *final; i++) {
		comeback = up();
		ok(comeback_broke(&comeback, final[i], false, 0) == COMEBACK_LEAVE, "up: %s may pass",
		   strerror(-final[i]));
		comeback = trying(-ETIMEDOUT);
		comeback.met = false;
		ok(lost(&comeback, comeback_broke(&comeback, final[i], false, 0), COMEBACK_REFUSED),
		   "trying one for the first time: %s is for good", strerror(-final[i]));
		comeback = trying(-ETIMEDOUT);
		if (final[i] == -EINVAL) {
			ok(lost(&comeback, comeback_broke(&comeback, final[i], false, 0), COMEBACK_REFUSED),
			   "one that has changed says so itself");
			continue;
		}
		ok(comeback_broke(&comeback, final[i], i % 2, 0) == COMEBACK_PAUSE &&
		       comeback_due(&comeback) < PATIENCE,
		   "one that knew us: it is tried again after %s", strerror(-final[i]));
		ok(comeback_tick(&comeback, comeback_due(&comeback)) == COMEBACK_TRY &&
		       comeback_broke(&comeback, -ETIMEDOUT, false, 1) == COMEBACK_PAUSE &&
		       lost(&comeback, comeback_tick(&comeback, PATIENCE), COMEBACK_TOO_LATE) &&
		       comeback.status == final[i],
		   "until patience is over");
	}
	for (unsigned i = 0; i < sizeof passing / sizeof *passing; i++) {
		comeback = up();
		ok(comeback_broke(&comeback, passing[i], false, 0) == COMEBACK_LEAVE, "up: %s may pass",
		   strerror(-passing[i]));
		comeback = trying(-ETIMEDOUT);
		ok(comeback_broke(&comeback, passing[i], false, 0) == COMEBACK_PAUSE, "silent before: %s may pass",
		   strerror(-passing[i]));
	}
	comeback = up();
	ok(lost(&comeback, comeback_broke(&comeback, -ETIMEDOUT, true, 0), COMEBACK_REFUSED), "unless it is final");
	comeback = trying(-ECONNRESET);
	ok(lost(&comeback, comeback_broke(&comeback, -ECONNREFUSED, false, 0), COMEBACK_REFUSED),
	   "reset, then refused: no program there, lost at once");
	comeback = trying(-EACCES);
	ok(lost(&comeback, comeback_broke(&comeback, -ECONNREFUSED, false, 0), COMEBACK_REFUSED),
	   "a request refused, then the connection: likewise");
	comeback = trying(-ECONNRESET);
	ok(comeback_broke(&comeback, -ECONNRESET, false, 0) == COMEBACK_PAUSE, "reset, then reset: may pass");
	comeback = trying(-ETIMEDOUT);
	ok(lost(&comeback, comeback_welcomed(&comeback, 78, 5, 2), COMEBACK_RESTARTED), "another start: lost");
	comeback = trying(-ETIMEDOUT);
	ok(lost(&comeback, comeback_welcomed(&comeback, 77, 0, 2), COMEBACK_FORGOTTEN), "no slabs left: lost");
	comeback = trying(-ETIMEDOUT);
	ok(comeback_welcomed(&comeback, 77, 1, 2) == COMEBACK_CLAIM, "too few slabs: which, the claims tell");
	comeback = trying(-ETIMEDOUT);
	comeback_welcomed(&comeback, 77, 2, 2);
	ok(lost(&comeback, comeback_denied(&comeback), COMEBACK_FORGOTTEN), "the wrong ones: lost");
	comeback = up();
	comeback_broke(&comeback, -ETIMEDOUT, false, 3000 * MS);
	comeback_waits(&comeback, 2000 * MS);
	comeback_waits(&comeback, 2500 * MS);
	ok(comeback_tick(&comeback, 2000 * MS + PATIENCE - 1) == COMEBACK_TRY, "a request that waited before");
	ok(comeback_due(&comeback) == 2000 * MS + PATIENCE &&
	       lost(&comeback, comeback_tick(&comeback, 2000 * MS + PATIENCE), COMEBACK_TOO_LATE),
	   "has waited for long enough: lost");
	ok(comeback_broke(&comeback, -EACCES, true, 0) == COMEBACK_NOTHING &&
	       comeback_tick(&comeback, UINT64_MAX) == COMEBACK_NOTHING,
	   "once");
}

static void test_backoff(void)
{
	struct comeback comeback = away(-ETIMEDOUT);
	uint64_t now = 0, most = COMEBACK_PAUSE_MIN_NS;
	bool good = true;
	unsigned tries = 0;

	while (comeback.state != COMEBACK_LOST) {
		uint64_t due = comeback_due(&comeback);

		good &= due - now <= most && (due - now >= most / 2 || due == PATIENCE);
		now = due;
		if (comeback_tick(&comeback, now) == COMEBACK_TRY) {
			tries++;
			comeback_broke(&comeback, -EHOSTUNREACH, false, now);
			most = most * 2 < COMEBACK_PAUSE_MAX_NS ? most * 2 : COMEBACK_PAUSE_MAX_NS;
		}
	}
	ok(good, "pauses double, each shortened by chance to no less than half");
	ok(now == PATIENCE && comeback.end == COMEBACK_TOO_LATE && comeback.status == -ETIMEDOUT,
	   "until the patience is over; lost for how it went away");
	ok(tries >= 7 && tries <= 15, "%u tries", tries);
	comeback = trying(-ETIMEDOUT);
	ok(comeback_due(&comeback) == PATIENCE &&
	       lost(&comeback, comeback_tick(&comeback, PATIENCE), COMEBACK_TOO_LATE),
	   "a try that takes too long does not make it longer");
}

/* --- Histories -------------------------------------------------------------------------------------------------- */

/* The donor and its machine. */
enum host { HOST_RUNS, HOST_STALLS, HOST_DOWN, HOST_NO_PROGRAM };

struct world {
	struct random_state random;
	struct comeback comeback;
	uint64_t now;
	enum host host;
	uint64_t incarnation; /* of the program now */
	bool connected;       /* the client's connections stand */
	bool holds;           /* the program has what the client wrote */
	uint64_t try_ends;    /* when a try that gets no answer is given up */
	struct {
		uint64_t since;
		bool answered;
	} requests[REQUESTS];
	unsigned begun, losses, returns;
	const char *wrong;
};

static void expect(struct world *w, bool good, const char *what)
{
	if (!good && !w->wrong)
		w->wrong = what;
}

static void answer(struct world *w, unsigned index, bool good)
{
	expect(w, !w->requests[index].answered, "a request answered twice");
	expect(w, !good || w->holds, "a page from before, of a donor that does not have it");
	expect(w, w->now - w->requests[index].since <= PATIENCE + 2000 * MS, "a request that waited for too long");
	w->requests[index].answered = true;
}

static void step(struct world *w, enum comeback_step what)
{
	switch (what) {
	case COMEBACK_NOTHING:
		return;
	case COMEBACK_LEAVE:
		w->connected = false;
		for (unsigned i = 0; i < w->begun; i++)
			if (!w->requests[i].answered)
				comeback_waits(&w->comeback, w->requests[i].since);
		return;
	case COMEBACK_PAUSE:
		expect(w, !w->connected, "a try while connected");
		w->try_ends = UINT64_MAX;
		return;
	case COMEBACK_TRY:
		expect(w, !w->connected, "a try while connected");
		w->try_ends = w->now + 1000 * MS;
		return;
	case COMEBACK_CLAIM:
		expect(w, w->holds, "claimed from who does not have it");
		return;
	case COMEBACK_RETURN:
		expect(w, w->holds, "back without what it held");
		w->connected = true;
		w->try_ends = UINT64_MAX;
		w->returns++;
		return;
	case COMEBACK_BURY:
		expect(w, !w->losses++, "lost twice");
		w->connected = false;
		for (unsigned i = 0; i < w->begun; i++)
			if (!w->requests[i].answered)
				answer(w, i, false);
		return;
	}
}

/* The far side answers a try, or does not. */
static void host_answer(struct world *w)
{
	static const int odd[] = {-ECONNRESET, -EPIPE, -EBUSY, -EHOSTUNREACH};

	if (w->comeback.state == COMEBACK_CLAIMING && w->host == HOST_RUNS) {
		step(w, random_below(&w->random, 6) ? comeback_claimed(&w->comeback)
						    : comeback_broke(&w->comeback, -ECONNRESET, false, w->now));
	} else if (w->comeback.state == COMEBACK_TRYING && w->host == HOST_NO_PROGRAM) {
		step(w, comeback_broke(&w->comeback, -ECONNREFUSED, false, w->now));
	} else if (w->comeback.state == COMEBACK_TRYING && w->host == HOST_RUNS) {
		if (random_below(&w->random, 4))
			step(w, comeback_welcomed(&w->comeback, w->incarnation, w->holds ? 3 : 0, 3));
		else
			step(w, comeback_broke(&w->comeback, odd[random_below(&w->random, 4)], false, w->now));
	}
}

static void host_change(struct world *w)
{
	enum host before = w->host;

	w->host = (enum host)random_below(&w->random, 4);
	if (random_below(&w->random, 4))
		w->host = HOST_RUNS;
	/* A program ends with its machine, and starts empty. */
	if (w->host == HOST_NO_PROGRAM || (before == HOST_DOWN && random_below(&w->random, 2))) {
		w->holds = false;
		w->incarnation++;
		if (w->comeback.state == COMEBACK_CLAIMING)
			step(w, comeback_broke(&w->comeback, -ECONNRESET, false, w->now));
	}
	if (w->host == HOST_NO_PROGRAM && w->connected)
		step(w, comeback_broke(&w->comeback, -ECONNRESET, false, w->now));
}

static void requests_step(struct world *w)
{
	if (w->begun < REQUESTS && random_below(&w->random, 2))
		w->requests[w->begun++].since = w->now;
	for (unsigned i = 0; i < w->begun; i++) {
		if (w->requests[i].answered)
			continue;
		if (w->comeback.state == COMEBACK_LOST) {
			answer(w, i, false);
		} else if (w->connected && w->holds && w->host == HOST_RUNS && random_below(&w->random, 2)) {
			answer(w, i, true);
		}
	}
	/* What stands and says nothing is noticed. */
	if (w->connected && (w->host != HOST_RUNS || !w->holds) && random_below(&w->random, 4) == 0)
		step(w, comeback_broke(&w->comeback, -ETIMEDOUT, false, w->now));
	else if (w->connected && random_below(&w->random, 20) == 0)
		step(w, comeback_broke(&w->comeback, -ECONNRESET, false, w->now));
}

static const char *history(uint64_t seed, unsigned *returns, unsigned *losses)
{
	struct world w = {.connected = true, .holds = true, .incarnation = 1, .try_ends = UINT64_MAX};

	random_seed(&w.random, seed);
	if (seed % 4) {
		comeback_init(&w.comeback, PATIENCE, seed, 1);
	} else {
		comeback_adopt(&w.comeback, PATIENCE, seed, 1, w.now);
		w.connected = false;
	}
	for (unsigned i = 0; i < 400 && !w.wrong; i++) {
		w.now += random_below(&w.random, 200 * MS);
		if (random_below(&w.random, 10) == 0)
			host_change(&w);
		host_answer(&w);
		if (w.now >= w.try_ends && w.comeback.state == COMEBACK_TRYING)
			step(&w, comeback_broke(&w.comeback, -ETIMEDOUT, false, w.now));
		requests_step(&w);
		step(&w, comeback_tick(&w.comeback, w.now));
		expect(&w, comeback_due(&w.comeback) > w.now, "a time that has come is not dealt with");
		expect(&w, w.connected == (w.comeback.state == COMEBACK_UP), "up, and not connected, or the reverse");
	}
	for (unsigned i = 0; i < 100 && !w.wrong; i++) {
		w.now += 100 * MS;
		requests_step(&w);
		step(&w, comeback_tick(&w.comeback, w.now));
	}
	*returns += w.returns;
	*losses += w.losses;
	return w.wrong;
}

static void test_histories(uint64_t first, uint64_t last)
{
	unsigned returns = 0, losses = 0;
	const char *wrong = NULL;
	uint64_t seed;

	for (seed = first; seed <= last; seed++) {
		wrong = history(seed, &returns, &losses);
		if (wrong)
			break;
	}
	ok(!wrong, "%llu histories", (unsigned long long)(last - first + 1));
	if (wrong)
		printf("# seed %llu: %s\n", (unsigned long long)seed, wrong);
	ok(first == last || (returns > HISTORIES && losses > HISTORIES / 4), "with %u returns, %u losses", returns,
	   losses);
}

static struct comeback adopted(uint64_t incarnation)
{
	struct comeback comeback;

	comeback_adopt(&comeback, PATIENCE, 1, incarnation, 100);
	comeback_tick(&comeback, 100);
	return comeback;
}

static void test_adopted(void)
{
	struct comeback comeback = adopted(77);

	ok(comeback.state == COMEBACK_TRYING, "adopted, it is tried at once");
	ok(comeback_welcomed(&comeback, 77, 3, 3) == COMEBACK_CLAIM && comeback_claimed(&comeback) == COMEBACK_RETURN,
	   "and is back when its slabs are claimed");
	comeback = adopted(77);
	ok(comeback_welcomed(&comeback, 78, 3, 3) == COMEBACK_BURY && comeback.end == COMEBACK_RESTARTED,
	   "or had restarted");
	comeback = adopted(0);
	ok(comeback_welcomed(&comeback, 78, 3, 3) == COMEBACK_BURY, "or was given up before");
	comeback = adopted(0);
	ok(comeback_welcomed(&comeback, 78, 1, 0) == COMEBACK_CLAIM && comeback.incarnation == 78,
	   "one that nothing is known to be on is as good as new");
	comeback = adopted(77);
	ok(comeback_broke(&comeback, -ECONNREFUSED, false, 200) == COMEBACK_PAUSE, "a refusal is waited out");
	ok(comeback_tick(&comeback, comeback_due(&comeback)) == COMEBACK_TRY &&
	       comeback_broke(&comeback, -EHOSTUNREACH, false, 300 * MS) == COMEBACK_PAUSE &&
	       comeback_tick(&comeback, 100 + PATIENCE) == COMEBACK_BURY && comeback.end == COMEBACK_TOO_LATE &&
	       comeback.status == -ECONNREFUSED,
	   "until the patience is over that began with the adoption; the first failure is why");
	comeback = adopted(77);
	ok(comeback_broke(&comeback, -EKEYREJECTED, true, 200) == COMEBACK_BURY && comeback.end == COMEBACK_REFUSED,
	   "a refusal for good is not");
}

/* A lost donor that is used again, as one that holds nothing. */
static void test_anew(void)
{
	struct comeback comeback = trying(-ECONNRESET);

	ok(comeback_broke(&comeback, -ECONNREFUSED, false, 0) == COMEBACK_BURY && comeback_anew(&comeback, 100) &&
	       comeback.state == COMEBACK_AWAY,
	   "one that has no program any more is tried anew");
	comeback_waits(&comeback, 0);
	ok(comeback_due(&comeback) == 100 + COMEBACK_ANEW_NS &&
	       comeback_tick(&comeback, 1000 * PATIENCE) == COMEBACK_TRY,
	   "after a moment, and for however long");
	ok(comeback_broke(&comeback, -ECONNREFUSED, false, 1000 * PATIENCE) == COMEBACK_PAUSE &&
	       comeback_due(&comeback) == 1000 * PATIENCE + COMEBACK_ANEW_NS,
	   "a try that fails is nothing new");
	comeback_tick(&comeback, comeback_due(&comeback));
	ok(comeback_welcomed(&comeback, 78, 4, 0) == COMEBACK_CLAIM && comeback_claimed(&comeback) == COMEBACK_RETURN,
	   "whichever start of its program answers, and whatever it still holds");
	comeback.anew = false;
	ok(comeback_broke(&comeback, -ETIMEDOUT, false, 0) == COMEBACK_LEAVE && comeback_due(&comeback) < PATIENCE,
	   "then it is one like any other");
	comeback = trying(-ETIMEDOUT);
	comeback_broke(&comeback, -EKEYREJECTED, true, 0);
	ok(comeback_tick(&comeback, PATIENCE) == COMEBACK_BURY && !comeback_anew(&comeback, 0) &&
	       comeback.state == COMEBACK_LOST,
	   "one that will not have us is not tried");
	comeback = trying(-ETIMEDOUT);
	comeback_tick(&comeback, PATIENCE);
	comeback_anew(&comeback, 0);
	comeback_tick(&comeback, comeback_due(&comeback));
	ok(comeback_broke(&comeback, -EKEYREJECTED, true, 0) == COMEBACK_PAUSE && comeback.state == COMEBACK_LOST &&
	       comeback_due(&comeback) == UINT64_MAX,
	   "nor is it any more when it says so then");
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;

	test_return();
	test_anew();
	test_losses();
	test_backoff();
	test_adopted();
	test_histories(seed ? seed : 1, seed ? seed : HISTORIES);
	return tap_done();
}

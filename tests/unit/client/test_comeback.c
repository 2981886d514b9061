/* comeback: one event a check. The simulation (tests/sim) plays whole histories. */
#include "client/donor/comeback.h"
#include "tests/lib/tap.h"

#include <errno.h>

#define MS UINT64_C(1000000)
#define PATIENCE (5000 * MS)

static const struct comeback_config config = {.patience_ns = PATIENCE, .last_ns = PATIENCE, .seed = 1};

static struct comeback up(void)
{
	struct comeback comeback;

	comeback_init(&comeback, &config, 77);
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

static void returned_donor_is_claimed_from(void)
{
	struct comeback comeback = up();

	ok(comeback.state == COMEBACK_UP && comeback_due(&comeback) == UINT64_MAX &&
	       comeback_tick(&comeback, 1000 * PATIENCE) == COMEBACK_NOTHING,
	   "a donor that is up needs no action");
	ok(comeback_broke(&comeback, -ETIMEDOUT, false, 10) == COMEBACK_LEAVE && comeback.state == COMEBACK_AWAY,
	   "a donor whose connection breaks is away");
	ok(comeback_broke(&comeback, -ECONNRESET, false, 11) == COMEBACK_NOTHING,
	   "a second break of a donor that is away changes no state");
	ok(comeback_due(&comeback) > 10 && comeback_due(&comeback) <= 10 + COMEBACK_PAUSE_MIN_NS,
	   "a donor that is away is tried after at most the first pause");
	ok(comeback_tick(&comeback, comeback_due(&comeback) - 1) == COMEBACK_NOTHING &&
	       comeback_tick(&comeback, comeback_due(&comeback)) == COMEBACK_TRY,
	   "a donor that is away is tried exactly when its pause is over");
	ok(comeback_welcomed(&comeback, 77, 3, 2) == COMEBACK_CLAIM, "the slabs of a welcomed donor are claimed");
	ok(comeback_claimed(&comeback) == COMEBACK_RETURN && comeback.state == COMEBACK_UP,
	   "a donor whose claims are confirmed is up");
	comeback = trying(-ETIMEDOUT);
	ok(comeback_welcomed(&comeback, 77, 0, 0) == COMEBACK_RETURN,
	   "a donor without slabs to claim is up once welcomed");
	comeback = trying(-ETIMEDOUT);
	ok(comeback_welcomed(&comeback, 78, 0, 0) == COMEBACK_RETURN && comeback.incarnation == 78,
	   "a restarted donor without slabs to lose is up once welcomed");
}

static bool lost(const struct comeback *comeback, enum comeback_step step, enum comeback_end end)
{
	return step == COMEBACK_BURY && comeback->state == COMEBACK_LOST && comeback->end == end &&
	       comeback->status < 0 && comeback_due(comeback) == UINT64_MAX;
}

/* Returns how long a donor's machine refuses connections until the donor is lost, if its program was killed @resets
   resets ago. */
static uint64_t refused_for(unsigned resets)
{
	struct comeback comeback = away(-ECONNRESET);
	uint64_t now, first = 0;

	for (unsigned i = 0;; i++) {
		now = comeback_due(&comeback);
		if (comeback_tick(&comeback, now) != COMEBACK_TRY)
			return UINT64_MAX;
		if (i == resets)
			first = now;
		if (comeback_broke(&comeback, i < resets ? -ECONNRESET : -ECONNREFUSED, false, now) == COMEBACK_BURY)
			return now - first;
	}
}

static void killed_donor_is_lost_in_time(void)
{
	for (unsigned resets = 0; resets < 8; resets++)
		ok(refused_for(resets) == COMEBACK_REFUSED_NS,
		   "a donor that refuses connections after %u resets is lost after COMEBACK_REFUSED_NS", resets + 1);
}

static void final_failures_lose_the_donor(void)
{
	static const int final[] = {-EACCES, -EPROTO, -EPROTONOSUPPORT, -EKEYREJECTED, -EINVAL};
	static const int passing[] = {-ETIMEDOUT, -ECONNRESET, -EPIPE,  -EHOSTUNREACH, -ENETUNREACH, -ECONNREFUSED,
				      -ENODEV,    -ENOMEM,     -EMFILE, -ENOENT,       -EBUSY,       -EIO};
	struct comeback comeback;

	for (unsigned i = 0; i < sizeof final / sizeof *final; i++) {
		comeback = up();
		ok(comeback_broke(&comeback, final[i], false, 0) == COMEBACK_LEAVE,
		   "a donor that was up may come back after: %s", strerror(-final[i]));
		comeback = trying(-ETIMEDOUT);
		comeback.met = false;
		ok(lost(&comeback, comeback_broke(&comeback, final[i], false, 0), COMEBACK_REFUSED),
		   "a donor tried for the first time is lost after: %s", strerror(-final[i]));
		comeback = trying(-ETIMEDOUT);
		if (final[i] == -EINVAL) {
			ok(lost(&comeback, comeback_broke(&comeback, final[i], false, 0), COMEBACK_REFUSED),
			   "a donor that was met before is lost after -EINVAL");
			continue;
		}
		ok(comeback_broke(&comeback, final[i], i % 2, 0) == COMEBACK_PAUSE &&
		       comeback_due(&comeback) < PATIENCE,
		   "a donor that was met before is tried again after: %s", strerror(-final[i]));
		ok(comeback_tick(&comeback, comeback_due(&comeback)) == COMEBACK_TRY &&
		       comeback_broke(&comeback, -ETIMEDOUT, false, 1) == COMEBACK_PAUSE &&
		       lost(&comeback, comeback_tick(&comeback, PATIENCE), COMEBACK_TOO_LATE) &&
		       comeback.status == final[i],
		   "a donor tried again is lost with its first failure when the patience is over");
	}
	for (unsigned i = 0; i < sizeof passing / sizeof *passing; i++) {
		comeback = up();
		ok(comeback_broke(&comeback, passing[i], false, 0) == COMEBACK_LEAVE,
		   "a donor that is up may come back after a break: %s", strerror(-passing[i]));
		comeback = trying(-ETIMEDOUT);
		ok(comeback_broke(&comeback, passing[i], false, 0) == COMEBACK_PAUSE,
		   "a silent donor may come back after a failed try: %s", strerror(-passing[i]));
	}
	comeback = up();
	ok(lost(&comeback, comeback_broke(&comeback, -ETIMEDOUT, true, 0), COMEBACK_REFUSED),
	   "a donor that breaks with a final reason is lost");
	comeback = trying(-ECONNRESET);
	ok(comeback_broke(&comeback, -ECONNREFUSED, false, 0) == COMEBACK_PAUSE,
	   "a donor that resets and then refuses a connection may come back, for it may be upgraded");
	ok(comeback_tick(&comeback, COMEBACK_REFUSED_NS) == COMEBACK_TRY &&
	       lost(&comeback, comeback_broke(&comeback, -ECONNREFUSED, false, COMEBACK_REFUSED_NS), COMEBACK_REFUSED),
	   "a donor that resets and goes on refusing connections is lost");
	comeback = trying(-EACCES);
	ok(comeback_broke(&comeback, -ECONNREFUSED, false, 0) == COMEBACK_PAUSE &&
	       comeback_tick(&comeback, COMEBACK_REFUSED_NS) == COMEBACK_TRY &&
	       lost(&comeback, comeback_broke(&comeback, -ECONNREFUSED, false, COMEBACK_REFUSED_NS), COMEBACK_REFUSED),
	   "a donor that refuses a request and goes on refusing connections is lost");
	comeback = trying(-ECONNRESET);
	ok(comeback_broke(&comeback, -ECONNRESET, false, 0) == COMEBACK_PAUSE,
	   "a donor that resets twice may come back");
	comeback = trying(-ETIMEDOUT);
	ok(lost(&comeback, comeback_welcomed(&comeback, 78, 5, 2), COMEBACK_RESTARTED),
	   "a restarted donor that had slabs is lost as restarted");
	comeback = trying(-ETIMEDOUT);
	ok(lost(&comeback, comeback_welcomed(&comeback, 77, 0, 2), COMEBACK_FORGOTTEN),
	   "a donor that returns without any of its slabs is lost as forgotten");
	comeback = trying(-ETIMEDOUT);
	ok(comeback_welcomed(&comeback, 77, 1, 2) == COMEBACK_CLAIM,
	   "the slabs of a donor that returns with too few are claimed");
	comeback = trying(-ETIMEDOUT);
	comeback_welcomed(&comeback, 77, 2, 2);
	ok(lost(&comeback, comeback_denied(&comeback), COMEBACK_FORGOTTEN),
	   "a donor that denies a claim is lost as forgotten");
	comeback = up();
	comeback_broke(&comeback, -ETIMEDOUT, false, 3000 * MS);
	comeback_waits(&comeback, 2000 * MS);
	comeback_waits(&comeback, 2500 * MS);
	ok(comeback_tick(&comeback, 2000 * MS + PATIENCE - 1) == COMEBACK_TRY,
	   "a donor is tried until the oldest request's patience is over");
	ok(comeback_due(&comeback) == 2000 * MS + PATIENCE &&
	       lost(&comeback, comeback_tick(&comeback, 2000 * MS + PATIENCE), COMEBACK_TOO_LATE),
	   "a donor is lost when the oldest request has waited for the patience");
	ok(comeback_broke(&comeback, -EACCES, true, 0) == COMEBACK_NOTHING &&
	       comeback_tick(&comeback, UINT64_MAX) == COMEBACK_NOTHING,
	   "a lost donor needs no further action");
}

static void pauses_between_tries_double(void)
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
	ok(good, "pauses double up to a limit, each shortened at random to no less than half");
	ok(now == PATIENCE && comeback.end == COMEBACK_TOO_LATE && comeback.status == -ETIMEDOUT,
	   "a donor out of patience is lost with the status of its first break");
	ok(tries >= 7 && tries <= 15, "a donor is tried 7 to 15 times within the patience (%u)", tries);
	comeback = trying(-ETIMEDOUT);
	ok(comeback_due(&comeback) == PATIENCE &&
	       lost(&comeback, comeback_tick(&comeback, PATIENCE), COMEBACK_TOO_LATE),
	   "a try that takes too long does not extend the patience");
}

static void donor_with_the_last_copy_is_waited_for_longer(void)
{
	struct comeback comeback = trying(-ETIMEDOUT);
	const uint64_t last = 3 * PATIENCE;
	uint64_t now = PATIENCE;

	comeback.last_ns = last;
	ok(!comeback_is_overdue(&comeback, PATIENCE - 1) && comeback_is_overdue(&comeback, PATIENCE),
	   "a donor is overdue when the patience is over");
	ok(comeback_needed(&comeback, now) && comeback_due(&comeback) == now + COMEBACK_NEEDED_NS,
	   "the patience with a donor that has the last copy grows by a step");
	while (now < last && comeback_tick(&comeback, now) == COMEBACK_NOTHING) {
		now += COMEBACK_NEEDED_NS;
		if (comeback_is_overdue(&comeback, now) && comeback_needed(&comeback, now))
			break; /* only the first step is news */
	}
	ok(now == last && !comeback_needed(&comeback, now) &&
	       lost(&comeback, comeback_tick(&comeback, now), COMEBACK_TOO_LATE),
	   "a donor that has the last copy is lost after last_ns");
	comeback = trying(-ETIMEDOUT);
	comeback.last_ns = last;
	comeback_needed(&comeback, PATIENCE);
	ok(lost(&comeback, comeback_tick(&comeback, PATIENCE + COMEBACK_NEEDED_NS), COMEBACK_TOO_LATE),
	   "a donor that has the last copy no more is lost at the end of the step");
	comeback = up();
	comeback.last_ns = last;
	comeback_broke(&comeback, -ETIMEDOUT, false, last);
	comeback_waits(&comeback, 1);
	ok(comeback_is_overdue(&comeback, last) && comeback_needed(&comeback, last) &&
	       comeback_due(&comeback) == last + 1 && !comeback_needed(&comeback, last + 1),
	   "waits of a request in earlier outages count against last_ns");
	comeback = trying(-ETIMEDOUT);
	comeback.last_ns = last;
	ok(comeback_needed(&comeback, PATIENCE) && !comeback_needed(&comeback, PATIENCE + MS),
	   "only the first step of longer patience is news");
	comeback_waits(&comeback, 0);
	ok(!comeback_is_overdue(&comeback, PATIENCE + 2 * MS), "a request that waits does not end a step");
	now = PATIENCE + COMEBACK_NEEDED_NS;
	comeback_not_needed(&comeback, now);
	comeback_waits(&comeback, 0);
	ok(!comeback_is_overdue(&comeback, now + PATIENCE - 1) && comeback_is_overdue(&comeback, now + PATIENCE),
	   "a donor has patience anew when another one with its pages is back");
	comeback_not_needed(&comeback, now + PATIENCE);
	ok(lost(&comeback, comeback_tick(&comeback, now + PATIENCE), COMEBACK_TOO_LATE),
	   "a donor that was not needed again is lost then");
}

static struct comeback adopted(uint64_t incarnation)
{
	struct comeback comeback;

	comeback_adopt(&comeback, &config, incarnation, 100);
	comeback_tick(&comeback, 100);
	return comeback;
}

static void adopted_donor_is_tried_at_once(void)
{
	struct comeback comeback = adopted(77);

	ok(comeback.state == COMEBACK_TRYING, "an adopted donor is tried at once");
	ok(comeback_welcomed(&comeback, 77, 3, 3) == COMEBACK_CLAIM && comeback_claimed(&comeback) == COMEBACK_RETURN,
	   "an adopted donor is up when its slabs are claimed");
	comeback = adopted(77);
	ok(comeback_welcomed(&comeback, 78, 3, 3) == COMEBACK_BURY && comeback.end == COMEBACK_RESTARTED,
	   "an adopted donor that has restarted is lost");
	comeback = adopted(0);
	ok(comeback_welcomed(&comeback, 78, 3, 3) == COMEBACK_BURY,
	   "an adopted donor that was given up before is lost");
	comeback = adopted(0);
	ok(comeback_welcomed(&comeback, 78, 1, 0) == COMEBACK_CLAIM && comeback.incarnation == 78,
	   "slabs of an adopted donor without a recorded incarnation are claimed");
	comeback = adopted(77);
	ok(comeback_broke(&comeback, -ECONNREFUSED, false, 200) == COMEBACK_PAUSE,
	   "an adopted donor that refuses connections is tried again");
	ok(comeback_tick(&comeback, comeback_due(&comeback)) == COMEBACK_TRY &&
	       comeback_broke(&comeback, -EHOSTUNREACH, false, 300 * MS) == COMEBACK_PAUSE &&
	       comeback_tick(&comeback, 100 + PATIENCE) == COMEBACK_BURY && comeback.end == COMEBACK_TOO_LATE &&
	       comeback.status == -ECONNREFUSED,
	   "an adopted donor is lost with its first failure when the patience since adoption is over");
	comeback = adopted(77);
	ok(comeback_broke(&comeback, -EKEYREJECTED, true, 200) == COMEBACK_BURY && comeback.end == COMEBACK_REFUSED,
	   "an adopted donor that refuses for good is lost");
}

/* A lost donor may be used again, as one that holds no slab. */
static void lost_donor_without_a_program_is_tried_anew(void)
{
	struct comeback comeback = trying(-ECONNRESET);

	comeback_broke(&comeback, -ECONNREFUSED, false, 0);
	comeback_tick(&comeback, COMEBACK_REFUSED_NS);
	ok(comeback_broke(&comeback, -ECONNREFUSED, false, COMEBACK_REFUSED_NS) == COMEBACK_BURY &&
	       comeback_anew(&comeback, 100) && comeback.state == COMEBACK_AWAY,
	   "a lost donor without a program is tried anew");
	comeback_waits(&comeback, 0);
	ok(comeback_due(&comeback) == 100 + COMEBACK_ANEW_NS &&
	       comeback_tick(&comeback, 1000 * PATIENCE) == COMEBACK_TRY,
	   "a donor tried anew is tried after a moment, without a limit of patience");
	ok(comeback_broke(&comeback, -ECONNREFUSED, false, 1000 * PATIENCE) == COMEBACK_PAUSE &&
	       comeback_due(&comeback) == 1000 * PATIENCE + COMEBACK_ANEW_NS,
	   "a failed try of a donor tried anew pauses again");
	comeback_tick(&comeback, comeback_due(&comeback));
	ok(comeback_welcomed(&comeback, 78, 4, 0) == COMEBACK_CLAIM && comeback_claimed(&comeback) == COMEBACK_RETURN,
	   "a donor tried anew is claimed from, for any incarnation");
	comeback.anew = false;
	ok(comeback_broke(&comeback, -ETIMEDOUT, false, 0) == COMEBACK_LEAVE && comeback_due(&comeback) < PATIENCE,
	   "a donor that is up again has patience like any other");
	comeback = trying(-ETIMEDOUT);
	comeback_broke(&comeback, -EKEYREJECTED, true, 0);
	ok(comeback_tick(&comeback, PATIENCE) == COMEBACK_BURY && !comeback_anew(&comeback, 0) &&
	       comeback.state == COMEBACK_LOST,
	   "a donor that refused for good is not tried anew");
	comeback = trying(-ETIMEDOUT);
	comeback_tick(&comeback, PATIENCE);
	comeback_anew(&comeback, 0);
	comeback_tick(&comeback, comeback_due(&comeback));
	ok(comeback_broke(&comeback, -EKEYREJECTED, true, 0) == COMEBACK_PAUSE && comeback.state == COMEBACK_LOST &&
	       comeback_due(&comeback) == UINT64_MAX,
	   "a donor tried anew that refuses for good is lost");
}

int main(void)
{
	returned_donor_is_claimed_from();
	lost_donor_without_a_program_is_tried_anew();
	killed_donor_is_lost_in_time();
	final_failures_lose_the_donor();
	pauses_between_tries_double();
	donor_with_the_last_copy_is_waited_for_longer();
	adopted_donor_is_tried_at_once();
	return tap_done();
}

/* core and kick: room is claimed within the budget, and nobody sleeps through a call. */
#include "pager/core.h"
#include "tests/lib/sanitizers.h"
#include "tests/lib/tap.h"

#include <poll.h>
#include <pthread.h>

enum { LIMIT = 100, LOW = 10 };

static struct core core;
static struct pager_counters counters;

static void begin(void)
{
	memset(&core, 0, sizeof core);
	memset(&counters, 0, sizeof counters);
	core.counters = &counters;
	core.limit = LIMIT;
	core.low = LOW;
	if (kick_open(&core.handler_kick) || kick_open(&core.evictor_kick))
		tap_bail("no eventfd");
}

static void end(void)
{
	kick_close(&core.handler_kick);
	kick_close(&core.evictor_kick);
}

/* Returns true if @kick has been rung. Ends the kick's preparation to sleep. */
static bool is_rung(struct kick *kick)
{
	struct pollfd readable = {.fd = kick->fd, .events = POLLIN};
	bool rung = poll(&readable, 1, 0) == 1;

	kick_cancel(kick);
	return rung;
}

static void room_is_claimed_within_the_budget(void)
{
	begin();
	ok(core_claim(&core, 30, 0) == 30 && core_free(&core) == LIMIT - 30, "as much room is claimed as there is");
	ok(core_claim(&core, 100, 50) == 20, "a claim spares as many pages as its caller says");
	ok(core_claim(&core, 1, 50) == 0 && core_claim(&core, 1, 60) == 0, "no room is claimed from spared pages");
	ok(core_claim(&core, 100, 0) == 50 && core_claim(&core, 1, 0) == 0, "no room is claimed beyond the limit");
	ok(counters.resident_pages == LIMIT, "claimed room is counted as resident");
	core_release(&core, 60);
	ok(core_free(&core) == 60 && counters.resident_pages == LIMIT - 60, "released room is free again");
	core.limit = 20;
	ok(core_claim(&core, 1, 0) == 0 && core_free(&core) < 0, "no room is claimed under a limit that was lowered");
	counters.overhead_bytes = 5000;
	core.limit = LIMIT;
	core_claim(&core, LIMIT, 0);
	core_release(&core, LIMIT);
	core_claim(&core, 1, 0);
	ok(counters.local_peak_bytes == LIMIT * STORE_PAGE + 5000,
	   "the peak of local bytes has resident pages and overhead, and stays when room is released");
	end();
}

static void claims_wake_the_evictor_when_room_runs_low(void)
{
	begin();
	kick_prepare(&core.evictor_kick);
	core_claim(&core, LIMIT - LOW, 0);
	ok(!is_rung(&core.evictor_kick), "a claim that leaves the low mark free does not wake the evictor");
	kick_prepare(&core.evictor_kick);
	core_claim(&core, 1, 0);
	ok(is_rung(&core.evictor_kick), "a claim below the low mark wakes the evictor");
	core_claim(&core, LIMIT, 0);
	kick_prepare(&core.evictor_kick);
	core_claim(&core, 1, 0);
	ok(is_rung(&core.evictor_kick), "a claim that finds no room wakes the evictor");
	end();
}

static void settling_wakes_a_handler_that_has_faults_parked(void)
{
	begin();
	kick_prepare(&core.handler_kick);
	core_settled(&core);
	ok(core.settlements == 1 && !is_rung(&core.handler_kick), "settling without parked faults wakes nobody");
	core.waiting = 1;
	kick_prepare(&core.handler_kick);
	core_settled(&core);
	ok(core.settlements == 2 && is_rung(&core.handler_kick), "settling with parked faults wakes the handler");
	end();
}

static void room_wakes_a_handler_that_has_faults_parked(void)
{
	begin();
	core_claim(&core, LIMIT, 0);
	core.waiting = 1;
	kick_prepare(&core.handler_kick);
	core_release(&core, 0);
	ok(core.settlements == 0 && !is_rung(&core.handler_kick), "releasing no room wakes nobody");
	kick_prepare(&core.handler_kick);
	core_release(&core, 1);
	ok(core.settlements == 1 && is_rung(&core.handler_kick), "releasing room wakes a handler with parked faults");
	kick_prepare(&core.handler_kick);
	core_set_limit(&core, LIMIT + LOW);
	ok(core.settlements == 2 && is_rung(&core.handler_kick),
	   "raising the limit wakes a handler with parked faults");
	kick_prepare(&core.handler_kick);
	core_set_limit(&core, LIMIT);
	ok(core.settlements == 2 && !is_rung(&core.handler_kick), "lowering the limit wakes nobody");
	end();
}

static void a_kick_reaches_a_sleeper_alone(void)
{
	begin();
	struct kick *kick = &core.handler_kick;
	kick_ring(kick);
	ok(!is_rung(kick), "ringing a thread that is awake leaves nothing behind");
	kick_prepare(kick);
	kick_ring(kick);
	kick_ring(kick);
	ok(is_rung(kick), "ringing a thread that is about to sleep makes its descriptor readable");
	kick_prepare(kick);
	ok(!is_rung(kick), "a thread that was rung twice wakes once");
	kick_prepare(kick);
	kick_cancel(kick);
	kick_ring(kick);
	ok(!is_rung(kick), "ringing a thread that has not gone to sleep leaves nothing behind");
	end();
}

/* --- Threads ----------------------------------------------------------------------------------------------------- */

enum { CLAIMERS = 4, CLAIMS = UNDER_TSAN ? 5000 : 40000 };

static _Atomic unsigned wrong;
static _Atomic uint64_t work;

static void *claim_and_release(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < CLAIMS; i++) {
		int64_t claimed = core_claim(&core, LIMIT - i % 50, i % 3 ? 0 : LOW);

		wrong += core.resident > LIMIT || core.resident < claimed;
		core_release(&core, claimed);
	}
	return NULL;
}

static void threads_never_claim_more_than_the_budget(void)
{
	pthread_t threads[CLAIMERS];

	begin();
	for (unsigned i = 0; i < CLAIMERS; i++)
		pthread_create(&threads[i], NULL, claim_and_release, NULL);
	for (unsigned i = 0; i < CLAIMERS; i++)
		pthread_join(threads[i], NULL);
	ok(!wrong, "four threads never claim more than the budget together (%u times)", wrong);
	ok(core.resident == 0 && counters.local_peak_bytes <= LIMIT * STORE_PAGE, "all room is free in the end");
	end();
}

static void *make_work(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < CLAIMS; i++) {
		work++;
		kick_ring(&core.handler_kick);
	}
	return NULL;
}

static void a_sleeper_misses_no_work(void)
{
	struct kick *kick = &core.handler_kick;
	struct pollfd readable = {.events = POLLIN};
	pthread_t threads[2];
	uint64_t done = 0;
	bool missed = false;

	begin();
	readable.fd = kick->fd;
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, make_work, NULL);
	while (done < 2 * CLAIMS && !missed) {
		kick_prepare(kick);
		if (work == done)
			missed = poll(&readable, 1, 30000) == 0;
		kick_cancel(kick);
		done = work;
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ok(!missed, "a thread that prepares, looks and sleeps misses no work (%u pieces)", (unsigned)done);
	end();
}

int main(void)
{
	room_is_claimed_within_the_budget();
	claims_wake_the_evictor_when_room_runs_low();
	settling_wakes_a_handler_that_has_faults_parked();
	room_wakes_a_handler_that_has_faults_parked();
	a_kick_reaches_a_sleeper_alone();
	threads_never_claim_more_than_the_budget();
	a_sleeper_misses_no_work();
	return tap_done();
}

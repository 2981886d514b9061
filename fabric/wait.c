/*
 * wait: implements polling, waiting and watches of fabric/fabric.h.
 *
 * Theory of operation. A fabric finds input in two ways. Backends read their active connections directly. The poller
 * reports which sources are ready, but asking it may cost a system call. fabric_poll() always asks the backends. It
 * asks the poller only in every POLLS_PER_LOOK-th poll, and whenever no connection is active.
 *
 * fabric_wait() first spins: it polls again and again. When no bytes have moved for the time that common/spin.h has
 * learned, it sleeps in the poller. It wakes when a source is ready or a deadline passes.
 *
 * Yielding. After each empty poll of a spin, fabric_wait() yields the CPU. So two processes on one CPU that spin for
 * each other's bytes take turns of a microsecond. But a program that computes does not yield back: it has the CPU for
 * a time slice of milliseconds. A yield that takes CROWDED_NS shows this. The CPU then counts as crowded for a
 * period, in which spins do not yield. If the CPU is still crowded after the period, the next period is twice as
 * long.
 *
 * A spin that does not yield may be in vain, because the process that must answer needs this CPU. So if VAIN_MAX spins
 * in a row have found nothing while the CPU is crowded, waits sleep at once for VAIN_NS. A measurement with 4 KiB reads
 * and a computing program on the client's CPU shows the benefit. With this rule, the median is 15 us. The median is
 * 2400 us if spins always yield, and 40 to 90 us if waits always sleep.
 *
 * Deadlines. The fabric checks them before each poll, when a poll finds nothing (at most every EXPIRE_NS), and
 * after a sleep. A check before a poll uses looked_at, the time when all connections had last been polled, instead
 * of the current time. If this thread did not run for a while, an answer may have arrived in time, and the poll
 * will find it.
 *
 * Late wake-ups. If this thread wakes later than it wanted, it had no processor, and perhaps its whole machine had
 * none. The answers may then be late, too. So no connection is ended until as much time has passed as the thread
 * was late. This defers a deadline only once. Otherwise, a machine under constant load would never end a
 * connection.
 */
#include "common/clock.h"
#include "common/least.h"
#include "fabric/internal.h"
#include "fabric/poller.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* With 16, the looks made a far fault 4% slower. */
#define POLLS_PER_LOOK 64
#define POLLS_PER_CLOCK 64
/* After this many polls in a row that filled the caller's array, every connection has been polled. */
#define POLLS_PER_ROUND 4096
#define EXPIRE_NS (5 * 1000000ull)
/* fabric_wait() spins if bytes moved within the last RECENT_SPINS spin times, or within RECENT_NS, before the
   call. */
#define RECENT_SPINS 4
#define RECENT_NS (200 * 1000ull)
/* A yield that takes this long shows that the CPU is crowded. CROWDED_MIN_NS and CROWDED_MAX_NS bound the length of a
   crowded period. */
#define CROWDED_NS (300 * 1000ull)
#define CROWDED_MIN_NS (5 * 1000000ull)
#define CROWDED_MAX_NS (1000 * 1000000ull)
#define VAIN_MAX 2
#define VAIN_NS (2 * 1000000ull)

#define LATE_NS (10 * 1000000ull)

/* Defers deadlines if the thread has woken late. @wanted is the latest time at which it wanted to wake. */
static void late_look(struct fabric *fabric, uint64_t wanted, uint64_t now)
{
	const uint64_t most = fabric->config.io_ms * 1000000ull;
	uint64_t late = now > wanted ? now - wanted : 0;

	if (late <= LATE_NS || wanted <= fabric->spared_until)
		return;
	fabric->spared_until = now + (late < most ? late : most);
}

/* --- Opening and closing ---------------------------------------------------------------------------------- */

static void timer_ready(struct poller_source *source, unsigned events)
{
	struct fabric *fabric = ((struct fabric_watch *)source)->fabric;
	uint64_t expirations;

	(void)events;
	if (read(source->fd, &expirations, sizeof expirations) < 0)
		return; /* the timer was set again after it had expired */
	late_look(fabric, fabric->timer_at, clock_now());
	fabric->timer_at = 0;
	fabric->expire_at = 0;
}

/* Makes the timer expire at @deadline or earlier. Each answer moves the next deadline to a later time. To save one
   system call per answer, the timer keeps its earlier time: when it expires too early, the caller sets it again. */
static void timer_set(struct fabric *fabric, uint64_t deadline)
{
	const struct itimerspec at = {
	    .it_value = {.tv_sec = (time_t)(deadline / 1000000000), .tv_nsec = (long)(deadline % 1000000000)}};

	if (deadline == BACKEND_NEVER || (fabric->timer_at && fabric->timer_at <= deadline))
		return;
	timerfd_settime(fabric->timer.source.fd, TFD_TIMER_ABSTIME, &at, NULL);
	fabric->timer_at = deadline;
}

int wait_open(struct fabric *fabric)
{
	spin_init(&fabric->spin, fabric->config.spin_us);
	TAILQ_INIT(&fabric->watches);
	fabric->timer = (struct fabric_watch){.fabric = fabric};
	fabric->timer.source.ready = timer_ready;
	fabric->timer.source.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (fabric->timer.source.fd < 0)
		return -errno;
	return 0;
}

void wait_close(struct fabric *fabric)
{
	struct fabric_watch *watch;

	while ((watch = TAILQ_FIRST(&fabric->watches))) {
		TAILQ_REMOVE(&fabric->watches, watch, link);
		poller_remove(fabric->poller, &watch->source);
		free(watch);
	}
	poller_remove(fabric->poller, &fabric->timer.source);
	close(fabric->timer.source.fd);
}

bool fabric_may_tell(struct fabric *fabric)
{
	return log_limit_take(&fabric->told, clock_now());
}

/* --- Polling ---------------------------------------------------------------------------------------------- */

static bool backends_hot(const struct fabric *fabric)
{
	for (unsigned i = 0; i < FABRIC_BACKENDS; i++)
		if (fabric->states[i] && fabric_backends[i]->hot(fabric->states[i]))
			return true;
	return false;
}

static bool backends_ready(const struct fabric *fabric)
{
	for (unsigned i = 0; i < FABRIC_BACKENDS; i++)
		if (fabric->states[i] && fabric_backends[i]->ready(fabric->states[i]))
			return true;
	return fabric->watches_ready;
}

static uint64_t backends_deadline(const struct fabric *fabric)
{
	uint64_t deadline = log_limit_due(&fabric->told);

	for (unsigned i = 0; i < FABRIC_BACKENDS; i++) {
		uint64_t other = fabric->states[i] ? fabric_backends[i]->deadline(fabric->states[i]) : BACKEND_NEVER;

		if (other < deadline)
			deadline = other;
	}
	return deadline < fabric->spared_until ? fabric->spared_until : deadline;
}

static void backends_expire(struct fabric *fabric, uint64_t now)
{
	if (now < fabric->expire_at || now < fabric->spared_until)
		return;
	fabric->expire_at = now + EXPIRE_NS;
	log_limit_tell(&fabric->told, now);
	for (unsigned i = 0; i < FABRIC_BACKENDS; i++)
		if (fabric->states[i])
			fabric_backends[i]->expire(fabric->states[i], now);
}

static void watches_arm(struct fabric *fabric)
{
	struct fabric_watch *watch;

	TAILQ_FOREACH(watch, &fabric->watches, link)
		if (!watch->ready)
			poller_arm(fabric->poller, &watch->source, POLLER_IN);
}

static void backends_arm(struct fabric *fabric)
{
	for (unsigned i = 0; i < FABRIC_BACKENDS; i++)
		if (fabric->states[i])
			fabric_backends[i]->arm(fabric->states[i]);
	watches_arm(fabric);
}

static void watches_poll(struct fabric *fabric, struct backend_events *out)
{
	struct fabric_watch *watch;

	TAILQ_FOREACH(watch, &fabric->watches, link) {
		if (!watch->ready || backend_events_full(out))
			continue;
		watch->ready = false;
		fabric->watches_ready--;
		out->events[out->count++] = (struct fabric_event){.kind = FABRIC_READABLE, .user = watch->user};
	}
}

static bool backend_poll(struct fabric *fabric, unsigned backend, struct backend_events *out)
{
	return fabric->states[backend] && fabric_backends[backend]->poll(fabric->states[backend], out);
}

/* Returns true if bytes moved or events were written. */
static bool poll_once(struct fabric *fabric, struct backend_events *out)
{
	bool moved = false;

	if (++fabric->polls % POLLS_PER_LOOK == 0 || !backends_hot(fabric)) {
		watches_arm(fabric);
		poller_wait(fabric->poller, 0);
	}
	if (fabric->watches_first)
		watches_poll(fabric, out);
	/* Begins with another backend each time, because the events of one backend may fill the array. */
	for (unsigned i = 0; i < FABRIC_BACKENDS; i++)
		if (backend_poll(fabric, (i + fabric->polls) % FABRIC_BACKENDS, out))
			moved = true;
	/* If events of connections fill the array each time, connections and watches take turns. */
	fabric->watches_first = !fabric->watches_first && fabric->watches_ready && backend_events_full(out);
	if (fabric->watches_ready)
		watches_poll(fabric, out);
	return moved || out->count;
}

/* Checks deadlines. Must be called before a poll writes events, because a check may free a connection of an
   event. */
static void expire_meanwhile(struct fabric *fabric)
{
	backends_expire(fabric, fabric->looked_at);
}

/* Updates looked_at after a poll that has ended before @now. A poll that filled the array may have skipped
   connections. */
static void looked(struct fabric *fabric, const struct backend_events *out, uint64_t now)
{
	if (!backend_events_full(out)) {
		fabric->looked_at = now;
		fabric->full_polls = 0;
		return;
	}
	if (!fabric->full_polls++)
		fabric->full_since = now;
	if (fabric->full_polls < POLLS_PER_ROUND)
		return;
	fabric->looked_at = fabric->full_since;
	fabric->full_polls = 0;
}

int fabric_poll(struct fabric *fabric, struct fabric_event *events, unsigned max)
{
	struct backend_events out = {.events = events, .max = max};
	uint64_t now;

	expire_meanwhile(fabric);
	if (!poll_once(fabric, &out)) {
		now = clock_now();
		if (fabric->timer_at) /* timer_ready() may not have been called yet */
			late_look(fabric, fabric->timer_at, now);
		backends_expire(fabric, now);
	} else {
		fabric->touched = true;
		if (fabric->polls % POLLS_PER_CLOCK == 0)
			looked(fabric, &out, clock_now());
	}
	return (int)out.count;
}

/* --- Waiting ---------------------------------------------------------------------------------------------- */

static void wait_sleep(struct fabric *fabric, uint64_t now, uint64_t until)
{
	until = least(until, backends_deadline(fabric));
	if (until <= now) {
		fabric->expire_at = 0;
		return;
	}
	backends_arm(fabric);
	if (backends_ready(fabric))
		return; /* a source was found ready while the sources were armed */
	poller_wait(fabric->poller, until == BACKEND_NEVER ? -1 : (int64_t)(until - now));
	if (until == BACKEND_NEVER)
		return;
	late_look(fabric, until, clock_now());
	fabric->expire_at = 0;
}

static bool wait_spins(const struct fabric *fabric, uint64_t now)
{
	return now >= fabric->crowded_until || now >= fabric->vain_until;
}

static void wait_yield(struct fabric *fabric, uint64_t now)
{
	uint64_t took;

	if (now < fabric->crowded_until)
		return;
	sched_yield();
	took = clock_now() - now;
	if (took < CROWDED_NS)
		return;
	/* If the CPU is crowded again soon after the last period, that period was too short. */
	if (now - fabric->crowded_until > fabric->crowded_ns)
		fabric->crowded_ns = CROWDED_MIN_NS;
	else if (fabric->crowded_ns * 2 <= CROWDED_MAX_NS)
		fabric->crowded_ns *= 2;
	fabric->crowded_until = now + took + fabric->crowded_ns;
	fabric->vain = 0;
}

/* Learns from an answer how long to poll for the next one. Requests and messages of peers teach nothing, because they
   are no answers. */
static void wait_learn(struct fabric *fabric, const struct backend_events *out, uint64_t took)
{
	if (out->count && out->events[0].kind == FABRIC_DONE)
		spin_learn(&fabric->spin, took);
}

int fabric_wait(struct fabric *fabric, struct fabric_event *events, unsigned max, int timeout_ms)
{
	const uint64_t spin = fabric->spin.ns;
	const uint64_t recent = spin * RECENT_SPINS > RECENT_NS ? spin * RECENT_SPINS : RECENT_NS;
	struct backend_events out = {.events = events, .max = max};
	uint64_t now, begin, deadline, spin_until;
	bool moved, spun = false;

	expire_meanwhile(fabric);
	moved = poll_once(fabric, &out);
	now = clock_now();
	if (moved || fabric->touched)
		fabric->moved_at = now;
	looked(fabric, &out, now);
	fabric->touched = false;
	if (out.count || timeout_ms == 0 || max == 0)
		return (int)out.count;
	begin = now;
	deadline = timeout_ms < 0 ? BACKEND_NEVER : now + (uint64_t)timeout_ms * 1000000;
	spin_until = now - fabric->moved_at <= recent && wait_spins(fabric, now) ? now + spin : 0;

	for (;;) {
		backends_expire(fabric, now);
		if (moved || backends_ready(fabric)) {
			; /* polls again at once */
		} else if (now < spin_until) {
			wait_yield(fabric, now);
			spun = true;
		} else {
			if (spun && ++fabric->vain >= VAIN_MAX)
				fabric->vain_until = now + VAIN_NS;
			wait_sleep(fabric, now, deadline);
			spun = false;
		}
		moved = poll_once(fabric, &out);
		now = clock_now();
		if (moved) {
			if (spun)
				fabric->vain = 0;
			spun = false;
			fabric->moved_at = now;
			spin_until = wait_spins(fabric, now) ? now + spin : 0;
		}
		wait_learn(fabric, &out, now - begin);
		if (out.count)
			return (int)out.count;
		if (now >= deadline)
			return 0;
	}
}

/* --- Sleeping elsewhere ----------------------------------------------------------------------------------- */

int fabric_fd(const struct fabric *fabric)
{
	return poller_fd(fabric->poller);
}

int fabric_arm_until(struct fabric *fabric, uint64_t until)
{
	if (backends_ready(fabric))
		return 1;
	timer_set(fabric, least(until, backends_deadline(fabric)));
	poller_arm(fabric->poller, &fabric->timer.source, POLLER_IN);
	backends_arm(fabric);
	return poller_wait(fabric->poller, 0) > 0 || backends_ready(fabric);
}

static void watch_ready(struct poller_source *source, unsigned events)
{
	struct fabric_watch *watch = (struct fabric_watch *)source;

	(void)events;
	if (!watch->ready)
		watch->fabric->watches_ready++;
	watch->ready = true;
}

int fabric_watch(struct fabric *fabric, int fd, void *user)
{
	struct fabric_watch *watch = calloc(1, sizeof *watch);

	if (!watch)
		return -ENOMEM;
	watch->source = (struct poller_source){.fd = fd, .ready = watch_ready};
	watch->fabric = fabric;
	watch->user = user;
	TAILQ_INSERT_TAIL(&fabric->watches, watch, link);
	return 0;
}

/* poller: an armed source is reported once and a removed source never, and waits end. */
#include "common/clock.h"
#include "fabric/poller.h"
#include "tests/lib/tap.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct watched {
	struct poller_source source;
	unsigned told, events;
};

static void ready(struct poller_source *source, unsigned events)
{
	struct watched *watched = (struct watched *)source;

	watched->told++;
	watched->events |= events;
}

static void watched_open(struct watched *watched)
{
	*watched = (struct watched){.source = {.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .ready = ready}};
	if (watched->source.fd < 0)
		abort();
}

static void watched_close(struct watched *watched, struct poller *poller)
{
	poller_remove(poller, &watched->source);
	close(watched->source.fd);
}

static void put(struct watched *watched)
{
	if (eventfd_write(watched->source.fd, 1) < 0)
		abort();
}

struct other_thread {
	struct poller *poller;
	struct watched *watched;
};

static void *arm_elsewhere(void *argument)
{
	struct other_thread *other = argument;

	poller_arm(other->poller, &other->watched->source, POLLER_IN);
	poller_wait(other->poller, 0);
	return NULL;
}

static void armed_sources_are_reported_once(void)
{
	enum { MANY = 100 };
	struct watched a, b, many[MANY];
	struct other_thread other;
	struct poller *poller;
	struct pollfd sleeper;
	pthread_t thread;
	uint64_t begin;
	unsigned told = 0;

	if (poller_open(&poller) < 0)
		abort();
	watched_open(&a);
	watched_open(&b);
	put(&a);
	ok(poller_wait(poller, 0) == 0 && a.told == 0, "a source that is not armed is not reported");
	poller_arm(poller, &a.source, POLLER_IN);
	poller_arm(poller, &b.source, POLLER_IN);
	ok(poller_wait(poller, -1) == 1 && a.told == 1 && b.told == 0 && a.events == POLLER_IN,
	   "a source that is ready when armed is reported");
	ok(poller_wait(poller, 0) == 0 && a.told == 1, "an armed source is reported once");
	put(&b);
	ok(poller_wait(poller, 1000000000) == 1 && b.told == 1, "an armed source that becomes ready is reported");
	poller_arm(poller, &a.source, POLLER_IN);
	ok(poller_wait(poller, 1000000000) == 1 && a.told == 2, "a source that is armed again is reported again");

	eventfd_read(a.source.fd, &(eventfd_t){0});
	eventfd_read(b.source.fd, &(eventfd_t){0});
	poller_arm(poller, &a.source, POLLER_IN);
	begin = clock_now();
	ok(poller_wait(poller, 20000000) == 0 && clock_now() - begin >= 20000000,
	   "a wait without ready sources times out");
	poller_arm(poller, &a.source, POLLER_IN | POLLER_OUT);
	ok(poller_wait(poller, 1000000000) == 1 && a.events & POLLER_OUT,
	   "a source that is armed for more events reports the new ones");

	sleeper = (struct pollfd){.fd = poller_fd(poller), .events = POLLIN};
	poller_arm(poller, &b.source, POLLER_IN);
	ok(poller_wait(poller, 0) == 0 && poll(&sleeper, 1, 10) == 0,
	   "the poller's descriptor is not readable while no source is ready");
	put(&b);
	ok(poll(&sleeper, 1, 5000) == 1 && poller_wait(poller, 0) == 1,
	   "the poller's descriptor is readable once a source is ready");

	poller_arm(poller, &b.source, POLLER_IN);
	watched_close(&b, poller);
	watched_open(&b);
	b.told = 0;
	ok(poller_wait(poller, 10000000) == 0 && b.told == 0, "neither a removed source nor its successor is reported");

	other = (struct other_thread){poller, &b};
	pthread_create(&thread, NULL, arm_elsewhere, &other);
	pthread_join(thread, NULL);
	while (poller_wait(poller, 10000000) > 0) /* the end of the thread may have been reported */
		poller_arm(poller, &b.source, POLLER_IN);
	b.told = 0;
	put(&b);
	ok(poller_wait(poller, 1000000000) == 1 && b.told == 1,
	   "a source that was armed in a thread that has ended is reported");

	for (unsigned i = 0; i < MANY; i++) {
		watched_open(&many[i]);
		put(&many[i]);
		poller_arm(poller, &many[i].source, POLLER_IN);
	}
	for (unsigned i = 0; i < 10; i++)
		poller_wait(poller, 10000000);
	for (unsigned i = 0; i < MANY; i++) {
		told += many[i].told == 1;
		watched_close(&many[i], poller);
	}
	ok(told == MANY, "each of 100 ready sources is reported once");
	watched_close(&a, poller);
	watched_close(&b, poller);
	poller_close(poller);
}

int main(void)
{
	armed_sources_are_reported_once();
	return tap_done();
}

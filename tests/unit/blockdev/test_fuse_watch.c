/* test_fuse_watch: the watch calls a thread that sleeps in a read only when the thread's store has an event. */
#include "blockdev/fuse/fuse_watch.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define QUEUES 2u

/* A thread that behaves like a queue. */
struct sleeper {
	struct fuse_watched watched;
	struct fuse_watch *watch;
	_Atomic unsigned requests, armings, news; /* news: events of the store that were taken */
	_Atomic bool stop;
	pthread_t thread;
	sem_t runs;
};

static void *sleep_and_wake(void *argument)
{
	struct sleeper *sleeper = argument;
	struct fuse_watched *watched = &sleeper->watched;
	sigset_t signals;
	bool armed = false;

	sigemptyset(&signals);
	sigaddset(&signals, FUSE_WATCH_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
	watched->thread = pthread_self();
	sem_post(&sleeper->runs);
	while (!sleeper->stop) {
		eventfd_t value;
		ssize_t size;

		if (!armed && atomic_exchange(&watched->called, false)) {
			armed = true;
			sleeper->armings++;
		}
		atomic_store(&watched->state, armed ? FUSE_WATCH_ARMED : FUSE_WATCH_IDLE);
		size = read(watched->waiting_fd, &value, sizeof value);
		atomic_store(&watched->state, FUSE_WATCH_BUSY);
		atomic_fetch_add(&watched->rounds, 1);
		if (armed)
			fuse_watch_wake(sleeper->watch);
		armed = false;
		if (size > 0) {
			sleeper->requests++;
			continue;
		}
		fcntl(watched->waiting_fd, F_SETFL, 0);
		/* A call may interrupt twice: its signal may arrive after the read already returned EAGAIN. */
		if (eventfd_read(watched->store_fd, &value) == 0)
			sleeper->news++;
	}
	return NULL;
}

/* Returns true if the counter reaches @value within 5 s. */
static bool reaches(const _Atomic unsigned *counter, unsigned value)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (unsigned i = 0; i < 5000 && *counter < value; i++)
		nanosleep(&pause, NULL);
	return *counter >= value;
}

static void start(struct sleeper *sleeper, struct fuse_watch *watch)
{
	memset(sleeper, 0, sizeof *sleeper);
	sleeper->watch = watch;
	sleeper->watched.waiting_fd = eventfd(0, EFD_CLOEXEC);
	sleeper->watched.store_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sem_init(&sleeper->runs, 0, 0);
	pthread_create(&sleeper->thread, NULL, sleep_and_wake, sleeper);
	sem_wait(&sleeper->runs);
}

static void end(struct sleeper *sleeper)
{
	sleeper->stop = true;
	eventfd_write(sleeper->watched.waiting_fd, 1);
	pthread_join(sleeper->thread, NULL);
	close(sleeper->watched.waiting_fd);
	close(sleeper->watched.store_fd);
	sem_destroy(&sleeper->runs);
}

int main(void)
{
	struct sleeper sleepers[QUEUES];
	struct fuse_watched *watched[QUEUES];
	struct fuse_watch watch;
	unsigned armings;

	ok(fuse_watch_open(&watch) == 0, "a watch opens");
	for (unsigned i = 0; i < QUEUES; i++) {
		start(&sleepers[i], &watch);
		watched[i] = &sleepers[i].watched;
	}
	ok(fuse_watch_start(&watch, watched, QUEUES) == 0, "a watch of two queues starts");
	ok(reaches(&sleepers[0].armings, 1) && reaches(&sleepers[1].armings, 1),
	   "the watch calls each idle queue, and the queue arms its store");
	for (unsigned i = 1; i < 4; i++) {
		armings = sleepers[0].armings;
		eventfd_write(watched[0]->store_fd, 1);
		ok(reaches(&sleepers[0].news, i), "the watch calls an armed queue whose store has an event");
		ok(reaches(&sleepers[0].armings, armings + 1),
		   "a queue that took its store's event is called again to arm the store");
	}
	armings = sleepers[0].armings;
	eventfd_write(watched[0]->waiting_fd, 1);
	ok(reaches(&sleepers[0].requests, 1), "a request wakes an armed queue");
	ok(reaches(&sleepers[0].armings, armings + 1),
	   "a queue that served a request is called again to arm its store");
	eventfd_write(watched[0]->store_fd, 1);
	ok(reaches(&sleepers[0].news, 4), "the watch calls a queue for its store's event after a request");
	ok(sleepers[1].news == 0 && sleepers[1].requests == 0, "the other queue gets neither events nor requests");
	fuse_watch_stop(&watch);
	for (unsigned i = 0; i < QUEUES; i++)
		end(&sleepers[i]);
	fuse_watch_close(&watch);
	fuse_watch_close(&watch);
	ok(!watch.open, "a watch that is closed twice is closed");
	return tap_done();
}

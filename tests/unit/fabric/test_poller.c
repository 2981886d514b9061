/* poller: each implementation reports an armed source once and a removed source never, and ends its waits. */
#include "common/clock.h"
#include "fabric/poller.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

static void watched_open(struct watched *watched, struct poller *poller)
{
	*watched = (struct watched){.source = {.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .ready = ready}};
	if (watched->source.fd < 0 || poller_add(poller, &watched->source) < 0)
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

static void armed_sources_are_reported_once(const struct poller_operations *operations)
{
	enum { MANY = 100 };
	struct watched a, b, many[MANY];
	struct other_thread other;
	struct poller *poller;
	struct pollfd sleeper;
	pthread_t thread;
	uint64_t begin;
	unsigned told = 0;

	if (operations->open(&poller) < 0) {
		tap_skip(operations->name, "not available here");
		return;
	}
	watched_open(&a, poller);
	watched_open(&b, poller);
	put(&a);
	ok(poller_wait(poller, 0) == 0 && a.told == 0, "%s: a source that is not armed is not reported",
	   operations->name);
	poller_arm(poller, &a.source, POLLER_IN);
	poller_arm(poller, &b.source, POLLER_IN);
	ok(poller_wait(poller, -1) == 1 && a.told == 1 && b.told == 0 && a.events == POLLER_IN,
	   "%s: a source that is ready when armed is reported", operations->name);
	ok(poller_wait(poller, 0) == 0 && a.told == 1, "%s: an armed source is reported once", operations->name);
	put(&b);
	ok(poller_wait(poller, 1000000000) == 1 && b.told == 1, "%s: an armed source that becomes ready is reported",
	   operations->name);
	poller_arm(poller, &a.source, POLLER_IN);
	ok(poller_wait(poller, 1000000000) == 1 && a.told == 2, "%s: a source that is armed again is reported again",
	   operations->name);

	eventfd_read(a.source.fd, &(eventfd_t){0});
	eventfd_read(b.source.fd, &(eventfd_t){0});
	poller_arm(poller, &a.source, POLLER_IN);
	begin = clock_now();
	ok(poller_wait(poller, 20000000) == 0 && clock_now() - begin >= 20000000,
	   "%s: a wait without ready sources times out", operations->name);
	poller_arm(poller, &a.source, POLLER_IN | POLLER_OUT);
	ok(poller_wait(poller, 1000000000) == 1 && a.events & POLLER_OUT,
	   "%s: a source that is armed for more events reports the new ones", operations->name);

	sleeper = (struct pollfd){.fd = poller_fd(poller), .events = POLLIN};
	poller_arm(poller, &b.source, POLLER_IN);
	ok(poller_wait(poller, 0) == 0 && poll(&sleeper, 1, 10) == 0,
	   "%s: the poller's descriptor is not readable while no source is ready", operations->name);
	put(&b);
	ok(poll(&sleeper, 1, 5000) == 1 && poller_wait(poller, 0) == 1,
	   "%s: the poller's descriptor is readable once a source is ready", operations->name);

	poller_arm(poller, &b.source, POLLER_IN);
	watched_close(&b, poller);
	watched_open(&b, poller);
	b.told = 0;
	ok(poller_wait(poller, 10000000) == 0 && b.told == 0,
	   "%s: neither a removed source nor its successor is reported", operations->name);

	other = (struct other_thread){poller, &b};
	pthread_create(&thread, NULL, arm_elsewhere, &other);
	pthread_join(thread, NULL);
	while (poller_wait(poller, 10000000) > 0) /* the end of the thread may have been reported */
		poller_arm(poller, &b.source, POLLER_IN);
	b.told = 0;
	put(&b);
	ok(poller_wait(poller, 1000000000) == 1 && b.told == 1,
	   "%s: a source that was armed in a thread that has ended is reported", operations->name);

	for (unsigned i = 0; i < MANY; i++) {
		watched_open(&many[i], poller);
		put(&many[i]);
		poller_arm(poller, &many[i].source, POLLER_IN);
	}
	for (unsigned i = 0; i < 10; i++)
		poller_wait(poller, 10000000);
	for (unsigned i = 0; i < MANY; i++) {
		told += many[i].told == 1;
		watched_close(&many[i], poller);
	}
	ok(told == MANY, "%s: each of 100 ready sources is reported once", operations->name);
	watched_close(&a, poller);
	watched_close(&b, poller);
	poller_close(poller);
}

/* Makes io_uring_setup() fail for good, and with @all io_uring_enter(), too. */
static void forbid_uring(bool all)
{
	struct sock_filter filter[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 2, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, all ? 1 : 0, 0),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(77);
}

static int child_without(void)
{
	struct poller *poller;
	bool good;

	forbid_uring(false);
	good = poller_open(&poller) == 0 && poller->operations == &poller_epoll_operations;
	if (good)
		poller_close(poller);
	return !good;
}

static int child_revoked(void)
{
	struct watched watched;
	struct poller *poller;
	bool good;

	if (poller_ring_operations.open(&poller) < 0)
		return 77;
	watched_open(&watched, poller);
	forbid_uring(true);
	poller_arm(poller, &watched.source, POLLER_IN);
	good = poller_wait(poller, 1000000000) == 1 && watched.told == 1;
	watched_close(&watched, poller);
	poller_close(poller);
	return !good;
}

/* Runs @run in a child process, because a filter cannot be taken off again. */
static void check_in_child(const char *name, int (*run)(void))
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit(run());
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		tap_skip(name, "no seccomp or no io_uring here");
	else
		ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", name);
}

int main(void)
{
	struct poller *poller;

	armed_sources_are_reported_once(&poller_epoll_operations);
	armed_sources_are_reported_once(&poller_ring_operations);
	check_in_child("a poller is epoll where io_uring is forbidden", child_without);
	check_in_child("a poller reports its sources where io_uring is forbidden later", child_revoked);
	setenv("FARPAGE_POLLER", "epoll", 1);
	ok(poller_open(&poller) == 0 && poller->operations == &poller_epoll_operations,
	   "a poller is epoll if FARPAGE_POLLER says so");
	poller_close(poller);
	return tap_done();
}

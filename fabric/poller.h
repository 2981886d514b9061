/*
 * poller: waits for the sources of one fabric. A source is a descriptor with a callback, ready().
 *
 * Theory of operation. poller_arm() arms a source. When its descriptor becomes ready, or is ready already,
 * poller_wait() disarms the source and calls its ready() once. The owner handles the input, and arms the source again.
 * The poller may call ready() although the descriptor is not ready. ready() must not add, remove or arm sources.
 *
 * While a fabric is busy, it reads its sockets directly, and saves the cost of arming their sources. All sources are
 * armed before the fabric sleeps.
 *
 * The poller uses epoll. io_uring would save a system call for each source that is armed, and for each look at the
 * sources. It gained nothing: a far fault took 16.8 us at the median with either, in 20 runs each, and a program whose
 * threads slept at every fault took no less processor time. And containers often forbid io_uring.
 *
 * Threads. One owner thread, which may change while no call is in progress.
 */
#ifndef FABRIC_POLLER_H
#define FABRIC_POLLER_H

#include <stdbool.h>
#include <stdint.h>

enum { POLLER_IN = 1 << 0, POLLER_OUT = 1 << 1 };

struct poller;
/* Must not move in memory from poller_arm() until poller_remove(). */
struct poller_source {
	int fd;
	void (*ready)(struct poller_source *source, unsigned events);
	/* Used by the poller: */
	bool added;     /* its descriptor is in the epoll set */
	unsigned armed; /* the events for which it is armed */
};

int poller_open(struct poller **ret_poller);
/* The caller has removed all sources. NULL is allowed. */
void poller_close(struct poller *poller);
/* Returns a descriptor that is readable while poller_wait() would find a ready source. */
int poller_fd(const struct poller *poller);
/* Arms @source for at least @events: POLLER_IN, POLLER_OUT, or both. The caller has set fd and ready, and the other
   fields to 0 before the first call. */
void poller_arm(struct poller *poller, struct poller_source *source, unsigned events);
/* Must be called before the descriptor of @source is closed. @source may be one that was never armed. */
void poller_remove(struct poller *poller, struct poller_source *source);
/* Waits up to @timeout_ns (0: does not wait, negative: without limit) and calls ready() of the sources that are
   ready. Returns their number, or -errno. */
int poller_wait(struct poller *poller, int64_t timeout_ns);

#endif

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
 * There are two implementations:
 *
 * - poller_ring uses io_uring. Arming a source is a write to memory. Sleeping takes one system call, however many
 *   sources were armed. Checking for ready sources takes none.
 * - poller_epoll uses epoll, and needs a system call to arm a source. The fabric uses poller_epoll if io_uring is not
 *   available (old kernel, kernel.io_uring_disabled, seccomp), or if the environment has FARPAGE_POLLER=epoll.
 *
 * The table shows the median round trip of a 4 KiB read over loopback in us (2 virtual CPUs, Linux 6.18). Two bare
 * sockets that spin take 8.7 us.
 *
 *                                   both spin    both sleep
 *     poller_ring                   9.3          38 - 40
 *     poller_epoll                  9.7          38 - 40
 *     epoll, always armed (edge)    9.7          38 - 40
 *
 * Data is sent and received by plain system calls. In another measurement, bare sockets that spin took 6.7 us with
 * system calls, and 8.1 us with io_uring.
 *
 * Threads. One owner thread, which may change while no call is in progress.
 */
#ifndef FABRIC_POLLER_H
#define FABRIC_POLLER_H

#include <stdbool.h>
#include <stdint.h>

enum { POLLER_IN = 1 << 0, POLLER_OUT = 1 << 1 };

struct poller;
struct poller_source {
	int fd;
	void (*ready)(struct poller_source *source, unsigned events);
	/* Used by the implementation: */
	uint32_t slot;
	unsigned armed; /* the events for which it is armed */
};

int poller_open(struct poller **ret_poller);
/* The caller has removed all sources. NULL is allowed. */
void poller_close(struct poller *poller);
/* Returns a descriptor that is readable while poller_wait() would find a ready source. */
int poller_fd(const struct poller *poller);
/* Adds @source, unarmed. The caller has set fd and ready. @source must not move in memory until it is removed.
   Returns 0 or -errno. */
int poller_add(struct poller *poller, struct poller_source *source);
/* Must be called before the descriptor of @source is closed. */
void poller_remove(struct poller *poller, struct poller_source *source);
/* Arms @source for at least @events: POLLER_IN, POLLER_OUT, or both. */
void poller_arm(struct poller *poller, struct poller_source *source, unsigned events);
/* Returns true if poller_wait() would find a ready source. Makes no system call, so it may miss a ready source. */
bool poller_has_found(const struct poller *poller);
/* Waits up to @timeout_ns (0: does not wait, negative: without limit) and calls ready() of the sources that are
   ready. Returns their number, or -errno. */
int poller_wait(struct poller *poller, int64_t timeout_ns);

/* --- Implementations ---------------------------------------------------------------------------------------- */

struct poller_operations {
	const char *name;
	int (*open)(struct poller **ret_poller);
	void (*close)(struct poller *poller);
	int (*fd)(const struct poller *poller);
	int (*add)(struct poller *poller, struct poller_source *source);
	void (*remove)(struct poller *poller, struct poller_source *source);
	void (*arm)(struct poller *poller, struct poller_source *source, unsigned events);
	bool (*has_found)(const struct poller *poller);
	int (*wait)(struct poller *poller, int64_t timeout_ns);
};
struct poller {
	const struct poller_operations *operations;
};
extern const struct poller_operations poller_ring_operations, poller_epoll_operations;

#endif

/*
 * poller: waits for all the sources of one fabric. A source is a descriptor. When an armed source is ready, or was
 * ready already, its ready() is called once. The source must then be armed again. Calls of ready() may be spurious but
 * are never missing. ready() must not add, remove or arm sources. A source that is read directly needs no arming, and
 * costs nothing meanwhile. Before the fabric sleeps, all sources are armed.
 *
 * There are two implementations:
 *   - poller_ring uses one-shot polls of an io_uring. Arming is a write to memory. Sleeping takes one system call,
 *     however many sources were armed. Looking takes none.
 *   - poller_epoll is used where io_uring is not available (an old kernel, kernel.io_uring_disabled, seccomp), or if
 *     the environment has FARPAGE_POLLER=epoll.
 *
 * 4 KiB reads over loopback, 2 virtual CPUs, Linux 6.18, median us (bare sockets, both spinning: 8.7):
 *                                   both spin    both sleep
 *     poller_ring                   9.3          38 - 40
 *     poller_epoll                  9.7          38 - 40
 *     epoll, always armed (edge)    9.7          38 - 40
 * Sending and receiving stay plain system calls. Over io_uring a round trip took 8.1 us, with plain calls 6.7 us.
 *
 * Threads. One owner thread. The owner may change while no call is in progress.
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
	/* Private to the implementation: */
	uint32_t slot;
	unsigned armed; /* the events for which it is armed */
};

int poller_open(struct poller **ret_poller);
/* All sources must have been removed. Takes NULL. */
void poller_close(struct poller *poller);
/* Returns a descriptor that is readable when poller_wait() would find a ready source. */
int poller_fd(const struct poller *poller);
/* Adds @source, unarmed. The caller has set fd and ready, and must not move it until it is removed. Returns 0 or
   -errno. */
int poller_add(struct poller *poller, struct poller_source *source);
/* Removes @source. Must be called before its descriptor is closed. */
void poller_remove(struct poller *poller, struct poller_source *source);
/* Arms @source for at least @events, for one call of ready(). Replaces the events for which it was armed. */
void poller_arm(struct poller *poller, struct poller_source *source, unsigned events);
/* Returns true if poller_wait() would find a ready source, as far as this shows without a system call. */
bool poller_has_found(const struct poller *poller);
/* Waits up to @timeout_ns (0: does not wait, negative: no limit). Returns the number of sources reported, or -errno. */
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

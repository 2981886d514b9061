/*
 * poller: what one fabric sleeps on. Sources are descriptors. An armed source is told of once, by its ready(), when
 * what it was armed for is so, or was already; then it has to be armed again. Calls of ready() may be spurious, are
 * never missing, and must neither add, remove nor arm. A source that is looked at directly needs no arming and costs
 * nothing meanwhile; before going to sleep all are armed.
 *
 * Two implementations. poller_ring: one-shot polls of an io_uring; arming is a write to memory, and going to sleep one
 * system call however many were armed; looking is none. poller_epoll: where io_uring is not to be had (an old kernel,
 * kernel.io_uring_disabled, seccomp) or FARPAGE_POLLER=epoll is in the environment.
 *
 * 4 KiB reads over loopback, 2 virtual CPUs, Linux 6.18, median us (bare sockets, both spinning: 8.7):
 *                                   both spin    both sleep
 *     poller_ring                   9.3          38 - 40
 *     poller_epoll                  9.7          38 - 40
 *     epoll, always armed (edge)    9.7          38 - 40
 * Sending and receiving stay plain system calls: over io_uring a round trip took 8.1 where they took 6.7.
 *
 * One owner thread, which may change while nothing is in progress.
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
	/* The implementation's: */
	uint32_t slot;
	unsigned armed; /* for these events */
};

int poller_open(struct poller **ret_poller);
/* The sources have been removed. Takes NULL. */
void poller_close(struct poller *poller);
/* "io_uring", "epoll" */
const char *poller_name(const struct poller *poller);
/* Readable when poller_wait() would find something. */
int poller_fd(const struct poller *poller);
/* @source stays where it is until it is removed; fd and ready are set by the caller. It is not armed. -errno. */
int poller_add(struct poller *poller, struct poller_source *source);
/* Before the descriptor is closed. */
void poller_remove(struct poller *poller, struct poller_source *source);
/* Tells of @events (at least) once. Replaces what @source was armed for. */
void poller_arm(struct poller *poller, struct poller_source *source, unsigned events);
/* Whether poller_wait() would find something, as far as that can be told without a system call. */
bool poller_has_found(const struct poller *poller);
/* Waits up to @timeout_ns (0: only looks; negative: for ever). Returns how many sources were told, or -errno. */
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

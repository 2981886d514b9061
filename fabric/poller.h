/*
 * poller: what one fabric sleeps on. Sources are descriptors; poller_wait() calls `ready` of each that may have
 * something. EDGE sources (sockets) are told of once per arrival, and also when they can take output again; LEVEL
 * sources (watched descriptors) for as long as they can be read. A call of `ready` may be spurious, is never missing,
 * and must not add or remove sources.
 *
 * Two implementations, chosen when opened: io_uring (multishot polls, one ring), or epoll where io_uring is not to be
 * had (seccomp, kernel.io_uring_disabled) or has not been asked for. One owner thread.
 */
#ifndef FABRIC_POLLER_H
#define FABRIC_POLLER_H

#include <stdint.h>

enum { POLLER_IN = 1 << 0, POLLER_OUT = 1 << 1 };
enum poller_mode { POLLER_EDGE, POLLER_LEVEL };

struct poller;
struct poller_source {
	int fd;
	uint32_t slot; /* the implementation's */
	enum poller_mode mode;
	void (*ready)(struct poller_source *source, unsigned events);
};

int poller_open(struct poller **ret_poller);
/* The sources have been removed. Takes NULL. */
void poller_close(struct poller *poller);
/* Readable when poller_wait() would find something. */
int poller_fd(const struct poller *poller);
/* @source stays where it is until it is removed; fd, mode and ready are set by the caller. -errno. */
int poller_add(struct poller *poller, struct poller_source *source);
/* Before the descriptor is closed. */
void poller_remove(struct poller *poller, struct poller_source *source);
/* Waits up to @timeout_ns (0: only looks; negative: for ever). Returns how many sources were told, or -errno. */
int poller_wait(struct poller *poller, int64_t timeout_ns);

#endif

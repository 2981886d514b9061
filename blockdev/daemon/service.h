/*
 * service: the work of the worker's main thread, while other threads serve the device. It answers requests and
 * signals, and calls `tick` once a second.
 *
 * Theory of operation. One poll(2) waits for connections, requests and signals. A connection has one request and one
 * answer. At most four connections are open; others wait in the socket's queue. SIGTERM and SIGINT act as
 * CONTROL_DETACH, so the daemon refuses them while the device is in use. At SIGHUP, which a closed terminal sends, the
 * daemon only logs a line.
 *
 * CONTROL_LEAVE ends this daemon, so that the caller can start another daemon for the device. The worker answers
 * CONTROL_LEAVE when all requests of the device are answered. If the caller has timed out by then, it starts no other
 * daemon. So the keeper must start a worker again (SERVICE_ABANDONED).
 *
 * Threads. All functions run in the main thread. They do not allocate.
 */
#ifndef BLOCKDEV_SERVICE_H
#define BLOCKDEV_SERVICE_H

#include <stddef.h>

enum service_end {
	SERVICE_DETACHED,
	SERVICE_LEFT,
	SERVICE_ABANDONED /* as SERVICE_LEFT, but the caller has timed out, so no other daemon will adopt the device */
};

struct service {
	int control; /* from control_listen() */
	int signals; /* signalfd of the signals above */
	int keeper;  /* write end of a pipe to the keeper, or -1; reports an error when the keeper has ended */
	void *user;
	void (*status)(void *user, char *ret_text, size_t size);
	/* Return 0 if the service ends, or -errno with the reason in @ret_why. */
	int (*detach)(void *user, char *ret_why, size_t size);
	int (*leave)(void *user, char *ret_why, size_t size);
	void (*tick)(void *user);
};

enum service_end service_run(const struct service *service);

#endif

/*
 * service: the work of the worker's main thread while other threads serve the device. It answers the control socket and
 * signals, and calls `tick` once a second, which logs.
 *
 * Theory of operation. One poll(2) waits for connections, requests and signals. A connection carries one request and
 * one answer. Few connections are open at a time; the others wait in the socket's queue. SIGTERM and SIGINT act like
 * CONTROL_DETACH. They change nothing while the device is in use, however often they come. SIGHUP, as from a closed
 * terminal, only causes a log line.
 *
 * CONTROL_LEAVE takes as long as requests wait for donors. The caller may give up meanwhile. Then no other daemon takes
 * over, so the device must not be left (SERVICE_ABANDONED).
 *
 * Threads. All functions run in the main thread. They do not allocate.
 */
#ifndef BLOCKDEV_SERVICE_H
#define BLOCKDEV_SERVICE_H

#include <stddef.h>

enum service_end {
	SERVICE_DETACHED,
	SERVICE_LEFT,
	SERVICE_ABANDONED /* like SERVICE_LEFT, but the caller gave up meanwhile, so no other daemon takes over */
};

struct service {
	int control; /* from control_listen() */
	int signals; /* a signalfd of all signals to handle */
	int keeper;  /* write end of a pipe whose read end the keeper has, or -1 */
	void *user;
	void (*status)(void *user, char *ret_text, size_t size);
	/* Returns 0 if the service is over, or -errno. In that case @ret_why has the reason, for the caller. */
	int (*detach)(void *user, char *ret_why, size_t size);
	int (*leave)(void *user, char *ret_why, size_t size);
	void (*tick)(void *user);
};

enum service_end service_run(const struct service *service);

#endif

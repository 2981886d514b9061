/*
 * service: what the worker's main thread does while others serve the device: answers the control socket and signals,
 * and looks once a second whether something is to be said.
 *
 * Theory of operation. One poll(2) for all. A connection brings one request and gets one answer; few are open at a
 * time, the others wait in the socket's queue. SIGTERM and SIGINT ask for what CONTROL_DETACH asks for, and
 * like it change nothing when the device is in use, however often they come. SIGHUP, as from a terminal that goes away,
 * ends nothing. To leave takes as long as requests take
 * that wait for donors, and who asked for it may not wait that long: then nobody goes on with the device, and it must
 * not be left.
 *
 * Threads: the main thread's. Allocates nothing.
 */
#ifndef BLOCKDEV_SERVICE_H
#define BLOCKDEV_SERVICE_H

#include <stddef.h>

enum service_end {
	SERVICE_DETACHED,
	SERVICE_LEFT,
	SERVICE_ABANDONED /* as left, but whoever asked for it has given up meanwhile, and has nobody go on */
};

struct service {
	int control; /* control_listen()'s */
	int signals; /* a signalfd of all signals that are to be heard */
	int keeper;  /* the end of a pipe whose other end is the keeper's; -1: none */
	void *user;
	void (*status)(void *user, char *ret_text, size_t size);
	/* 0, and the service is over; or -errno, @ret_why: what to tell. */
	int (*detach)(void *user, char *ret_why, size_t size);
	int (*leave)(void *user, char *ret_why, size_t size);
	void (*tick)(void *user);
};

enum service_end service_run(const struct service *service);

#endif

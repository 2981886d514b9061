/*
 * worker: the process that serves a device: opens the store, starts or adopts the device, serves until it is asked to
 * end. A child of the keeper (keeper.h), which starts another when it dies.
 *
 * Threads: the main thread starts everything and then is the service (service.h); store and front end have their own.
 */
#ifndef BLOCKDEV_WORKER_H
#define BLOCKDEV_WORKER_H

#include "blockdev/frontend.h"
#include "blockdev/runtime.h"
#include "blockdev/settings.h"

#include <stdbool.h>
#include <stdint.h>

/* Exit statuses. */
enum worker_end {
	WORKER_DETACHED, /* the device is gone, leases were given back */
	WORKER_FAILED,   /* could not begin to serve; one logged line; a device that was adopted waits still */
	WORKER_LEFT,     /* device and leases wait for the next daemon */
	WORKER_ABANDONED /* the same, but whoever wanted that has given up: the keeper is to start another */
};

struct worker {
	const struct settings *settings;
	struct runtime *runtime;
	const struct frontend_ops *ops;
	const char *note;  /* about the choice of the front end: told once it serves; or empty */
	bool adopt;        /* the device of another worker */
	int32_t number;    /* adopt: its */
	unsigned restarts; /* workers that died before */
	uint64_t started;  /* the device, clock_now() */
	pid_t keeper;      /* the parent; once it is gone the worker tidies up itself */
	int control;       /* listening socket */
	int report;        /* the device's path goes here, a string with its NUL, once it is ready */
};

/* Signals are blocked. */
enum worker_end worker_run(const struct worker *worker);
/* Whether a device of @ops with these settings can be gone on with when its worker has died. */
bool worker_can_adopt(const struct frontend_ops *ops, const struct settings *settings);
/* Gives back what a daemon that has ended had leased. */
void worker_release(const struct settings *settings, const struct runtime *runtime);

#endif

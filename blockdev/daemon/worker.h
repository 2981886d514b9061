/*
 * worker: the process that serves a device. It opens the store, starts or adopts the device, and serves until it is
 * asked to end. It is a child of the keeper (keeper.h), which starts another one if it dies.
 *
 * Threads. The main thread starts the store and the device, and then runs the service (service.h). The store and the
 * front end have their own threads.
 */
#ifndef BLOCKDEV_WORKER_H
#define BLOCKDEV_WORKER_H

#include "blockdev/daemon/runtime.h"
#include "blockdev/daemon/settings.h"
#include "blockdev/frontend.h"

#include <stdbool.h>
#include <stdint.h>

/* Exit statuses. */
enum worker_end {
	WORKER_DETACHED, /* the device is gone and the leases are released */
	WORKER_FAILED, /* the worker could not serve, and logged one line; an adopted device still waits for a daemon */
	WORKER_LEFT,   /* the device and its leases wait for the next daemon */
	WORKER_ABANDONED /* like WORKER_LEFT, but the caller has given up, so the keeper must start another worker */
};

struct worker {
	const struct settings *settings;
	struct runtime *runtime;
	const struct frontend_ops *ops;
	const char *note;  /* about the choice of the front end, to log once it serves; or "" */
	bool adopt;        /* adopt the device of another worker */
	int32_t number;    /* the number of the device to adopt */
	unsigned restarts; /* number of workers that died before this one */
	uint64_t started;  /* clock_now() when the daemon started to serve the device */
	pid_t keeper;      /* the parent; if it is gone, the worker cleans up */
	int control;       /* listening socket */
	int report;        /* pipe for the device's path, a string with its NUL, once it is ready */
};

/* Runs the worker. All signals are blocked. */
enum worker_end worker_run(const struct worker *worker);
/* Returns true if another worker can adopt a device of @ops with these settings. */
bool worker_can_adopt(const struct frontend_ops *ops, const struct settings *settings);
/* Releases the leases of a daemon that has ended. */
void worker_release(const struct settings *settings, const struct runtime *runtime);

#endif

/*
 * worker: the process that serves a device. It opens the store, starts or adopts the device, and serves until a request
 * or signal ends it. Its parent is the keeper (keeper.h), which starts another worker if this worker dies.
 *
 * Threads. The main thread starts the store and the device, and then runs the service (service.h). The store and the
 * front end have threads of their own.
 */
#ifndef BLOCKDEV_WORKER_H
#define BLOCKDEV_WORKER_H

#include "blockdev/daemon/runtime.h"
#include "blockdev/daemon/settings.h"
#include "blockdev/frontend.h"

#include <stdbool.h>
#include <stdint.h>

enum worker_end {
	WORKER_DETACHED, /* the device is removed and the leases are released */
	WORKER_FAILED,   /* the worker could not serve, and logged why; an adopted device waits for the next daemon */
	WORKER_LEFT,     /* the device and its leases wait for the next daemon */
	WORKER_ABANDONED /* as WORKER_LEFT, but the caller has timed out, so the keeper must start another worker */
};

struct worker {
	const struct settings *settings;
	struct runtime *runtime;
	const struct frontend_ops *ops;
	const char *note; /* "", or a line about the choice of the front end, to be logged */
	bool adopt;       /* adopt the existing device `number` */
	int32_t number;
	unsigned restarts; /* number of workers that died before this worker */
	uint64_t started;  /* clock_now() when the daemon started */
	pid_t keeper;      /* the parent; if it has ended, the worker removes the folder itself */
	int control;       /* listening socket */
	int report;        /* write end of a pipe to the keeper, for the path of the ready device */
};

/* Runs the worker. The caller has blocked all signals. */
enum worker_end worker_run(const struct worker *worker);
/* Returns true if another worker can adopt a device of @ops with these settings. */
bool worker_can_adopt(const struct frontend_ops *ops, const struct settings *settings);
/* Releases the leases of a daemon that has ended. */
void worker_release(const struct settings *settings, const struct runtime *runtime);

#endif

/*
 * keeper: the process that a daemon begins as, and that stays to see that its device is served.
 *
 * Theory of operation. The keeper makes or takes over the device's folder, opens its control socket, and forks a worker
 * (worker.h), which serves. A worker that dies, whatever of, is followed by another, which adopts the device: the
 * keeper is small, locked in memory, has no threads and allocates nothing, so that it can do this while the machine
 * waits for the very memory the device holds. A worker that dies again and again is given up; then the device waits for
 * `farpage disk adopt`. Where a device cannot be adopted (FUSE, --memory) it is cleared away and what is lost is said.
 *
 * Threads: one.
 */
#ifndef BLOCKDEV_KEEPER_H
#define BLOCKDEV_KEEPER_H

#include "blockdev/settings.h"

/* Attaches, adopts or removes as @settings says; returns when the device is gone or left. 0; -errno after one logged
   line. */
int keeper_run(const struct settings *settings);

#endif

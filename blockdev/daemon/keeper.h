/*
 * keeper: the first process of a daemon. It makes sure that a worker always serves the device.
 *
 * Theory of operation. The keeper creates or adopts the device's folder, opens the control socket, and forks a
 * worker (worker.h). If the worker dies, the keeper forks another worker, which adopts the device. After more than five
 * quick deaths in a row, the keeper ends, and the device waits for `farpage disk adopt`. If a device cannot be adopted
 * (FUSE, --memory), the keeper removes it and logs the loss.
 *
 * If the device is swap space and no worker serves it, the machine may wait for memory that is on the device. So the
 * keeper must not need memory itself: it is locked in memory, has one thread, and allocates nothing when it replaces a
 * worker.
 */
#ifndef BLOCKDEV_KEEPER_H
#define BLOCKDEV_KEEPER_H

#include "blockdev/daemon/settings.h"

/* Attaches, adopts or removes a device, as @settings says. Returns when the device is removed or left. Returns 0, or
   -errno after one logged line. */
int keeper_run(const struct settings *settings);

#endif

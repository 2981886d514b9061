/*
 * keeper: the first process of a daemon, which stays and makes sure that the device is served.
 *
 * Theory of operation. The keeper creates or takes over the device's folder, opens its control socket, and forks a
 * worker (worker.h), which serves. If a worker dies, another one adopts the device.
 *
 * The keeper is small, locked in memory and has no threads. It allocates nothing while it replaces a worker. So it can
 * replace a worker while the machine waits for the very memory that the device holds. If workers die again and again,
 * the keeper gives up, and the device waits for `farpage disk adopt`. If a device cannot be adopted (FUSE, --memory),
 * the keeper removes it and logs the loss.
 *
 * Threads. The process has one thread.
 */
#ifndef BLOCKDEV_KEEPER_H
#define BLOCKDEV_KEEPER_H

#include "blockdev/daemon/settings.h"

/*
 * Attaches, adopts or removes a device as @settings says. Returns when the device is removed or left. Returns 0, or
 * -errno after one logged line.
 */
int keeper_run(const struct settings *settings);

#endif

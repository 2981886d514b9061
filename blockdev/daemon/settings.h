/*
 * settings: the options of a daemon (struct settings in devices.h). The daemon also writes them to a file in the
 * device's folder, for the next daemon. Each mistake is logged as one line with the cause and the next step.
 *
 * Threads. The main thread calls these functions before it starts other threads.
 */
#ifndef BLOCKDEV_SETTINGS_H
#define BLOCKDEV_SETTINGS_H

#include "blockdev/devices.h"

/* Reads and checks the options. To adopt or remove a device, reads the options that are not given from the device's
   folder. Returns 0, -EINVAL after one logged line, or -ECANCELED after printing --help or --version. */
int settings_read(struct settings *settings, int argc, char **argv);

#endif

/*
 * settings: the options of a daemon (struct settings in devices.h), and the file in the device's folder that keeps them
 * for the next daemon. Each mistake is logged as one line that names the cause and the next step.
 *
 * Threads. The main thread calls these functions before it starts other threads.
 */
#ifndef BLOCKDEV_SETTINGS_H
#define BLOCKDEV_SETTINGS_H

#include "blockdev/devices.h"

/*
 * Reads and checks the options. For an adoption or a removal, options that are not given come from the device's folder.
 * Returns 0, -EINVAL after one logged line, or -ECANCELED if --help or --version was asked for and answered.
 */
int settings_read(struct settings *settings, int argc, char **argv);

#endif

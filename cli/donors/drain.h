/*
 * drain: farpage donors drain and undrain. commands.h says how they are called.
 *
 * Theory of operation. A drained donor grants no leases and recalls all its slabs from its clients. One message of
 * this command starts the drain. After that the command only shows the progress until the donor is empty, so the
 * drain continues if the command ends. Without --force the donor takes no slab that a client does not release,
 * because pages without another copy would be lost.
 *
 * Threads: the caller's.
 */
#ifndef CLI_DRAIN_H
#define CLI_DRAIN_H

int drain_command_begin(int argc, char **argv);
int drain_command_end(int argc, char **argv);

/* Returns "lending", "shrinking" or "draining" for an enum wire_state, or "unknown". */
const char *drain_state_name(unsigned state);

#endif

/*
 * drain: farpage donors drain and undrain. commands.h says how they are called.
 *
 * Theory of operation. A drained donor lends nothing more and asks its clients for all of its slabs. One message of
 * this command starts the drain. Afterwards the command only watches until the donor is empty, so the drain continues
 * if the command ends. Without --force no slab is taken from a client, because pages without another copy would be
 * lost.
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

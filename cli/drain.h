/*
 * drain: farpage donors drain and undrain.
 *
 * Theory of operation. A drained donor lends nothing more and asks its clients for everything. That needs no more of
 * this command than one message; then it only watches, until the donor is empty, so ending it does not end draining.
 * Nothing is taken from a client unless --force was given: what has no other copy would be lost. Called as commands.h
 * says.
 *
 * Threads: the caller's.
 */
#ifndef CLI_DRAIN_H
#define CLI_DRAIN_H

int command_donors_drain(int argc, char **argv);
int command_donors_undrain(int argc, char **argv);

/* "lending", "shrinking", "draining"; of enum wire_state. */
const char *drain_state_name(unsigned state);

#endif

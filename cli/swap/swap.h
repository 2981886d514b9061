/*
 * swap: the verbs of `farpage swap`, one source file each. swap.c has their table, and `list`. commands.h says how they
 * are called.
 */
#ifndef CLI_SWAP_H
#define CLI_SWAP_H

#define SWAP_NAME "swap" /* the device's default name */

int swap_on(int argc, char **argv);
int swap_off(int argc, char **argv);

#endif

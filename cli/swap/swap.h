/*
 * swap: the verbs of `farpage swap`. swap.c has their table. subcommands.h says how they are called.
 */
#ifndef CLI_SWAP_H
#define CLI_SWAP_H

#define SWAP_NAME "swap" /* the device's default name */

int swap_on(int argc, char **argv);
int swap_list(int argc, char **argv);
int swap_squeeze(int argc, char **argv);
/* Ends swapping to a device and removes the device. Returns 0, or -errno after one logged line. */
int swap_off(const char *name);

#endif

/*
 * swap: the parts of `farpage swap`, one source file each; swap.c has their table. Called as commands.h says.
 */
#ifndef CLI_SWAP_H
#define CLI_SWAP_H

#define SWAP_NAME "swap" /* of the device, if none is given */

int swap_on(int argc, char **argv);
int swap_off(int argc, char **argv);
int swap_list(int argc, char **argv);

#endif

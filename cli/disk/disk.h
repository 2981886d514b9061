/*
 * disk: verbs of `farpage disk`, one source file each. disk.c has their table, and the verbs that only call
 * disk_daemon.h. commands.h says how they are called.
 */
#ifndef CLI_DISK_H
#define CLI_DISK_H

int disk_attach(int argc, char **argv);
int disk_list(int argc, char **argv);

#endif

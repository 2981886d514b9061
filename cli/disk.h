/*
 * disk: the parts of `farpage disk`, one source file each; disk.c has their table. Called as commands.h says.
 */
#ifndef CLI_DISK_H
#define CLI_DISK_H

int disk_attach(int argc, char **argv);
int disk_detach(int argc, char **argv);
int disk_adopt(int argc, char **argv);
int disk_leave(int argc, char **argv);
int disk_list(int argc, char **argv);

#endif

/*
 * disk: the disks of simulated programs' backups, in place of client/backup/backup_disk.c.
 *
 * Theory of operation. A disk is known by its path, and keeps what is on it from process to process. An operation takes
 * its time; now and then one takes long, or a write is refused. What is under way when its process is killed has been
 * written, or not, or half a page of it. What is read is what is there when the read ends.
 *
 * Threads: one.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include <stdint.h>

#define DISKS 2u

/* Of the disk of program @index, which is empty from now on: another history begins. */
const char *disk_path(unsigned index);
/* How many writes disks have refused. */
uint64_t disk_refusals(void);

#endif

/*
 * disk: the backup disks of simulated programs, in place of client/backup/backup_disk.c.
 *
 * Theory of operation. A disk is identified by its path, and its contents remain when a process ends. An operation
 * takes a random time, which is sometimes long. Sometimes a disk refuses a write. When a process is killed, each page
 * that it is writing is written completely, by half, or not at all. A read returns the contents at its end.
 *
 * Threads: one.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include <stdint.h>

#define DISKS 2u

/* Empties the disk of program @index for a new history. Returns its path. */
const char *disk_path(unsigned index);
/* Returns the number of writes that disks have refused. */
uint64_t disk_refusals(void);

#endif

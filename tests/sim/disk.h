/*
 * disk: the backup disks of simulated programs, in place of client/backup/backup_disk.c.
 *
 * Theory of operation. The path of a disk identifies it. A disk keeps its contents from process to process. An
 * operation takes time, now and then a long time, and now and then the disk refuses a write. When a process is killed,
 * each page that it was writing has been written whole, by half, or not at all. A read returns the contents at the end
 * of the read.
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

/*
 * backup_disk: the file or block device of a backup, read and written through io_uring.
 *
 * Theory of operation. Page N lies at byte N * STORE_PAGE. A file is made for the store. It is sparse, only its owner
 * may read or write it, and it grows with the pages that are written, at most to the size of the store.
 *
 * If no other process is to go on with the store, the file has no name, except for a moment as PATH.XXXXXX. So no file
 * remains, however this process ends. Several stores may also be given the same path.
 *
 * Otherwise the file keeps its name until the store is closed. One more page behind the store's pages then carries a
 * mark. The mark identifies a file that a process has left behind. Any other file of that name is left alone.
 *
 * A block device is opened exclusively, and its contents are overwritten.
 *
 * I/O bypasses the page cache (O_DIRECT) if the file system can do that: writing pages out must not need memory.
 *
 * Threads: the backup's; another thread opens the disk before that one runs. The simulator and tests replace this file
 * with disks of their own.
 */
#ifndef CLIENT_BACKUP_DISK_H
#define CLIENT_BACKUP_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* Operations in flight, reads and writes together. */
#define DISK_DEPTH 256u
/* Pieces of memory in one operation. */
#define DISK_PIECES 64u

struct backup_disk;

struct backup_disk_done {
	uint64_t cookie;
	int64_t result; /* bytes, or -errno */
};

/*
 * Opens the backup for a store of @pages pages, of which at most @bytes bytes are in use at once. @keep: the file keeps
 * its name, for a process that adopts the store. @adopt: the file is what such a process has left, and its last writes
 * are waited for. Returns 0, or an error after one logged line:
 *
 * - -EEXIST: @path is no backup, or is the backup of a killed store of this boot, which may still be adopted
 * - -EBUSY: another store, a mount or the like uses it
 * - -ENOSPC: the device, or the file system's free space, is too small
 * - -EINVAL: it is neither a file nor a block device, or lies on far memory itself
 * - any other error of open or io_uring
 */
int backup_disk_open(const char *path, uint64_t pages, uint64_t bytes, bool keep, bool adopt,
		     struct backup_disk **ret_disk);
/* Opens the backup as for a new store that no other process goes on with, and closes it. Returns as
   backup_disk_open(). */
int backup_disk_check(const char *path, uint64_t bytes);
/* Closes the disk, which has nothing in flight. @keep leaves the file to another process. Otherwise its name goes, and
   with it its contents. Takes NULL. */
void backup_disk_close(struct backup_disk *disk, bool keep);
/* Returns a descriptor that is readable when there may be something to reap. */
int backup_disk_fd(const struct backup_disk *disk);

/* Prepare an operation from @page on. Its memory, and @pieces, stay in place until it is done. At most DISK_DEPTH
   operations are in flight. backup_disk_submit() starts what is prepared, and returns 0 or -errno. */
void backup_disk_write(struct backup_disk *disk, uint64_t page, const struct iovec *pieces, unsigned count,
		       uint64_t cookie);
void backup_disk_read(struct backup_disk *disk, uint64_t page, void *data, uint32_t pages, uint64_t cookie);
int backup_disk_submit(struct backup_disk *disk);
unsigned backup_disk_reap(struct backup_disk *disk, struct backup_disk_done *dones, unsigned max);

#endif

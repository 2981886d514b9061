/*
 * backup_disk: the file or block device of a backup, read and written through io_uring.
 *
 * Theory of operation. Page N is at byte N * STORE_PAGE. A file is made for the store. Only the owner may read or
 * write the file. The file is sparse: it grows as pages are written, at most to the size of the store.
 *
 * If no other process may adopt the store, the file has no name, except for a moment as PATH.XXXXXX. So no file is
 * left when the process ends, even if it is killed, and several stores may use the same path.
 *
 * If another process may adopt the store, the file keeps its name until the store is closed. The file has one more
 * page after the store's pages, with a mark. By the mark, backup_disk_open() recognizes the file of a killed process.
 * It changes no file without the mark, unless the file is empty.
 *
 * A block device is opened exclusively, and its contents are overwritten.
 *
 * I/O bypasses the page cache (O_DIRECT) if the file system allows it, because writing pages out must not need
 * memory.
 *
 * Threads: the backup's thread. Another thread opens the disk before that thread starts. The simulator and tests
 * replace this file by disks of their own.
 */
#ifndef CLIENT_BACKUP_DISK_H
#define CLIENT_BACKUP_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* The most operations in flight, reads and writes together. */
#define DISK_DEPTH 256u
/* The most pieces of memory in one operation. */
#define DISK_PIECES 64u

struct backup_disk;

struct backup_disk_done {
	uint64_t cookie;
	int64_t result; /* bytes, or -errno */
};

/*
 * Opens the backup for a store of @pages pages. At most @bytes bytes of the store are in use at once. If @keep is
 * true, the file keeps its name, so that another process can adopt the store. @adopt means that an ended process has
 * left the file. The call then waits for the last writes of that process. Returns 0, or an error after one logged
 * line:
 *
 * - -EEXIST: @path is not a backup. Or a process that was killed since the last boot has left this backup, and its
 *   store may still be adopted.
 * - -EBUSY: another store, a mount or the like uses @path
 * - -ENOSPC: the device, or the file system's free space, is too small
 * - -EINVAL: @path is neither a file nor a block device, or is on far memory itself
 * - any other error of open or io_uring
 */
int backup_disk_open(const char *path, uint64_t pages, uint64_t bytes, bool keep, bool adopt,
		     struct backup_disk **ret_disk);
/* Opens and closes the backup as for a new store, with @keep and @adopt false. Returns the same values as
   backup_disk_open(). */
int backup_disk_check(const char *path, uint64_t bytes);
/* Closes the disk. No operation may be in flight. If @keep is true, the file stays for another process. Otherwise the
   file is removed. NULL is allowed. */
void backup_disk_close(struct backup_disk *disk, bool keep);
/* Returns a descriptor that is readable when an operation may have completed. */
int backup_disk_fd(const struct backup_disk *disk);

/* Prepare an operation that begins at @page. The operation's memory, and @pieces, must stay valid until the operation
   completes. At most DISK_DEPTH operations may be in flight. backup_disk_submit() starts the prepared operations, and
   returns 0 or -errno. */
void backup_disk_write(struct backup_disk *disk, uint64_t page, const struct iovec *pieces, unsigned count,
		       uint64_t cookie);
void backup_disk_read(struct backup_disk *disk, uint64_t page, void *data, uint32_t pages, uint64_t cookie);
int backup_disk_submit(struct backup_disk *disk);
unsigned backup_disk_reap(struct backup_disk *disk, struct backup_disk_done *dones, unsigned max);

#endif

/*
 * backup_disk: the file or block device that a backup is kept in, read and written through an io_uring.
 *
 * Theory of operation. Page N lies at N * STORE_PAGE. A file is made for the store, sparse, the owner's alone. Where no
 * other process is to go on with the store it has no name from the beginning (but for a moment, PATH.XXXXXX): nothing
 * is left however this process ends, and several may name the same path. Else it has one until the store is closed, and
 * one page more with a mark in it, by which one that a process has left behind is known: whatever else has that name is
 * not touched. A block device is opened exclusively, and what is on it is overwritten.
 *
 * The file grows with the pages that are written, to the size of the store at most.
 *
 * Past the page cache (O_DIRECT) wherever the file system can: writing pages out must not need memory.
 *
 * Threads: the backup's; opened by another before that one runs. The simulator, and tests, have one of their own.
 */
#ifndef CLIENT_BACKUP_DISK_H
#define CLIENT_BACKUP_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* Operations in flight. */
#define DISK_DEPTH 256u
/* Pieces of memory in one. */
#define DISK_PIECES 64u

struct backup_disk;

struct backup_disk_done {
	uint64_t cookie;
	int64_t result; /* bytes, or -errno */
};

/*
 * For a store of @pages, of which @bytes are in use at once at most. @keep: its name stays, for a process that adopts
 * the store; @adopt: it is what such a process has left, and whose last writes are waited for. Errors are logged, one
 * line: -EEXIST: something else, or of a store of this boot that may be adopted; -EBUSY: in use; -ENOSPC: too small, or
 * its file system is; -EINVAL: neither file nor block device, or itself on far memory; or whatever open or io_uring
 * say.
 */
int backup_disk_open(const char *path, uint64_t pages, uint64_t bytes, bool keep, bool adopt,
		     struct backup_disk **ret_disk);
/* Whether a new store that nobody is to go on with could have it there: opened, and closed again. The same errors. */
int backup_disk_check(const char *path, uint64_t bytes);
/* @keep: for another process. Else its name goes, and with it its contents. Nothing is in flight. Takes NULL. */
void backup_disk_close(struct backup_disk *disk, bool keep);
/* Readable when there may be something to reap. */
int backup_disk_fd(const struct backup_disk *disk);

/* From @page on; @pieces stay where they are until it is done. No more than DISK_DEPTH are in flight, of both. They go
   out with backup_disk_submit(): -errno. */
void backup_disk_write(struct backup_disk *disk, uint64_t page, const struct iovec *pieces, unsigned count,
		       uint64_t cookie);
void backup_disk_read(struct backup_disk *disk, uint64_t page, void *data, uint32_t pages, uint64_t cookie);
int backup_disk_submit(struct backup_disk *disk);
unsigned backup_disk_reap(struct backup_disk *disk, struct backup_disk_done *dones, unsigned max);

#endif

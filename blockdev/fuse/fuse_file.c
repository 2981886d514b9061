/* fuse_file: see fuse_file.h. */
#include "blockdev/fuse/fuse_file.h"

#include "blockdev/fuse/fuse_queue.h"

#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <limits.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FILE_INODE 2u       /* the root directory is FUSE_ROOT_ID, 1 */
#define FOREVER_SECONDS 1e9 /* how long the kernel may cache names and attributes, which never change */
#define SPLICING (FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE)

static const struct fuse_file *file_of(fuse_req_t request)
{
	return ((struct fuse_queue *)fuse_req_userdata(request))->file;
}

static bool is_sectors(uint64_t offset, uint64_t length)
{
	return (offset | length) % DISK_SECTOR == 0;
}

/* --- Attributes and names ------------------------------------------------------------------------------------ */

static void file_init(void *userdata, struct fuse_conn_info *connection)
{
	const struct fuse_file *file = ((struct fuse_queue *)userdata)->file;

	connection->max_write = file->request_bytes;
	connection->max_read = file->request_bytes;
	connection->max_readahead = 0;
	connection->max_background = file->depth;
	connection->congestion_threshold = file->depth;
	/*
	 * Splicing allocates pipes. With FUSE_CAP_ATOMIC_O_TRUNC, the kernel would believe that an open with O_TRUNC
	 * has emptied the file.
	 */
	connection->want &= ~(unsigned)(SPLICING | FUSE_CAP_ATOMIC_O_TRUNC);
}

static void file_stat(const struct fuse_file *file, fuse_ino_t inode, struct stat *ret_stat)
{
	bool is_file = inode == FILE_INODE;

	*ret_stat = (struct stat){
	    .st_ino = inode,
	    .st_mode = is_file ? S_IFREG | 0600 : S_IFDIR | 0700,
	    .st_nlink = is_file ? 1 : 2,
	    .st_size = is_file ? (off_t)disk_bytes(file->disk) : 0,
	    .st_blocks = is_file ? (blkcnt_t)(disk_bytes(file->disk) / 512) : 0,
	    .st_blksize = STORE_PAGE,
	};
}

static void file_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
	const struct fuse_file *file = file_of(request);
	struct fuse_entry_param entry = {
	    .ino = FILE_INODE, .attr_timeout = FOREVER_SECONDS, .entry_timeout = FOREVER_SECONDS};

	if (parent != FUSE_ROOT_ID || strcmp(name, file->name) != 0) {
		fuse_reply_err(request, ENOENT);
		return;
	}
	file_stat(file, FILE_INODE, &entry.attr);
	fuse_reply_entry(request, &entry);
}

static void file_getattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
	struct stat stat;

	(void)info;
	file_stat(file_of(request), inode, &stat);
	fuse_reply_attr(request, &stat, FOREVER_SECONDS);
}

static void file_setattr(fuse_req_t request, fuse_ino_t inode, struct stat *stat, int which,
			 struct fuse_file_info *info)
{
	(void)inode;
	(void)stat;
	(void)which;
	(void)info;
	fuse_reply_err(request, EPERM);
}

static void file_readdir(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *info)
{
	const struct fuse_file *file = file_of(request);
	struct stat stat;
	char entry[320];
	size_t length;

	(void)info;
	file_stat(file, FILE_INODE, &stat);
	length = fuse_add_direntry(request, entry, sizeof entry, file->name, &stat, 1);
	if (inode != FUSE_ROOT_ID)
		fuse_reply_err(request, ENOTDIR);
	else if (offset > 0 || length > size || length > sizeof entry)
		fuse_reply_buf(request, NULL, 0);
	else
		fuse_reply_buf(request, entry, length);
}

static void file_open(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
	(void)inode;
	info->direct_io = 1;
	fuse_reply_open(request, info);
}

/* The loop driver uses the block size as the granularity of discards. */
static void file_statfs(fuse_req_t request, fuse_ino_t inode)
{
	struct statvfs statfs = {
	    .f_bsize = STORE_PAGE,
	    .f_frsize = STORE_PAGE,
	    .f_blocks = disk_bytes(file_of(request)->disk) / STORE_PAGE,
	    .f_files = 1,
	    .f_namemax = NAME_MAX,
	};

	(void)inode;
	fuse_reply_statfs(request, &statfs);
}

/* --- Reading and writing ------------------------------------------------------------------------------------- */

static void file_read(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *info)
{
	struct fuse_queue *queue = fuse_req_userdata(request);
	uint64_t begin = (uint64_t)offset, bytes = disk_bytes(queue->file->disk);

	(void)inode;
	(void)info;
	if (!is_sectors(begin, size) || size > queue->request_bytes)
		fuse_reply_err(request, EINVAL);
	else if (begin >= bytes || size == 0)
		fuse_reply_buf(request, NULL, 0);
	else
		fuse_queue_submit(queue, request, DISK_READ, begin, size < bytes - begin ? size : bytes - begin,
				  queue->current->data);
}

static void file_write(fuse_req_t request, fuse_ino_t inode, const char *data, size_t size, off_t offset,
		       struct fuse_file_info *info)
{
	struct fuse_queue *queue = fuse_req_userdata(request);
	uint64_t begin = (uint64_t)offset, bytes = disk_bytes(queue->file->disk);

	(void)inode;
	(void)info;
	if (!is_sectors(begin, size) || size > queue->request_bytes)
		fuse_reply_err(request, EINVAL);
	else if (begin > bytes || size > bytes - begin)
		fuse_reply_err(request, ENOSPC);
	else if (size == 0)
		fuse_reply_write(request, 0);
	else
		/* @data points into the slot's memory. The sum drops the const that libfuse adds. */
		fuse_queue_submit(queue, request, DISK_WRITE, begin, size,
				  queue->current->data + (data - (const char *)queue->current->data));
}

static void file_fallocate(fuse_req_t request, fuse_ino_t inode, int mode, off_t offset, off_t length,
			   struct fuse_file_info *info)
{
	struct fuse_queue *queue = fuse_req_userdata(request);
	uint64_t begin = (uint64_t)offset, size = (uint64_t)length, bytes = disk_bytes(queue->file->disk);
	int what = mode & ~FALLOC_FL_KEEP_SIZE;

	(void)inode;
	(void)info;
	if (what != FALLOC_FL_PUNCH_HOLE && what != FALLOC_FL_ZERO_RANGE) {
		fuse_reply_err(request, EOPNOTSUPP);
	} else if (!is_sectors(begin, size)) {
		fuse_reply_err(request, EINVAL);
	} else if (begin > bytes || size > bytes - begin) {
		fuse_reply_err(request, ENOSPC);
	} else {
		fuse_queue_submit(queue, request, what == FALLOC_FL_PUNCH_HOLE ? DISK_DISCARD : DISK_ZERO, begin, size,
				  NULL);
	}
}

static void file_fsync(fuse_req_t request, fuse_ino_t inode, int data_only, struct fuse_file_info *info)
{
	(void)inode;
	(void)data_only;
	(void)info;
	fuse_queue_submit(fuse_req_userdata(request), request, DISK_FLUSH, 0, 0, NULL);
}

void fuse_file_answer(struct fuse_slot *slot)
{
	const struct disk_request *request = &slot->request;

	if (request->status < 0)
		fuse_reply_err(slot->reply, -request->status);
	else if (request->op == DISK_READ)
		fuse_reply_buf(slot->reply, request->data, request->length);
	else if (request->op == DISK_WRITE)
		fuse_reply_write(slot->reply, request->length);
	else
		fuse_reply_err(slot->reply, 0);
}

/* --- The session --------------------------------------------------------------------------------------------- */

/* libfuse answers ENOSYS to operations that are missing here, and the kernel then stops sending them. */
static const struct fuse_lowlevel_ops file_ops = {
    .init = file_init,
    .lookup = file_lookup,
    .getattr = file_getattr,
    .setattr = file_setattr,
    .readdir = file_readdir,
    .open = file_open,
    .statfs = file_statfs,
    .read = file_read,
    .write = file_write,
    .fallocate = file_fallocate,
    .fsync = file_fsync,
};

struct fuse_session *fuse_file_session(struct fuse_queue *queue)
{
	char program[] = "farpage", option[] = "-o", value[32];
	char *words[] = {program, option, value, NULL};
	struct fuse_args arguments = FUSE_ARGS_INIT(3, words);
	struct fuse_session *session;

	snprintf(value, sizeof value, "max_read=%u", queue->request_bytes);
	session = fuse_session_new(&arguments, &file_ops, sizeof file_ops, queue);
	fuse_opt_free_args(&arguments);
	return session;
}

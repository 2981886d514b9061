/*
 * ram_fuse: the smallest FUSE file in memory. The benchmark compares the FUSE front end with it.
 *
 * It serves one file with direct I/O in one directory, over an array in memory. It uses the low-level API of libfuse3
 * in the usual way: one thread in fuse_session_loop() answers each request when it comes.
 *
 *     ram_fuse MOUNTPOINT BYTES
 *
 * Serves MOUNTPOINT/file until it is unmounted.
 */
#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FILE_INODE 2
#define SECONDS 3600.0

static char *memory;
static size_t bytes;

static void ram_stat(fuse_ino_t inode, struct stat *ret_stat)
{
	*ret_stat = (struct stat){.st_ino = inode,
				  .st_mode = inode == FILE_INODE ? S_IFREG | 0600 : S_IFDIR | 0700,
				  .st_nlink = 1,
				  .st_size = inode == FILE_INODE ? (off_t)bytes : 0};
}

static void ram_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = {.ino = FILE_INODE, .attr_timeout = SECONDS, .entry_timeout = SECONDS};

	if (parent != FUSE_ROOT_ID || strcmp(name, "file") != 0) {
		fuse_reply_err(request, ENOENT);
		return;
	}
	ram_stat(FILE_INODE, &entry.attr);
	fuse_reply_entry(request, &entry);
}

static void ram_getattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
	struct stat stat;

	(void)info;
	ram_stat(inode, &stat);
	fuse_reply_attr(request, &stat, SECONDS);
}

static void ram_open(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *info)
{
	(void)inode;
	info->direct_io = 1;
	fuse_reply_open(request, info);
}

static void ram_read(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset, struct fuse_file_info *info)
{
	size_t begin = (size_t)offset < bytes ? (size_t)offset : bytes;

	(void)inode;
	(void)info;
	fuse_reply_buf(request, memory + begin, size < bytes - begin ? size : bytes - begin);
}

static void ram_write(fuse_req_t request, fuse_ino_t inode, const char *data, size_t size, off_t offset,
		      struct fuse_file_info *info)
{
	(void)inode;
	(void)info;
	if ((size_t)offset > bytes || size > bytes - (size_t)offset) {
		fuse_reply_err(request, ENOSPC);
		return;
	}
	memcpy(memory + offset, data, size);
	fuse_reply_write(request, size);
}

static const struct fuse_lowlevel_ops ram_ops = {
    .lookup = ram_lookup, .getattr = ram_getattr, .open = ram_open, .read = ram_read, .write = ram_write};

int main(int argc, char **argv)
{
	struct fuse_args arguments = FUSE_ARGS_INIT(1, argv);
	struct fuse_session *session;
	int status;

	if (argc != 3) {
		fprintf(stderr, "usage: ram_fuse MOUNTPOINT BYTES\n");
		return 2;
	}
	bytes = strtoul(argv[2], NULL, 0);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		fprintf(stderr, "ram_fuse: no memory for %s bytes\n", argv[2]);
		return EXIT_FAILURE;
	}
	session = fuse_session_new(&arguments, &ram_ops, sizeof ram_ops, NULL);
	if (!session || fuse_session_mount(session, argv[1]) != 0)
		return EXIT_FAILURE;
	status = fuse_session_loop(session);
	fuse_session_unmount(session);
	fuse_session_destroy(session);
	return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

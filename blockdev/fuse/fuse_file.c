#include "blockdev/fuse/fuse_file.h"

#include "common/log.h"

#include <errno.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FOREVER_S 1000000000u /* how long the kernel may cache attributes, which never change */
#define INIT_LEAST 16u        /* length of the body of the kernel's first message before Linux 5.17 */
/* With these, the kernel sends several requests for one file at a time, each of more than a page. */
#define CAPABILITIES (FUSE_ASYNC_READ | FUSE_ASYNC_DIO | FUSE_BIG_WRITES | FUSE_MAX_PAGES)

struct message {
	struct fuse_in_header header;
	union {
		struct fuse_init_in init;
		struct fuse_read_in read;
		struct fuse_write_in write;
		struct fuse_fallocate_in fallocate;
	};
};

_Static_assert(offsetof(struct message, write) + sizeof(struct fuse_write_in) == FUSE_FILE_HEADERS,
	       "what lies before the data of a WRITE");

static const struct message *message_of(const struct fuse_slot *slot)
{
	return (const void *)(slot->data - FUSE_FILE_HEADERS);
}

/* --- Answers ------------------------------------------------------------------------------------------------- */

/* Answers with @error, a positive errno or 0, and the body. Returns 0, or -errno after logging it. */
static int answer(int fd, const struct message *message, int error, const void *body, size_t length)
{
	struct fuse_out_header header = {
	    .len = (uint32_t)(sizeof header + length), .error = -error, .unique = message->header.unique};
	struct iovec parts[] = {{&header, sizeof header}, {(void *)(uintptr_t)body, length}};

	/* ENOENT: the kernel has cancelled the operation. ENODEV: the file was unmounted. */
	if (writev(fd, parts, length ? 2 : 1) >= 0 || errno == ENOENT || errno == ENODEV)
		return 0;
	log_error("fuse: answering requests: %m");
	return -errno;
}

static void answer_error(const struct fuse_slot *slot, int error)
{
	answer(slot->fd, message_of(slot), error, NULL, 0);
}

static void answer_with(const struct fuse_slot *slot, const void *body, size_t length)
{
	answer(slot->fd, message_of(slot), 0, body, length);
}

void fuse_file_answer(const struct fuse_slot *slot)
{
	const struct disk_request *request = &slot->request;
	const struct fuse_write_out written = {.size = (uint32_t)request->length};

	if (request->status < 0)
		answer_error(slot, -request->status);
	else if (request->op == DISK_READ)
		answer_with(slot, request->data, request->length);
	else if (request->op == DISK_WRITE)
		answer_with(slot, &written, sizeof written);
	else
		answer_error(slot, 0);
}

/* --- Operations of the disk ---------------------------------------------------------------------------------- */

static bool is_sectors(uint64_t offset, uint64_t length)
{
	return (offset | length) % DISK_SECTOR == 0;
}

/* Sets the slot's request for the disk. Returns true, for fuse_file_decode(). */
static bool request(struct fuse_slot *slot, enum disk_op op, uint64_t offset, uint64_t length)
{
	slot->request = (struct disk_request){.op = op, .offset = offset, .length = length, .data = slot->data};
	return true;
}

static bool decode_read(const struct fuse_file *file, struct fuse_slot *slot)
{
	const struct fuse_read_in *in = &message_of(slot)->read;
	uint64_t bytes = disk_bytes(file->disk);

	if (!is_sectors(in->offset, in->size) || in->size > file->request_bytes)
		answer_error(slot, EINVAL);
	else if (in->offset >= bytes || in->size == 0)
		answer_error(slot, 0);
	else
		return request(slot, DISK_READ, in->offset,
			       in->size < bytes - in->offset ? in->size : bytes - in->offset);
	return false;
}

static bool decode_write(const struct fuse_file *file, struct fuse_slot *slot)
{
	const struct message *message = message_of(slot);
	const struct fuse_write_in *in = &message->write;
	const struct fuse_write_out nothing = {.size = 0};
	uint64_t bytes = disk_bytes(file->disk);

	if (!is_sectors(in->offset, in->size) || in->size != message->header.len - FUSE_FILE_HEADERS)
		answer_error(slot, EINVAL);
	else if (in->offset > bytes || in->size > bytes - in->offset)
		answer_error(slot, ENOSPC);
	else if (in->size == 0)
		answer_with(slot, &nothing, sizeof nothing);
	else
		return request(slot, DISK_WRITE, in->offset, in->size);
	return false;
}

static bool decode_fallocate(const struct fuse_file *file, struct fuse_slot *slot)
{
	const struct fuse_fallocate_in *in = &message_of(slot)->fallocate;
	uint64_t bytes = disk_bytes(file->disk);
	uint32_t what = in->mode & ~(uint32_t)FALLOC_FL_KEEP_SIZE;

	if (what != FALLOC_FL_PUNCH_HOLE && what != FALLOC_FL_ZERO_RANGE)
		answer_error(slot, EOPNOTSUPP);
	else if (!is_sectors(in->offset, in->length))
		answer_error(slot, EINVAL);
	else if (in->offset > bytes || in->length > bytes - in->offset)
		answer_error(slot, ENOSPC);
	else
		return request(slot, what == FALLOC_FL_PUNCH_HOLE ? DISK_DISCARD : DISK_ZERO, in->offset, in->length);
	return false;
}

/* --- Operations without the disk ----------------------------------------------------------------------------- */

static void answer_attributes(const struct fuse_file *file, const struct fuse_slot *slot)
{
	const struct fuse_attr_out attributes = {.attr_valid = FOREVER_S,
						 .attr = {.ino = FUSE_ROOT_ID,
							  .mode = S_IFREG | 0600,
							  .nlink = 1,
							  .size = disk_bytes(file->disk),
							  .blocks = disk_bytes(file->disk) / 512,
							  .blksize = STORE_PAGE}};

	answer_with(slot, &attributes, sizeof attributes);
}

/* The loop driver takes the granularity of discards from the block size. */
static void answer_statistics(const struct fuse_file *file, const struct fuse_slot *slot)
{
	const struct fuse_statfs_out statistics = {.st = {.bsize = STORE_PAGE,
							  .frsize = STORE_PAGE,
							  .blocks = disk_bytes(file->disk) / STORE_PAGE,
							  .files = 1,
							  .namelen = NAME_MAX}};

	answer_with(slot, &statistics, sizeof statistics);
}

static void answer_open(const struct fuse_slot *slot)
{
	const struct fuse_open_out opened = {.open_flags = FOPEN_DIRECT_IO};

	answer_with(slot, &opened, sizeof opened);
}

bool fuse_file_decode(const struct fuse_file *file, struct fuse_slot *slot, size_t size)
{
	const struct fuse_in_header *header = &message_of(slot)->header;

	if (size < sizeof *header || size != header->len) {
		log_error("fuse: the length of a message is wrong");
		return false;
	}
	switch (header->opcode) {
	case FUSE_READ:
		return decode_read(file, slot);
	case FUSE_WRITE:
		return decode_write(file, slot);
	case FUSE_FALLOCATE:
		return decode_fallocate(file, slot);
	case FUSE_FSYNC:
		return request(slot, DISK_FLUSH, 0, 0);
	case FUSE_GETATTR:
		answer_attributes(file, slot);
		return false;
	case FUSE_SETATTR:
		answer_error(slot, EPERM);
		return false;
	case FUSE_STATFS:
		answer_statistics(file, slot);
		return false;
	case FUSE_OPEN:
		answer_open(slot);
		return false;
	case FUSE_RELEASE:
		answer_error(slot, 0);
		return false;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		return false; /* the kernel does not wait for an answer */
	default:
		answer_error(slot, ENOSYS);
		return false;
	}
}

int fuse_file_greet(const struct fuse_file *file, int fd)
{
	union {
		struct message message;
		char room[FUSE_MIN_READ_BUFFER];
	} first;
	const struct fuse_init_in *theirs = &first.message.init;
	struct fuse_init_out ours = {.major = FUSE_KERNEL_VERSION,
				     .minor = FUSE_KERNEL_MINOR_VERSION,
				     .max_background = (uint16_t)file->depth,
				     .congestion_threshold = (uint16_t)file->depth,
				     .max_write = file->request_bytes,
				     .max_pages = (uint16_t)(file->request_bytes / STORE_PAGE),
				     .time_gran = 1};
	ssize_t size = read(fd, &first, sizeof first);

	if (size < 0)
		return -errno;
	if ((size_t)size < sizeof first.message.header + INIT_LEAST || first.message.header.opcode != FUSE_INIT ||
	    theirs->major != FUSE_KERNEL_VERSION)
		return -EPROTO;
	ours.flags = theirs->flags & CAPABILITIES;
	return answer(fd, &first.message, 0, &ours, sizeof ours);
}

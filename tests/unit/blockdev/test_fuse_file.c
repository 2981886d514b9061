/* test_fuse_file: how each message of the kernel is decoded and answered, without the kernel. */
#include "blockdev/fuse/fuse_file.h"
#include "tests/lib/tap.h"

#include <errno.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES (1u << 20)
#define REQUEST_BYTES (64u << 10)
#define UNIQUE 77u

static struct fuse_file file = {.request_bytes = REQUEST_BYTES, .depth = 16};
static struct fuse_slot slot;
static int kernel; /* the other end of slot.fd */

/* The last answer. */
static struct {
	struct fuse_out_header header;
	union {
		struct fuse_attr_out attributes;
		struct fuse_init_out init;
		struct fuse_open_out opened;
		struct fuse_statfs_out statistics;
		struct fuse_write_out written;
		char data[REQUEST_BYTES];
	};
} answer;

/* Lets a message be decoded. @body_size is the length of @body, @data_size the length of the data after it. */
static bool decode(uint32_t opcode, const void *body, size_t body_size, size_t data_size)
{
	size_t size = sizeof(struct fuse_in_header) + body_size + data_size;
	const struct fuse_in_header header = {
	    .len = (uint32_t)size, .opcode = opcode, .unique = UNIQUE, .nodeid = FUSE_ROOT_ID};

	memcpy(slot.data - FUSE_FILE_HEADERS, &header, sizeof header);
	memcpy(slot.data - FUSE_FILE_HEADERS + sizeof header, body, body_size);
	return fuse_file_decode(&file, &slot, size);
}

/* Returns the length of the answer's body, or -1 if there is no good answer. */
static ssize_t answered(void)
{
	ssize_t size = recv(kernel, &answer, sizeof answer, MSG_DONTWAIT);

	if (size < (ssize_t)sizeof answer.header || answer.header.len != size || answer.header.unique != UNIQUE)
		return -1;
	return size - (ssize_t)sizeof answer.header;
}

static bool answered_error(int error)
{
	return answered() == 0 && answer.header.error == -error;
}

static bool decode_read(uint64_t offset, uint32_t size)
{
	const struct fuse_read_in in = {.offset = offset, .size = size};

	return decode(FUSE_READ, &in, sizeof in, 0);
}

static bool decode_write(uint64_t offset, uint32_t size, size_t data_size)
{
	const struct fuse_write_in in = {.offset = offset, .size = size};

	return decode(FUSE_WRITE, &in, sizeof in, data_size);
}

static bool decode_fallocate(uint32_t mode, uint64_t offset, uint64_t length)
{
	const struct fuse_fallocate_in in = {.mode = mode, .offset = offset, .length = length};

	return decode(FUSE_FALLOCATE, &in, sizeof in, 0);
}

static bool request_is(enum disk_op op, uint64_t offset, uint64_t length)
{
	return slot.request.op == op && slot.request.offset == offset && slot.request.length == length;
}

/* --- The greeting -------------------------------------------------------------------------------------------- */

static int greet(uint32_t opcode, uint32_t major)
{
	const struct {
		struct fuse_in_header header;
		struct fuse_init_in init;
	} first = {.header = {.len = sizeof first, .opcode = opcode, .unique = UNIQUE},
		   .init = {.major = major, .minor = 31, .flags = FUSE_ASYNC_DIO | FUSE_POSIX_ACL}};

	if (send(kernel, &first, sizeof first, 0) != sizeof first)
		return -errno;
	return fuse_file_greet(&file, slot.fd);
}

static void a_greeting_agrees_on_the_protocol(void)
{
	ok(greet(FUSE_INIT, FUSE_KERNEL_VERSION) == 0 && answered() == sizeof answer.init && answer.header.error == 0,
	   "the kernel's first message is answered");
	ok(answer.init.major == FUSE_KERNEL_VERSION && answer.init.max_write == REQUEST_BYTES &&
	       answer.init.max_pages == REQUEST_BYTES / STORE_PAGE && answer.init.max_background == file.depth,
	   "the greeting names the length and the number of requests");
	ok(answer.init.flags == FUSE_ASYNC_DIO, "the greeting accepts only the needed features that the kernel offers");
	ok(greet(FUSE_INIT, FUSE_KERNEL_VERSION + 1) == -EPROTO && answered() < 0,
	   "a kernel with another protocol gets no greeting");
	ok(greet(FUSE_GETATTR, FUSE_KERNEL_VERSION) == -EPROTO && answered() < 0,
	   "a first message that is not INIT gets no greeting");
}

/* --- Requests of the disk ------------------------------------------------------------------------------------ */

static void reads_stay_inside_the_file(void)
{
	ok(decode_read(8192, 4096) && request_is(DISK_READ, 8192, 4096) && slot.request.data == slot.data,
	   "a READ becomes a read of the disk into the slot");
	memset(slot.data, 9, 4096);
	fuse_file_answer(&slot);
	ok(answered() == 4096 && answer.header.error == 0 && answer.data[0] == 9 && answer.data[4095] == 9,
	   "a finished read is answered with its data");
	ok(decode_read(BYTES - 512, 4096) && request_is(DISK_READ, BYTES - 512, 512),
	   "a READ beyond the end of the file stops at the end");
	ok(!decode_read(BYTES, 4096) && answered_error(0), "a READ at the end of the file gets 0 bytes");
	ok(!decode_read(100, 512) && answered_error(EINVAL), "a READ that does not begin at a sector gets EINVAL");
	ok(!decode_read(0, 2 * REQUEST_BYTES) && answered_error(EINVAL), "a READ of more than a slot gets EINVAL");
}

static void writes_stay_inside_the_file(void)
{
	ok(decode_write(4096, 1024, 1024) && request_is(DISK_WRITE, 4096, 1024) && slot.request.data == slot.data,
	   "a WRITE becomes a write of the disk from the slot");
	fuse_file_answer(&slot);
	ok(answered() == sizeof answer.written && answer.written.size == 1024,
	   "a finished write is answered with its length");
	ok(!decode_write(0, 0, 0) && answered() == sizeof answer.written && answer.written.size == 0,
	   "a WRITE of nothing is answered at once");
	ok(!decode_write(BYTES - 512, 1024, 1024) && answered_error(ENOSPC),
	   "a WRITE beyond the end of the file gets ENOSPC");
	ok(!decode_write(BYTES + 512, 512, 512) && answered_error(ENOSPC),
	   "a WRITE that begins beyond the end of the file gets ENOSPC");
	ok(!decode_write(0, 513, 513) && answered_error(EINVAL), "a WRITE of a part of a sector gets EINVAL");
	ok(!decode_write(0, 1024, 512) && answered_error(EINVAL), "a WRITE with less data than its length gets EINVAL");
}

static void ranges_are_released_and_writes_flushed(void)
{
	ok(decode_fallocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, BYTES) && request_is(DISK_DISCARD, 0, BYTES),
	   "a hole becomes a discard of the disk");
	ok(decode_fallocate(FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 512, 512) && request_is(DISK_ZERO, 512, 512),
	   "a range of zeroes becomes a zeroing of the disk");
	fuse_file_answer(&slot);
	ok(answered_error(0), "a finished zeroing is answered");
	ok(!decode_fallocate(FALLOC_FL_PUNCH_HOLE, 512, BYTES) && answered_error(ENOSPC),
	   "a hole beyond the end of the file gets ENOSPC");
	ok(!decode_fallocate(FALLOC_FL_PUNCH_HOLE, 1, 512) && answered_error(EINVAL),
	   "a hole that does not begin at a sector gets EINVAL");
	ok(!decode_fallocate(0, 0, 512) && answered_error(EOPNOTSUPP), "allocating space gets EOPNOTSUPP");
	ok(decode(FUSE_FSYNC, "", 0, 0) && slot.request.op == DISK_FLUSH, "an FSYNC becomes a flush of the disk");
	slot.request.status = -ENOSPC;
	fuse_file_answer(&slot);
	ok(answered_error(ENOSPC), "a request that fails is answered with the disk's error");
}

/* --- The rest ------------------------------------------------------------------------------------------------ */

static void the_file_is_described(void)
{
	ok(!decode(FUSE_GETATTR, "", 0, 0) && answered() == sizeof answer.attributes &&
	       answer.attributes.attr.size == BYTES && answer.attributes.attr.mode == (S_IFREG | 0600) &&
	       answer.attributes.attr_valid > 1000000,
	   "the file has the disk's size, for as long as the kernel may remember it");
	ok(!decode(FUSE_SETATTR, "", 0, 0) && answered_error(EPERM), "changing the file's attributes gets EPERM");
	ok(!decode(FUSE_OPEN, "", 0, 0) && answered() == sizeof answer.opened &&
	       answer.opened.open_flags == FOPEN_DIRECT_IO,
	   "the file opens for direct I/O");
	ok(!decode(FUSE_RELEASE, "", 0, 0) && answered_error(0), "the file is closed");
	ok(!decode(FUSE_STATFS, "", 0, 0) && answered() == sizeof answer.statistics &&
	       answer.statistics.st.bsize == STORE_PAGE,
	   "the file system has blocks of a page");
}

static void other_messages_need_no_disk(void)
{
	ok(!decode(FUSE_FORGET, "", 0, 0) && !decode(FUSE_BATCH_FORGET, "", 0, 0) && answered() < 0,
	   "messages that need no answer get none");
	ok(!decode(FUSE_INTERRUPT, "", 0, 0) && answered_error(ENOSYS), "an interrupt gets ENOSYS");
	ok(!decode(FUSE_LOOKUP, "name", 5, 0) && answered_error(ENOSYS), "an unknown operation gets ENOSYS");
	ok(!fuse_file_decode(&file, &slot, 8) && answered() < 0, "half a header is dropped");
	ok(!fuse_file_decode(&file, &slot, FUSE_FILE_HEADERS) && answered() < 0,
	   "a message whose length differs from its header is dropped");
}

int main(void)
{
	struct store *store;
	uint8_t *arena;
	int fds[2];

	if (store_open_memory(BYTES / STORE_PAGE, &store) < 0 || disk_open(store, BYTES, &file.disk) < 0 ||
	    posix_memalign((void **)&arena, STORE_PAGE, STORE_PAGE + REQUEST_BYTES) != 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) < 0)
		return EXIT_FAILURE;
	kernel = fds[0];
	slot = (struct fuse_slot){.data = arena + STORE_PAGE, .fd = fds[1]};
	a_greeting_agrees_on_the_protocol();
	reads_stay_inside_the_file();
	writes_stay_inside_the_file();
	ranges_are_released_and_writes_flushed();
	the_file_is_described();
	other_messages_need_no_disk();
	close(fds[0]);
	close(fds[1]);
	free(arena);
	disk_close(file.disk);
	store_close(store);
	return tap_done();
}
